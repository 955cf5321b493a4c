"""Stamps: the kernel's where it gives them, the read's elsewhere, and what each says of the client's own delay."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gevent
import pytest
from gevent import monkey
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.measure.record import Clock, RequestRecord, Transit
from locust_llm.measure.timeline import Timeline
from locust_llm.wire import collector as collector_module
from locust_llm.wire import connect as connect_module
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import APIS
from locust_llm.wire.collector import collector
from locust_llm.wire.connect import Route
from locust_llm.wire.connection import Connection
from locust_llm.wire.http1 import Http1Reply
from locust_llm.wire.transport import TimedStream
from tests.replay import DONE, ROLE, STOP, C, End, R, Replay, Script, U, chunk, delta, head, stream
from tests.wire.asking import CALL, client_of

MS = 1_000_000
TOKENS = stream((20, ROLE), (80, C("a")), (180, C("b")), (240, C("c") + STOP + U(3, 3) + DONE))
"""Tests block the hub while the first token comes, and set it free before the second."""
_sleep: Any = monkey.get_original("time", "sleep")
_poll: Any = monkey.get_original("select", "poll")


def request(server: Replay) -> RequestRecord:
    client = client_of(server.url)
    record = client.request(CALL)
    client.close()
    assert record.error is None
    return record


def test_kernel_stamps_are_right_while_the_hub_is_blocked() -> None:
    """D83: a busy loop between a packet and its read moves no stamp, and `max_lag_ns` says how late the read was."""
    with Replay(TOKENS) as server:
        request(server)
        asking = gevent.spawn(request, server)
        while len(server.exchanges) < 2:
            gevent.sleep(0.001)
        gevent.sleep(0.04)
        _sleep(0.09)
        unblocked_ns = time.monotonic_ns()
        record = asking.get(timeout=10)
        sent = server.exchanges[1].sent_ns
        assert record.transit.clock is Clock.KERNEL
        assert sent[2] <= record.event_ns[0] <= sent[3]
        assert record.event_ns[0] < unblocked_ns - 20 * MS
        assert record.transit.max_lag_ns is not None
        assert record.transit.max_lag_ns >= 20 * MS


@pytest.fixture
def without_kernel_stamps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on systems that have no SO_TIMESTAMPING and no epoll."""

    monkeypatch.setattr(connect_module, "ask_for_stamps", lambda socket: socket)
    monkeypatch.setattr(collector_module, "ask_for_stamps", lambda socket: socket)
    monkeypatch.setattr(collector_module, "_make_poll", _poll)
    monkeypatch.setattr(collector_module, "_collectors", type(collector_module._collectors)())
    yield
    collector().close()


@pytest.mark.usefixtures("without_kernel_stamps")
def test_elsewhere_stamps_are_those_of_the_reads() -> None:
    with Replay(TOKENS, replace(TOKENS, close_ms=0)) as server:
        client = client_of(server.url)
        for reused in (False, True, False):  # the second answer's connection is closed, and seen to be
            record = client.request(CALL)
            assert record.error is None
            assert (record.transit.clock, record.transit.max_lag_ns) == (Clock.READ, None)
            assert (record.transit.reused, record.transit.stale_retries) == (reused, 0)
            sent = server.exchanges[-1].sent_ns
            assert all(at >= send for at, send in zip(record.event_ns, sent[2:], strict=True))
            assert record.event_ns[0] < sent[3]
            gevent.sleep(0.05)
        client.close()
        assert not collector()._has_descriptor


@pytest.mark.usefixtures("without_kernel_stamps")
def test_elsewhere_a_blocked_hub_delays_them() -> None:
    """Which is why the record says whose stamps they are."""
    with Replay(TOKENS) as server:
        asking = gevent.spawn(request, server)
        while not server.exchanges:
            gevent.sleep(0.001)
        gevent.sleep(0.04)
        _sleep(0.09)
        unblocked_ns = time.monotonic_ns()
        assert asking.get(timeout=10).event_ns[0] >= unblocked_ns


