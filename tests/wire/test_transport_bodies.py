"""StreamTransport over real sockets: every framing, coding and end of a body, and when its pieces arrived."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from typing import Any

import brotli
import httpx
import pytest

from locust_llm.measure.record import Clock, Transit
from locust_llm.wire.decompress import CorruptBody
from locust_llm.wire.transport import StreamTransport, TimedStream
from tests.replay import DONE, C, End, Replay, Script, answer, bytewise, chunk, head, stream
from tests.wire.asking import eventually

MS = 1_000_000
POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
EVENTS = [C("a"), C("b"), DONE]
TEXT = b"".join(EVENTS)
CHUNKED = head(transfer_encoding="chunked")
SSE = {"content_type": "text/event-stream"}


def ask(server: Replay, transport: StreamTransport | None = None) -> tuple[TimedStream, Transit]:
    transport = transport if transport is not None else StreamTransport()
    transit = Transit()
    return transport.exchange(transport.route(httpx.URL(server.url)), POST, transit, connect_s=10), transit


def read(timed: TimedStream) -> bytes:
    return b"".join(data for batch in timed.batches() for _, data in batch)


@dataclass(frozen=True)
class Case:
    """An answer, the body it has, and whether it ended as its framing promised."""

    id: str
    script: Script
    body: bytes = TEXT
    clean: bool = True


def timed(*parts: bytes, end: End, every_ms: float = 10, **fields: str) -> Script:
    """A body without chunks, its parts sent apart."""
    sends = ((every_ms * (number + 1), part) for number, part in enumerate(parts))
    return Script(((0, head(**SSE, **fields)), *sends), end)


CASES = [
    Case("chunked", stream((10, EVENTS[0]), (20, EVENTS[1]), (30, EVENTS[2]))),
    Case("chunked, one send", Script(((0, CHUNKED + chunk(TEXT) + b"0\r\n\r\n"),))),
    Case(
        "chunked, byte by byte",
        Script(tuple(bytewise(CHUNKED + chunk(TEXT) + b"0\r\n\r\n", 0))),
    ),
    Case(
        "chunked with trailers (D02 e)",
        Script(((0, CHUNKED + chunk(TEXT)), (10, b"0\r\nX-Usage: 5\r\n"), (20, b"\r\n"))),
    ),
    Case("content-length", timed(*EVENTS, end=End.END, content_length=str(len(TEXT)))),
    Case("close-delimited", timed(*EVENTS, end=End.FIN)),
    Case(
        "1xx before the answer",
        Script(
            ((0, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), (10, head(content_length=str(len(TEXT))) + TEXT))
        ),
    ),
    Case(
        "no last chunk (D02 c)",
        stream((10, EVENTS[0]), (20, EVENTS[1]), end=End.FIN),
        EVENTS[0] + EVENTS[1],
        clean=False,
    ),
    Case(
        "chunk cut short",
        Script(((0, CHUNKED + b"ff\r\nabc"),), End.FIN),
        b"abc",
        clean=False,
    ),
    Case(
        "content-length cut short (D02 d)", timed(EVENTS[0], end=End.FIN, content_length="500"), EVENTS[0], clean=False
    ),
    Case("empty", answer("200 OK", b""), b""),
    Case("no content", Script(((0, head("204 No Content")),)), b""),
]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_bodies(case: Case) -> None:
    with Replay(case.script) as server:
        reply, _ = ask(server)
        assert read(reply) == case.body
        assert reply.clean is case.clean


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_httpx_reads_the_same(case: Case) -> None:
    """The transport under an httpx.Client: the whole of its API works on it, and errors are its own."""
    with Replay(case.script) as server, httpx.Client(transport=StreamTransport(), trust_env=False) as client:
        if case.clean:
            assert client.post(server.url, json={}).content == case.body
        else:
            with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
                client.post(server.url, json={})


def test_what_httpx_is_told() -> None:
    with Replay(answer("404 Not Found", b'{"e":1}')) as server, httpx.Client(transport=StreamTransport()) as client:
        response = client.post(server.url + "/v1/x?y=z", json={"a": 1}, headers={"X-A": "b"})
        assert (response.status_code, response.json()) == (404, {"e": 1})
        [exchange] = server.exchanges
        assert (exchange.method, exchange.target, exchange.json) == ("POST", "/v1/x?y=z", {"a": 1})
        assert ("x-a", "b") in exchange.headers
        assert ("host", f"127.0.0.1:{server.port}") in exchange.headers


def test_httpx_read_timeout() -> None:
    script = stream((0, EVENTS[0]), end=End.HOLD)
    with Replay(script) as server, httpx.Client(transport=StreamTransport(), timeout=0.05) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(server.url)
        eventually(lambda: server.exchanges[0].left_ns, "the connection is closed")


# -- compressed, though `identity` was asked for (D24) ---------------------------------------------------------------


def compressed(kind: str, flush: bool) -> list[bytes]:
    """Each event's bytes, compressed as `kind`; without `flush` nearly all come with the last one."""
    if kind == "br":
        brotlis = brotli.Compressor()
        parts = [brotlis.process(event) + (brotlis.flush() if flush else b"") for event in EVENTS]
        return [*parts[:-1], parts[-1] + brotlis.finish()]
    window = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS, "raw deflate": -zlib.MAX_WBITS}[kind]
    deflate = zlib.compressobj(wbits=window)
    parts = [deflate.compress(event) + (deflate.flush(zlib.Z_SYNC_FLUSH) if flush else b"") for event in EVENTS]
    return [*parts[:-1], parts[-1] + deflate.flush()]


