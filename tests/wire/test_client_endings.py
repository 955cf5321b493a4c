"""How requests end, over real sockets: whole, cut, refused, late; and what stands in their records then."""

from __future__ import annotations

import pytest

from locust_llm.measure.record import Outcome
from tests.replay import DONE, ROLE, STOP, C, End, R, Replay, Script, U, answer, bytewise, chunk, head, stream
from tests.wire.asking import CALL, asked, client_of

MS = 1_000_000
SSE = {"content_type": "text/event-stream"}
WHOLE = stream((0, ROLE), (20, C("a")), (40, C("b") + STOP + U(3, 2) + DONE))

ENDINGS: list[tuple[str, Script, str | None, str]] = [
    # id, answer, failure, text
    ("no [DONE] (D43 a)", stream((0, C("a") + STOP)), None, "a"),
    ("no finish reason (D43 b)", stream((0, C("a") + DONE)), None, "a"),
    (
        "cut without a length (D02 a)",
        Script(((0, head(**SSE) + C("a")), (10, b'data: {"choi')), End.FIN),
        "truncated stream",
        "a",
    ),
    ("ended early by its framing (D02 b)", stream((0, C("a"))), "truncated stream", "a"),
    ("cut between chunks (D02 c)", stream((0, C("a")), end=End.FIN), "truncated stream", "a"),
    (
        "cut in its length (D02 d)",
        Script(((0, head(content_length="500", **SSE) + C("a")),), End.FIN),
        "truncated stream",
        "a",
    ),
    (
        "trailers (D02 e)",
        Script(
            ((0, head(transfer_encoding="chunked", **SSE) + chunk(C("a") + STOP + DONE) + b"0\r\nX-Usage: 5\r\n\r\n"),)
        ),
        None,
        "a",
    ),
    ("whole, but the last chunk (D02)", stream((0, C("a") + STOP + DONE), end=End.FIN), None, "a"),
    ("reset in the middle (D40)", stream((0, C("a")), (30, C("b")), end=End.RST, end_ms=60), "connection reset", "ab"),
    ("reset after [DONE]", stream((0, C("a") + STOP + DONE), end=End.RST), None, "a"),
    ("reset before a byte (D40)", Script((), End.RST), "connection reset", ""),
    ("closed before a byte (D40)", Script((), End.FIN), "connection closed without an answer", ""),
    (
        "closed in the headers",
        Script(((0, b"HTTP/1.1 200 OK\r\nConte"),), End.FIN),
        "connection closed without an answer",
        "",
    ),
    ("no body (D37 d)", stream(), "no output events", ""),
    ("a redirect (D66)", answer("301 Moved", b"", location="https://other.test/v1"), "redirect 301", ""),
    (
        "an HTML page (D58)",
        answer("200 OK", b"<html>log in</html>", content_type="text/html"),
        "unexpected content-type text/html",
        "",
    ),
    ("not HTTP", Script(((0, b"SSH-2.0-OpenSSH_9\r\n"),), End.HOLD), "HTTP protocol error", ""),
    (
        "a broken chunk size",
        Script(((0, head(transfer_encoding="chunked", **SSE) + chunk(C("a")) + b"zz\r\n"),), End.HOLD),
        "HTTP protocol error",
        "a",
    ),
    ("a coding we do not know", stream((0, C("a")), content_encoding="zstd"), "HTTP protocol error", ""),
    ("not the coding it says", stream((0, C("a")), content_encoding="gzip"), "HTTP protocol error", ""),
    (
        "an error event (D01)",
        stream((0, C("a") + b'data: {"error":{"message":"died","code":500}}\n\n' + DONE)),
        "in-stream error: died",
        "a",
    ),
    ("byte by byte", stream(*bytewise(ROLE + C("é🙂") + STOP + DONE, 0)), None, "é🙂"),
]


@pytest.mark.parametrize(("script", "error", "text"), [case[1:] for case in ENDINGS], ids=[case[0] for case in ENDINGS])
def test_endings(script: Script, error: str | None, text: str) -> None:
    record, server = asked(script)
    assert (record.error, record.text) == (error, text)
    assert record.outcome is (Outcome.SUCCESS if error is None else Outcome.FAILED)
    assert (record.ttft_ms is None) is (error is not None)
    assert len(server.exchanges) == 1


# -- after [DONE] (D44) ----------------------------------------------------------------------------------------------

LAST = C("b") + STOP + U(4, 2) + DONE
AFTER: list[tuple[str, Script, bool]] = [
    # id, answer, whether its connection is used again
    ("nothing, held open (a)", stream((20, C("a")), (40, LAST), end=End.HOLD), False),
    ("a second [DONE] (b)", stream((20, C("a")), (40, LAST), (45, DONE)), True),
    ("more data (c)", stream((20, C("a")), (40, LAST), (45, b'data: {"late":1}\n\n' + C("late") + U(9, 99))), True),
    ("more data in the same read (c)", stream((20, C("a")), (40, LAST + C("late") + U(9, 99))), True),
    ("the end a moment later (d)", stream((20, C("a")), (40, LAST), end_ms=46), True),
    ("a reset", stream((20, C("a")), (40, LAST), end=End.RST, end_ms=45), False),
    (
        "data without end",
        stream((20, C("a")), (40, LAST), *((45 + n, b": ping\n\n") for n in range(400)), end=End.HOLD),
        False,
    ),
]


