"""Http1Reply: one response out of its reads, however they are cut, and by both of its ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.wire import http1
from locust_llm.wire.http1 import Http1Reply
from tests.replay import DONE, C, chunk, head

EVENTS = C("a") + C("b") + DONE
SSE = {"content_type": "text/event-stream"}
CHUNKED = head(transfer_encoding="chunked", **SSE)


@dataclass(frozen=True)
class Case:
    """A response as it is sent, and what must be made of it. `ended` = by its own framing."""

    id: str
    wire: bytes
    body: bytes = EVENTS
    ended: bool = True
    keep_alive: bool = True
    sized: bool = True
    status: int = 200


CASES = [
    Case("chunked", CHUNKED + chunk(C("a")) + chunk(C("b")) + chunk(DONE) + b"0\r\n\r\n"),
    Case(
        "an event over several chunks",
        CHUNKED + b"".join(chunk(EVENTS[i : i + 7]) for i in range(0, len(EVENTS), 7)) + b"0\r\n\r\n",
    ),
    Case("trailers (D02 e)", CHUNKED + chunk(EVENTS) + b"0\r\nX-Usage: 5\r\nX-More: 3\r\n\r\n"),
    Case("sizes in capitals, with zeros", CHUNKED + b"%04X\r\n%b\r\n" % (len(EVENTS), EVENTS) + b"000\r\n\r\n"),
    Case("chunk extensions", CHUNKED + b"%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(EVENTS), EVENTS)),
    Case(
        "data that looks like framing",
        CHUNKED + chunk(b"5\r\nhello\r\n") + chunk(b"0\r\n\r\n") + b"0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
    ),
    Case("no last chunk (D02 c)", CHUNKED + chunk(EVENTS), ended=False, keep_alive=False),
    Case("half a chunk", CHUNKED + b"ff\r\nabc", b"abc", ended=False, keep_alive=False),
    Case("content-length", head(content_length=str(len(EVENTS)), **SSE) + EVENTS),
    Case("content-length cut short (D02 d)", head(content_length="500", **SSE) + EVENTS, ended=False, keep_alive=False),
    Case("close-delimited", head(**SSE) + EVENTS, ended=False, keep_alive=False, sized=False),
    Case(
        "HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + EVENTS,
        ended=False,
        keep_alive=False,
        sized=False,
    ),
    Case("connection: close", head(content_length=str(len(EVENTS)), connection="close") + EVENTS, keep_alive=False),
    Case("no reason phrase", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    Case(
        "an upgrade offered, not made", head(upgrade="h2,h2c", connection="Upgrade", content_length="2") + b"ok", b"ok"
    ),
    Case(
        "1xx before the answer",
        b"HTTP/1.1 100 Continue\r\n\r\n"
        + head("103 Early Hints", link="</a>")
        + CHUNKED
        + chunk(EVENTS)
        + b"0\r\n\r\n",
    ),
    Case("no body", head("204 No Content"), b"", status=204, sized=False),
    Case("an error", head("429 Too Many", content_length="2") + b"{}", b"{}", status=429),
    Case(
        "a second reply", head(content_length="2") + b"ok" + head(content_length="3") + b"bad", b"ok", keep_alive=False
    ),
    Case(
        "bytes after connection: close",
        head(content_length="2", connection="close") + b"ok" + b"bad",
        b"ok",
        keep_alive=False,
    ),
]
IDS = [case.id for case in CASES]


def fed(reads: Iterable[bytes], hint: bytes = b"[DONE]") -> Http1Reply:
    """A reply that got these reads, the first at 1 ns, the second at 2 ns …"""
    reply = Http1Reply(hint)
    for number, data in enumerate(reads, 1):
        reply.feed(number, data)
    return reply


def pieces(reply: Http1Reply) -> list[tuple[int, bytes]]:
    it: Iterator[Any] = iter(reply.inbox)
    return list(zip(it, it, strict=True))


def assert_as_expected(case: Case, reply: Http1Reply) -> None:
    assert b"".join(data for _, data in pieces(reply)) == case.body
    assert (reply.complete, reply.sized, reply.status) == (case.ended, case.sized, case.status)
    assert (reply.keep_alive if reply.complete else False) == case.keep_alive


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_whole(case: Case) -> None:
    assert_as_expected(case, fed([case.wire]))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_byte_by_byte(case: Case) -> None:
    assert_as_expected(case, fed(case.wire[i : i + 1] for i in range(len(case.wire))))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_cut_anywhere(case: Case) -> None:
    for place in range(1, len(case.wire)):
        assert_as_expected(case, fed([case.wire[:place], case.wire[place:]]))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_each_line_a_read(case: Case) -> None:
    assert_as_expected(case, fed(case.wire.splitlines(keepends=True)))


# -- the quick way and the parser ------------------------------------------------------------------------------------


@st.composite
def responses(draw: st.DrawFn) -> list[bytes]:
    """The reads of a chunked response: chunks of any bytes, sizes spelled in any legal way, cut anywhere."""
    wire = CHUNKED
    ends = [len(wire)]
    for data in draw(
        st.lists(st.binary(min_size=1, max_size=40) | st.just(b"0\r\n\r\n") | st.just(b"\r\n"), max_size=8)
    ):
        spell = draw(st.sampled_from(["%x", "%X", "%05x", "%x;ext"]))
        wire += (spell % len(data)).encode() + b"\r\n" + data + b"\r\n"
        ends.append(len(wire))
    wire += draw(st.sampled_from([b"", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n"]))
    # Mostly cut where chunks end, which is what the quick way is for.
    places = sorted(set(draw(st.lists(st.sampled_from(ends) | st.integers(1, len(wire)), max_size=12))))
    return [wire[begin:end] for begin, end in zip([0, *places], [*places, len(wire)], strict=True) if begin < end]


def by_parser_alone(reads: list[bytes]) -> Http1Reply:
    reply = Http1Reply(b"[DONE]")
    for number, data in enumerate(reads, 1):
        reply._parse(number, data)
    return reply


@settings(max_examples=400, deadline=None)
@given(responses())
def test_both_ways_give_the_same(reads: list[bytes]) -> None:
    quick, plain = fed(reads), by_parser_alone(reads)
    assert pieces(quick) == pieces(plain)
    for name in ("ended_ns", "headers_ns", "keep_alive", "status", "hinted"):
        assert getattr(quick, name) == getattr(plain, name), name


def test_a_whole_chunk_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = fed([CHUNKED])
    monkeypatch.setattr(Http1Reply, "_parse", lambda *_: pytest.fail("the parser was asked"))
    assert not reply.feed(7, chunk(C("a")))
    assert pieces(reply) == [(7, C("a"))]


@pytest.mark.parametrize(
    "line", [b"0x5", b"+5", b" 5", b"5 ", b"1_0", b"", b"-5", "٥".encode(), b"0", b"000"], ids=repr
)
def test_what_is_no_size_is_left_to_the_parser(line: bytes) -> None:
    """int() would take some of these for a number."""
    assert http1._size(line) is None


def test_sizes_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "_SIZES_KEPT", 10)
    assert [http1._size(b"%x" % number) for number in range(1, 50)] == list(range(1, 50))
    assert len(http1._sizes) <= 10


# -- stamps, wake-ups, limits ----------------------------------------------------------------------------------------


def test_each_piece_has_the_time_of_the_read_that_held_its_last_byte() -> None:
    first, second = chunk(C("a")), chunk(C("b"))
    reply = fed([CHUNKED, first + second[:10], second[10:] + b"0\r\n\r\n"])
    assert [at for at, _ in pieces(reply)] == [2, 2, 3]
    assert (reply.headers_ns, reply.ended_ns) == (1, 3)


WAKES: list[tuple[str, list[bytes], list[bool]]] = [
    ("headers", [CHUNKED[:20], CHUNKED[20:], chunk(C("a"))], [False, True, False]),
    ("a 1xx is no news", [b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED], [False, True]),
    ("the end", [CHUNKED, chunk(C("a")), b"0\r\n", b"\r\n"], [True, False, False, True]),
    ("the last words", [CHUNKED, chunk(C("a")), chunk(DONE)], [True, False, True]),
    ("the last words among others", [CHUNKED, chunk(C("a")) + chunk(DONE)[:-1]], [True, True]),
    (
        "several pieces at once",
        [CHUNKED, *[chunk(C("a")) + chunk(C("b"))] * 2, chunk(C("c"))],
        [True, False, True, False],
    ),
]


@pytest.mark.parametrize(("reads", "wakes"), [case[1:] for case in WAKES], ids=[case[0] for case in WAKES])
def test_the_reader_is_woken_for(reads: list[bytes], wakes: list[bool]) -> None:
    reply = Http1Reply(b"[DONE]")
    assert [reply.feed(1, data) for data in reads] == wakes


def test_reads_that_held_several_pieces_are_counted() -> None:
    """Only in the middle: the first token often comes with its role, the last with usage and [DONE]."""
    several = chunk(C("a")) + chunk(C("b"))
    assert fed([CHUNKED + several, chunk(C("c")), several, several, several + b"0\r\n\r\n"]).merged == 1
    assert fed([CHUNKED, several, several, several, chunk(C("c"))]).merged == 2


@pytest.mark.parametrize(
    "wire", [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/2 200\r\n\r\n", CHUNKED + b"zz\r\nabc\r\n"], ids=repr
)
def test_what_is_not_http(wire: bytes) -> None:
    with pytest.raises(httptools.HttpParserError):
        fed([wire])


def test_headers_without_end() -> None:
    lines = [b"X-Fill-%d: %b\r\n" % (number, b"a" * 1000) for number in range(400)]
    with pytest.raises(httptools.HttpParserError):
        fed([b"HTTP/1.1 200 OK\r\n", *lines])


def test_fields_are_found_by_lower_case_names() -> None:
    wire = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-TYPE: text/html\r\nX-L: caf\xe9\r\n\r\n"
    assert fed([wire]).fields() == {"x-a": "1, 2", "content-type": "text/html", "x-l": "café"}


@pytest.mark.parametrize(
    ("value", "coding"), [("gzip", "gzip"), ("GZIP ", "gzip"), ("identity", ""), ("", ""), ("zstd", "zstd")], ids=str
)
def test_the_content_coding(value: str, coding: str) -> None:
    assert fed([head(content_encoding=value)]).coding() == coding
    assert fed([head()]).coding() == ""
