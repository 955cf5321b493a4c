"""Collector and Bell: who is woken when, who reads what, and when draining is paced."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import gevent
import pytest
from gevent import monkey

from locust_llm.wire import collector as module
from locust_llm.wire.bell import Bell
from locust_llm.wire.collector import Collector, collector

MS = 1_000_000
_poll: Any = monkey.get_original("select", "poll")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    yield near, far
    near.close()
    far.close()


@pytest.fixture(params=["epoll", "poll"])
def own(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> Iterator[Collector]:
    """A collector of its own, on Linux's epoll and as on systems without it. It closes before the sockets do."""
    if request.param == "poll":
        monkeypatch.setattr(module, "_make_poll", _poll)
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def pacer(pair: tuple[socket.socket, socket.socket]) -> Iterator[Collector]:
    """One that can pace, which needs epoll."""
    made = Collector()
    yield made
    made.close()


def reading(sock: socket.socket, into: list[bytes]) -> Callable[[], None]:
    raw: Any = sock._sock  # type: ignore[attr-defined]

    def read() -> None:
        try:
            into.append(raw.recv(100))
        except BlockingIOError:
            return

    return read


def test_one_per_hub() -> None:
    assert collector() is collector()


def test_the_hub_reads_what_is_ready(own: Collector, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    seen: list[bytes] = []
    own.add(near.fileno(), reading(near, seen))
    far.sendall(b"a")
    for _ in range(200):
        if seen:
            break
        gevent.sleep(0.005)
    assert seen == [b"a"]
    own.remove(near.fileno())
    far.sendall(b"b")
    own.drain()
    gevent.sleep(0.01)
    assert seen == [b"a"]


def test_drain_reads_at_once(own: Collector, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    seen: list[bytes] = []
    own.add(near.fileno(), reading(near, seen))
    far.sendall(b"a")
    own.drain()
    assert seen == [b"a"]
    far.sendall(b"b")
    own._drained_ns = time.monotonic_ns() + 1_000 * MS  # drained just now
    own.drain_due()
    assert seen == [b"a"]
    own._drained_ns = 0
    own.drain_due()
    assert seen == [b"a", b"b"]


def test_a_drain_within_a_drain_does_nothing(own: Collector, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    seen: list[bytes] = []
    read = reading(near, seen)

    def read_and_drain() -> None:
        own.drain()
        read()

    own.add(near.fileno(), read_and_drain)
    far.sendall(b"a")
    own.drain()
    assert seen == [b"a"]


def test_a_reader_that_raises_harms_no_other(
    own: Collector, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    near, far = pair
    other_near, other_far = socket.socketpair()
    seen: list[bytes] = []

    def broken() -> None:
        raise RuntimeError("a bug")

    own.add(near.fileno(), broken)
    own.add(other_near.fileno(), reading(other_near, seen))
    far.sendall(b"a")
    other_far.sendall(b"b")
    with caplog.at_level(logging.ERROR):
        own.drain()
    assert seen == [b"b"]
    assert [record.message for record in caplog.records] == [
        "reading a stream failed; its connection is left alone from now on"
    ]
    own.remove(other_near.fileno())
    other_near.close()
    other_far.close()


def test_removing_twice_is_fine(own: Collector, pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    own.add(near.fileno(), lambda: None)
    own.remove(near.fileno())
    own.remove(near.fileno())


def test_more_sockets_than_one_poll_tells(own: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READY_AT_ONCE", 3)
    pairs = [socket.socketpair() for _ in range(8)]
    seen: list[bytes] = []
    for number, (near, far) in enumerate(pairs):
        own.add(near.fileno(), reading(near, seen))
        far.sendall(b"%d" % number)
    own.drain()
    assert sorted(seen) == [b"%d" % number for number in range(8)]
    for near, far in pairs:
        own.remove(near.fileno())
        near.close()
        far.close()


def test_it_waits_for_room(own: Collector, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    bell = Bell(own)
    raw: Any = near._sock  # type: ignore[attr-defined]
    assert own.wait_for_room(near.fileno(), bell, time.monotonic_ns() + 5_000 * MS)
    sent = raw.send(bytes(65536))
    with suppress(BlockingIOError):
        while True:
            sent += raw.send(bytes(65536))
    assert not own.wait_for_room(near.fileno(), bell, time.monotonic_ns() + 20 * MS)
    gevent.spawn(far.recv, sent)
    assert own.wait_for_room(near.fileno(), bell, None)


# -- bells -----------------------------------------------------------------------------------------------------------


def test_a_bell_wakes_its_sleeper(own: Collector) -> None:
    bell = Bell(own)
    gevent.spawn_later(0.01, bell.ring)
    assert bell.wait(time.monotonic_ns() + 10_000 * MS)


def test_a_bell_rung_before_is_not_missed(own: Collector) -> None:
    bell = Bell(own)
    bell.ring()
    bell.ring()
    assert bell.wait()
    assert not bell.wait(time.monotonic_ns() + 15 * MS)


def test_time_over(own: Collector) -> None:
    bell = Bell(own)
    begun_ns = time.monotonic_ns()
    assert not bell.wait(begun_ns + 30 * MS)
    assert time.monotonic_ns() >= begun_ns + 30 * MS


def test_an_alarm_of_an_earlier_sleep_wakes_nobody(own: Collector) -> None:
    bell = Bell(own)
    gevent.spawn_later(0.005, bell.ring)
    assert bell.wait(time.monotonic_ns() + 30 * MS)
    gevent.spawn_later(0.1, bell.ring)
    assert bell.wait(time.monotonic_ns() + 10_000 * MS), "the first sleep's alarm ended the second sleep"


def test_alarms_of_sleeps_that_are_over_do_not_pile_up(own: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may wait for its headers for minutes, and seldom does."""
    monkeypatch.setattr("locust_llm.wire.bell.HORIZON_NS", 30 * MS)
    bell = Bell(own)
    hour_ns = 3_600_000 * MS
    for _ in range(20):
        own.loop.run_callback(bell.ring)
        assert bell.wait(time.monotonic_ns() + hour_ns)
    gevent.sleep(0.06)
    assert own._alarms == []
    gevent.spawn_later(0.1, bell.ring)
    assert bell.wait(time.monotonic_ns() + hour_ns), "beyond the horizon the sleep goes on"


def test_alarms_ring_in_order(own: Collector) -> None:
    rung: list[int] = []
    now_ns = time.monotonic_ns()

    def sleeper(number: int) -> None:
        Bell(own).wait(now_ns + number * 40 * MS)
        rung.append(number)

    gevent.joinall([gevent.spawn(sleeper, number) for number in (3, 1, 2)])
    assert rung == [1, 2, 3]
    gevent.sleep(0.03)
    assert own._timer is None, "nothing is left to wait for"


def test_a_killed_sleeper_leaves_the_bell_usable(own: Collector) -> None:
    bell = Bell(own)
    sleeper = gevent.spawn(bell.wait, time.monotonic_ns() + 10_000 * MS)
    gevent.sleep(0)
    sleeper.kill()
    bell.ring()
    assert bell.wait(time.monotonic_ns() + 10_000 * MS)


# -- pacing ----------------------------------------------------------------------------------------------------------

REVIEWS: list[tuple[str, bool, int, int, int, bool]] = [
    # id, paced before, reads in 100 ms, unstamped, merged, paced after
    ("few reads", False, 20, 0, 0, False),
    ("many reads", False, 500, 0, 0, True),
    ("many reads stay paced", True, 500, 0, 0, True),
    ("in between nothing changes: readiness", False, 80, 0, 0, False),
    ("in between nothing changes: paced", True, 80, 0, 0, True),
    ("the load went away", True, 20, 0, 0, False),
    ("no kernel stamps", False, 500, 500, 0, False),
    ("kernel stamps went missing", True, 500, 20, 0, False),
    ("a step of the clock cost one drain its stamps", True, 500, 5, 0, True),
    ("tokens would merge", True, 500, 0, 60, False),
    ("the server sends several pieces at once", False, 500, 0, 60, False),
    ("ends of answers hold several pieces", True, 500, 0, 20, True),
]


@pytest.mark.parametrize(
    ("paced", "reads", "unstamped", "merged", "after"),
    [case[1:] for case in REVIEWS],
    ids=[case[0] for case in REVIEWS],
)
def test_pacing(pacer: Collector, paced: bool, reads: int, unstamped: int, merged: int, after: bool) -> None:
    if paced:
        pacer._pace(True)
    pacer._reads, pacer.unstamped, pacer.merged = reads, unstamped, merged
    pacer._review(pacer._reviewed_ns + 100 * MS)
    assert pacer.paced is after
    assert (pacer._reads, pacer.unstamped, pacer.merged) == (0, 0, 0)
    assert pacer._watcher.active is not after


def test_pacing_is_left_alone_for_a_while_after_it_merged(pacer: Collector) -> None:
    pacer._pace(True)
    start_ns = pacer._reviewed_ns
    reviews = [(100, 500, 60, False), (200, 500, 0, False), (2_000, 25_000, 0, False), (2_200, 1_000, 0, True)]
    for at_ms, reads, merged, paced in reviews:
        pacer._reads, pacer.merged = reads, merged
        pacer._review(start_ns + at_ms * MS)
        assert pacer.paced is paced, at_ms


@pytest.mark.parametrize(("gap_ms", "counts"), [(-1_000, True), (30, False)], ids=["on time", "late"])
def test_what_a_stall_merged_says_nothing_against_pacing(
    pacer: Collector, pair: tuple[socket.socket, socket.socket], gap_ms: int, counts: bool
) -> None:
    near, far = pair
    read = reading(near, [])

    def merging() -> None:
        read()
        pacer.merged += 1

    pacer.add(near.fileno(), merging)
    far.sendall(b"a")
    pacer._begun_ns = time.monotonic_ns() - gap_ms * MS
    pacer.drain()
    assert pacer.merged == int(counts)


@pytest.mark.parametrize("paced", [True, False], ids=["paced", "not paced"])
def test_paced_or_not_everything_is_read_and_alarms_ring(
    pacer: Collector, pair: tuple[socket.socket, socket.socket], paced: bool
) -> None:
    near, far = pair
    seen: list[bytes] = []
    pacer.add(near.fileno(), reading(near, seen))
    pacer._pace(True)
    pacer._pace(paced)
    far.sendall(b"a")
    assert not Bell(pacer).wait(time.monotonic_ns() + 30 * MS)
    assert seen == [b"a"]


def test_many_reads_are_paced_and_few_are_not(
    pacer: Collector, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it: the load alone switches pacing on and off."""
    monkeypatch.setattr(module, "PACE_ABOVE", 50)
    near, far = pair
    seen: list[bytes] = []
    pacer.add(near.fileno(), reading(near, seen))
    deadline = time.monotonic() + 20
    while not pacer.paced and time.monotonic() < deadline:
        far.sendall(b"a")
        gevent.sleep(0.001)
    assert pacer.paced
    while pacer.paced and time.monotonic() < deadline:
        gevent.sleep(0.02)
    assert not pacer.paced