@pytest.mark.parametrize(("script", "kept"), [case[1:] for case in AFTER], ids=[case[0] for case in AFTER])
def test_after_done(script: Script, kept: bool) -> None:
    with Replay(script, WHOLE) as server:
        client = client_of(server.url)
        record = client.request(CALL)
        assert (record.error, record.text, record.output_tokens) == (None, "ab", 2)
        assert record.done_ns == record.ended_ns == record.event_ns[-1], "waiting for the end is in no figure"
        following = client.request(CALL)
        assert following.success
        assert following.transit.reused is kept
        assert following.transit.stale_retries == 0
        client.close()


# -- deadlines (D39) -------------------------------------------------------------------------------------------------

PINGS = tuple((30.0 + 40 * number, b": ping\n\n") for number in range(200))
STALLS: list[tuple[str, Script, dict[str, float], str, int]] = [
    # id, answer, settings, failure, output events
    ("silence (a)", stream((0, C("a")), (20, C("b")), end=End.HOLD), {"stall_timeout_s": 0.3}, "stall", 2),
    ("pings for ever (b)", stream(*PINGS, end=End.HOLD), {"stall_timeout_s": 0.3}, "stall", 0),
    ("pings after tokens (b)", stream((0, C("a")), *PINGS, end=End.HOLD), {"stall_timeout_s": 0.3}, "stall", 1),
    ("no headers", Script((), End.HOLD), {"stall_timeout_s": 0.3}, "stall", 0),
    ("headers in pieces", Script(((0, b"HTTP/1.1 200 OK\r\n"),), End.HOLD), {"stall_timeout_s": 0.3}, "stall", 0),
    (
        "too long in all",
        stream(*((40.0 * n, C("a")) for n in range(200)), end=End.HOLD),
        {"total_timeout_s": 0.3},
        "timeout",
        -1,
    ),
    ("too long in all, silent", Script((), End.HOLD), {"total_timeout_s": 0.3, "stall_timeout_s": 0}, "timeout", 0),
    (
        "an endless refusal",
        Script(((0, head("500 Oops") + b"abc"),), End.HOLD),
        {"stall_timeout_s": 0.3},
        "HTTP 500",
        0,
    ),
]


@pytest.mark.parametrize(
    ("script", "settings", "error", "events"), [case[1:] for case in STALLS], ids=[case[0] for case in STALLS]
)
def test_deadlines(script: Script, settings: dict[str, float], error: str, events: int) -> None:
    """At the configured time ± 0.3 s, with its socket closed; the user goes on."""
    with Replay(script, WHOLE) as server:
        client = client_of(server.url, **settings)
        record = client.request(CALL)
        assert record.error == error
        assert events in (-1, len(record.event_ns))
        assert record.transit.sent_ns is not None
        since = record.event_ns[-1] if events > 0 else record.transit.sent_ns
        assert 290 * MS <= record.ended_ns - since <= 600 * MS
        following = client.request(CALL)
        assert (following.success, following.transit.reused) == (True, False)
        assert server.exchanges[0].left_ns is not None
        client.close()


def test_a_long_answer_whose_tokens_flow_is_no_stall() -> None:
    """D39 (c): the deadline is for the next token, not for the answer."""
    script = stream(*((60.0 * number, C("a")) for number in range(12)), (720, STOP + DONE))
    record, _ = asked(script, stall_timeout_s=0.4)
    assert (record.error, len(record.event_ns)) == (None, 12)


@pytest.mark.parametrize("event", [R("think"), C("x", index=1)], ids=["reasoning", "another choice"])
def test_every_output_event_is_progress(event: bytes) -> None:
    script = stream(*((60.0 * number, event) for number in range(12)), (720, C("a") + DONE))
    assert asked(script, stall_timeout_s=0.4)[0].error is None


def test_no_deadline_at_all() -> None:
    record, _ = asked(stream((0, C("a")), (400, STOP + DONE)), stall_timeout_s=0, total_timeout_s=0)
    assert record.success


def test_a_complete_answer_does_not_wait_out_the_stall_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete by its finish reason, held open, no [DONE]: a success soon, whose end is its last token."""
    monkeypatch.setattr("locust_llm.wire.patience.COMPLETE_NS", 100 * MS)
    record, _ = asked(stream((0, C("a")), (20, C("b") + STOP), end=End.HOLD), stall_timeout_s=60)
    assert (record.error, record.text) == (None, "ab")
    assert record.ended_ns == record.event_ns[-1]


def test_usage_that_comes_late_is_waited_for() -> None:
    """D57 (d)."""
    record, _ = asked(stream((0, C("a") + STOP), (300, U(5, 1) + DONE)))
    assert (record.output_tokens, record.input_tokens) == (1, 5)
