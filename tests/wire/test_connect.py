"""Opening connections: one look-up for all who ask, failures told apart, and the time of each phase."""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gevent
import gevent.event
import gevent.socket
import pytest

from locust_llm.measure.record import Transit
from locust_llm.wire import connect as module
from locust_llm.wire.client import ssl_context
from locust_llm.wire.connect import Resolver, Route, open_connection
from tests.replay import DONE, STOP, C, Replay, stream
from tests.wire.asking import CALL, client_of, open_descriptors

ANSWER = stream((0, C("a") + STOP + DONE))
FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


class SlowNames:
    """A name service that takes until it is told to answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any = FOUND) -> None:
        self.asked: list[tuple[str, int]] = []
        self.answer = answer
        self.go = gevent.event.Event()
        monkeypatch.setattr(gevent.socket, "getaddrinfo", self)

    def __call__(self, host: str, port: int, **_: Any) -> Any:
        self.asked.append((host, port))
        self.go.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> SlowNames:
    return SlowNames(monkeypatch)


def test_users_that_start_at_once_share_one_look_up(names: SlowNames) -> None:
    """D80: gevent has ten resolver threads; the last of 500 users would wait for 50 rounds of them."""
    resolve = Resolver()
    asking = [gevent.spawn(resolve, "engine.test", 80) for _ in range(500)]
    gevent.sleep(0)
    names.go.set()
    gevent.joinall(asking, raise_error=True)
    assert {id(one.value) for one in asking} == {id(FOUND)}
    assert names.asked == [("engine.test", 80)]


def test_they_share_a_failing_one_too(names: SlowNames) -> None:
    names.answer = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    resolve = Resolver()
    asking = [gevent.spawn(resolve, "nowhere.test", 80) for _ in range(50)]
    gevent.sleep(0)
    names.go.set()
    gevent.joinall(asking)
    assert [type(one.exception) for one in asking] == [socket.gaierror] * 50
    assert {one.exception.errno for one in asking} == {socket.EAI_NONAME}
    assert len(names.asked) == 1
    with pytest.raises(socket.gaierror):
        resolve("nowhere.test", 80)
    assert len(names.asked) == 2, "a failure is not kept"


def test_the_first_who_asks_may_be_killed(names: SlowNames) -> None:
    resolve = Resolver()
    first, second = gevent.spawn(resolve, "engine.test", 80), gevent.spawn(resolve, "engine.test", 80)
    gevent.sleep(0)
    first.kill()
    names.go.set()
    assert second.get(timeout=10) == FOUND
    assert len(names.asked) == 1


def test_names_are_kept_for_a_minute(names: SlowNames, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: now[0])
    names.go.set()
    resolve = Resolver()
    for at_s, asked in ((0, 1), (59, 1), (61, 2), (62, 2)):
        now[0] = at_s * 1_000_000_000
        assert resolve("engine.test", 80) == FOUND
        assert len(names.asked) == asked
    assert resolve("engine.test", 81) == FOUND
    assert len(names.asked) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_needs_no_look_up(host: str, names: SlowNames) -> None:
    assert Resolver()(host, 80)[0][4][:2] == (host, 80)
    assert names.asked == []


def test_a_name_that_dns_cannot_hold() -> None:
    record = client_of(f"http://{'a' * 70}.test").request(CALL)
    assert record.error == "connect failed: name not found"


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def full_queue() -> Iterator[int]:
    """A port whose queue of connections is full, so that a new one is neither accepted nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        gevent.sleep(0.05)
        yield port
        for one in waiting:
            one.close()


def test_connect_timeout(full_queue: int) -> None:
    before = open_descriptors()
    record = client_of(f"http://127.0.0.1:{full_queue}", connect_timeout_s=0.1).request(CALL)
    assert record.error == "connect failed: timeout"
    assert record.transit.sent_ns is None
    assert open_descriptors() == before


def test_refused() -> None:
    with Replay(ANSWER) as server:
        pass
    record = client_of(server.url).request(CALL)
    assert (record.error, record.transit.sent_ns) == ("connect failed: refused", None)


def test_name_not_found(names: SlowNames) -> None:
    names.answer = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    names.go.set()
    assert client_of("http://nowhere.test").request(CALL).error == "connect failed: name not found"


def test_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own word for it, by an address that no route leads to."""

    class Stranded:
        def __init__(self, *_: object) -> None: ...
        def setblocking(self, _: bool) -> None: ...
        def setsockopt(self, *_: object) -> None: ...
        def close(self) -> None: ...
        def connect_ex(self, _: object) -> int:
            return errno.ENETUNREACH

    monkeypatch.setattr(module, "_socket", Stranded)
    assert client_of("http://203.0.113.1").request(CALL).error == "connect failed: unreachable"


def test_too_many_open_files() -> None:
    """D79: the client's own limit is not the server's failure."""
    with Replay(ANSWER) as server:
        client_of(server.url).request(CALL)  # everything that a first request opens is open
        filled: list[socket.socket] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + 8, hard))
            with suppress(OSError):
                while True:
                    filled.append(socket.socket())
            record = client_of(server.url).request(CALL)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for one in filled:
                one.close()
        assert record.error == "client: too many open files"
        assert client_of(server.url).request(CALL).success


# -- the way in ------------------------------------------------------------------------------------------------------


def test_the_next_address_is_tried(names: SlowNames) -> None:
    """A name such as localhost may have an address that nothing listens at."""
    with Replay(ANSWER) as server:
        names.answer = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port)),
        ]
        names.go.set()
        assert client_of(f"http://engine.test:{server.port}").request(CALL).success


def test_no_address_at_all(names: SlowNames) -> None:
    names.answer = []
    names.go.set()
    with pytest.raises(OSError, match="no address"):
        open_connection(Route("http", "engine.test", 80), Transit(), ssl_context())


def test_a_slow_look_up_is_in_no_ttft(names: SlowNames) -> None:
    """D80: DNS is timed apart and stands before `sent`."""
    with Replay(ANSWER) as server:
        names.answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        asking = gevent.spawn(client_of(f"http://engine.test:{server.port}").request, CALL)
        gevent.sleep(0.15)
        names.go.set()
        record = asking.get(timeout=10)
        transit = record.transit
        assert transit.dns_ns >= 140_000_000
        assert record.connect_ms >= 140
        assert transit.sent_ns - record.started_ns >= transit.dns_ns + transit.tcp_ns
        assert record.ttft_ms < record.connect_ms