@pytest.mark.parametrize("step_ns", [2_000 * MS, -2_000 * MS], ids=["forwards", "backwards"])
def test_a_step_of_the_wall_clock_during_a_stream(step_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """D81: no gap is 2 s longer or negative. The reads around the step have their own time, and the record says so."""
    clock = collector().clock
    monkeypatch.setattr(clock, "_wall_ns", clock._wall_ns)
    with Replay(TOKENS) as server:
        request(server)
        steps = clock.steps
        asking = gevent.spawn(request, server)
        while not (len(server.exchanges) == 2 and len(server.exchanges[1].sent_ns) == 3):
            gevent.sleep(0.001)
        # The clock that packets are stamped with cannot be stepped here; to the client it looks the same the other
        # way round: its idea of wall - monotonic is off by the step until its next look.
        clock.offset_ns -= step_ns
        record = asking.get(timeout=10)
        assert clock.steps == steps + 1
        assert record.transit.clock is Clock.READ
        sent = server.exchanges[1].sent_ns
        assert all(0 <= at - send < 1_000 * MS for at, send in zip(record.event_ns, sent[2:], strict=True))
        assert request(server).transit.clock is Clock.KERNEL


def test_the_end_of_the_connection_has_no_stamp_and_needs_none() -> None:
    """A close-delimited answer is the kernel's to the last token."""
    script = Script(((0, head(content_type="text/event-stream")), (20, C("a")), (60, C("b") + STOP + DONE)), End.FIN)
    with Replay(script) as server:
        assert request(server).transit.clock is Clock.KERNEL


def test_lags_are_counted_for_every_read() -> None:
    with Replay(TOKENS) as server:
        before = sum(collector().lags)
        record = request(server)
        assert sum(collector().lags) - before == record.transit.reads


# -- any interleaving ------------------------------------------------------------------------------------------------


class Packets:
    """A socket whose packets a test lets in piece by piece; a piece has its packet's stamp, as with the kernel's."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()  # a descriptor that is never ready
        self.pieces: list[tuple[int, bytes]] = []
        self.ended = False
        self.fileno = self._near.fileno

    def recvmsg(self, _size: int, _ancillary: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        if self.pieces:
            at_ns, data = self.pieces.pop(0)
            wall = at_ns + collector().clock.offset_ns
            return data, [(1, 37, struct.pack("@ll", *divmod(wall, 1_000 * MS)))], 0, None
        if self.ended:
            return b"", [], 0, None
        raise BlockingIOError

    def send(self, data: memoryview) -> int:
        return len(data)

    def close(self) -> None:
        self._near.close()
        self._far.close()


BASE_NS = time.monotonic_ns() - 3_600 * 1_000 * MS

events = st.lists(
    st.sampled_from(
        [
            ROLE,
            C("a"),
            C("Hello"),
            C("ü€🙂"),
            R("think"),
            C("x", index=1),
            STOP,
            delta({}, index=1, finish="length"),
            U(5, 7),
            b": ping\n\n",
            b"event: x\r\ndata: {}\r\n\r\n",
            b"data: {\n\n",
        ]
    ),
    max_size=14,
)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[tuple[int, bytes]], list[list[int]], list[int]]:
    """(packets with stamps, where each is cut into reads, how many reads pass between two takes of a batch)."""
    body = b"".join(draw(events)) + draw(st.sampled_from([DONE, b"", DONE + C("late")]))
    cuts = sorted(set(draw(st.lists(st.integers(0, len(body)), max_size=10))))
    wire = head(content_type="text/event-stream", transfer_encoding="chunked")
    for begin, end in pairwise([0, *cuts, len(body)]):
        wire += chunk(body[begin:end]) if end > begin else b""
    wire += draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b""]))
    places = sorted(set(draw(st.lists(st.integers(1, len(wire) - 1), max_size=12))))
    packets = [(BASE_NS + number * MS, wire[b:e]) for number, (b, e) in enumerate(pairwise([0, *places, len(wire)]))]
    reads = [sorted(set(draw(st.lists(st.integers(1, max(len(p) - 1, 1)), max_size=3)))) for _, p in packets]
    takes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=10))
    return packets, reads, takes


def delivered(pieces: list[tuple[int, bytes]], takes: Iterator[int]) -> RequestRecord:
    """The record of what comes out when `pieces` are read one by one, and batches taken after so many reads."""
    packets = Packets()
    connection = Connection(packets, None, Route("http", "h", 1))
    timeline = Timeline("t", started_ns=BASE_NS)
    timeline.transit = Transit()
    reply = Http1Reply(b"[DONE]")
    connection.send(b"", reply, timeline.transit, None)
    timeline.transit.sent_ns = BASE_NS
    left = list(pieces)

    def let_in(count: int) -> None:
        for piece in left[:count]:
            packets.pieces.append(piece)
            connection._read()
        del left[:count]

    while reply.headers_ns is None and left:
        let_in(1)
    timed = TimedStream(connection, reply)
    answer = Answer(APIS["chat"], timeline, CALL, status=timed.status, headers=timed.fields())
    batches = timed.batches(0.0)
    for batch in batches:
        answer.feed_all(batch)
        if answer.finished:
            break
        let_in(next(takes))
        if not left:
            packets.ended = True
            connection._read()
    let_in(len(left))
    answer.end(BASE_NS + 1_000 * MS, clean=timed.clean)
    batches.close()
    connection.close()
    return timeline.freeze(BASE_NS + 2_000 * MS)


def facts(record: RequestRecord) -> dict[str, Any]:
    """All that a reader of the record sees, but for how often we read."""
    told = {name: getattr(record, name) for name in RequestRecord.__slots__ if name != "transit"}
    return told | {"clock": record.transit.clock, "headers_ns": record.transit.headers_ns}


@settings(max_examples=150, deadline=None)
@given(deliveries())
def test_any_interleaving_gives_the_record_of_reading_byte_by_byte(
    delivery: tuple[list[tuple[int, bytes]], list[list[int]], list[int]],
) -> None:
    """Packets read whole or in pieces, batches taken whenever: text, times, tokens, verdict are the same."""
    packets, reads, takes = delivery
    pieces = [
        (at_ns, data[begin:end])
        for (at_ns, data), places in zip(packets, reads, strict=True)
        for begin, end in pairwise([0, *places, len(data)])
        if begin < end
    ]
    single = [(at_ns, data[place : place + 1]) for at_ns, data in packets for place in range(len(data))]

    def cycle(counts: list[int]) -> Iterator[int]:
        while True:
            yield from counts
            yield 1  # something has to come

    assert facts(delivered(pieces, cycle(takes))) == facts(delivered(single, cycle([1])))


def test_descriptors_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    delivered([(BASE_NS, head(content_length="0"))], iter([1] * 10))
    assert len(os.listdir("/proc/self/fd")) == before