CODINGS = ["gzip", "deflate", "raw deflate", "br"]


@pytest.mark.parametrize("flush", [True, False], ids=["flushed", "not flushed"])
@pytest.mark.parametrize("kind", CODINGS)
def test_compressed_bodies(kind: str, flush: bool) -> None:
    """D24: flushed, each event has its own read's time; not flushed, all have the last one's."""
    parts = compressed(kind, flush)
    steps = [(40.0 * (number + 1), part) for number, part in enumerate(parts) if part]
    with Replay(stream(*steps, content_encoding=kind.removeprefix("raw "))) as server:
        reply, _ = ask(server)
        got = [pair for batch in reply.batches() for pair in batch]
        assert b"".join(data for _, data in got) == TEXT
        assert reply.clean
        apart = [data for _, data in got]
        assert apart == (EVENTS if flush else [TEXT])
        assert len({at for at, _ in got}) == len(apart)


@pytest.mark.parametrize("kind", CODINGS)
def test_compressed_bodies_byte_by_byte(kind: str) -> None:
    body = b"".join(compressed(kind, flush=True))
    with Replay(stream(*bytewise(body, 0), content_encoding=kind.removeprefix("raw "))) as server:
        assert read(ask(server)[0]) == TEXT


@pytest.mark.parametrize("cut", [0, 1, 11], ids=["after a member", "within a header", "within a member"])
def test_gzip_in_several_members(cut: int) -> None:
    members = [gzip.compress(event) for event in EVENTS]
    body, at = b"".join(members) + bytes(8), len(members[0]) + cut
    with Replay(stream((0, body[:at]), (10, body[at:]), content_encoding="x-gzip")) as server:
        assert read(ask(server)[0]) == TEXT


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", b"data: plain\n\n"), ("br", b"\xff" * 40), ("deflate", b"\xff\xff\xff"), ("zstd", b"(\xb5/\xfd")],
    ids=str,
)
def test_a_body_that_is_not_what_it_says(coding: str, body: bytes) -> None:
    with Replay(stream((0, body), content_encoding=coding)) as server:
        reply, _ = ask(server)
        with pytest.raises(CorruptBody):
            read(reply)


# -- when -------------------------------------------------------------------------------------------------------------


def test_each_piece_has_its_arrival() -> None:
    steps = [(60.0 * (number + 1), event) for number, event in enumerate(EVENTS)]
    with Replay(stream(*steps)) as server:
        reply, transit = ask(server)
        at = [at_ns for batch in reply.batches() for at_ns, _ in batch]
        sent = server.exchanges[0].sent_ns
        assert transit.sent_ns is not None
        assert transit.sent_ns <= server.exchanges[0].read_ns
        assert [stamp >= send for stamp, send in zip(at, sent[1:], strict=True)] == [True] * 3
        assert [stamp < following for stamp, following in zip(at, sent[2:], strict=False)] == [True] * 2
        assert transit.headers_ns is not None
        assert sent[0] <= transit.headers_ns <= sent[1]
        assert transit.end_ns == at[-1]
        assert transit.clock is Clock.KERNEL
        assert transit.reads == 4
        assert transit.received_bytes == sum(len(data) for _, data in server_sends(steps))


def server_sends(steps: list[tuple[float, bytes]]) -> tuple[tuple[float, bytes], ...]:
    return stream(*steps).sends


def test_the_phases_of_a_connection_are_timed_apart() -> None:
    with Replay(answer("200 OK", b"{}")) as server:
        transport = StreamTransport()
        for reused in (False, True):
            reply, transit = ask(server, transport)
            read(reply)
            assert transit.reused is reused
            assert (transit.dns_ns is None, transit.tcp_ns is None) == (reused, reused)
            assert transit.tls_ns is None
        transport.close()


def test_batches_come_apart_while_nothing_does() -> None:
    """The reader may look at its deadlines though no byte comes."""
    with Replay(stream((0, EVENTS[0]), (120, DONE))) as server:
        reply, _ = ask(server)
        batches = list(reply.batches(0.02))
        assert batches.count([]) >= 2
        assert b"".join(data for batch in batches for _, data in batch) == EVENTS[0] + DONE


def test_last_words_wake_the_reader_before_the_end() -> None:
    transport = StreamTransport(end_hint=b"[DONE]")
    with Replay(stream((10, EVENTS[0]), (20, DONE), end=End.HOLD)) as server:
        reply, _ = ask(server, transport)
        got: list[Any] = []
        for batch in reply.batches(60.0):
            got += [data for _, data in batch]
            if DONE in got:
                break
        assert got == [EVENTS[0], DONE]
        reply.close()
        eventually(lambda: server.exchanges[0].left_ns, "the connection is closed")
