"""How the client may end an Answer, and what it can ask meanwhile."""

from __future__ import annotations

import pytest

from locust_llm.measure.record import Outcome
from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import APIS, Call
from locust_llm.wire.sse import MAX_EVENT_BYTES
from tests.wire.error_cases import ENGINE_DIED
from tests.wire_events import DONE, STOP, C, U

RESET = (failures.RESET, "ECONNRESET")


def answer(status: int = 200, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(APIS["chat"], Timeline("t", started_ns=0), Call(), status=status, headers=fields)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "connection reset"),
        (C("a"), "connection reset"),
        (C("a") + C("b", finish="stop")[:-9], "connection reset"),
        (C("a") + STOP, None),
        (C("a") + U(1, 1)[:-2], "connection reset"),
        (C("a") + ENGINE_DIED, "in-stream error: InternalServerError: engine died"),
        (b'{"choices": [', "connection reset"),
        (b'{"choices": [{"message": {"content": "a"}}]}', None),
        (b"<html>", "unexpected content-type text/html"),
    ],
    ids=["nothing", "text", "half a finish", "finished", "usage", "error", "half a document", "document", "page"],
)
def test_a_reset_fails_what_is_not_complete(body: bytes, error: str | None) -> None:
    """D40: the transport's failure is the request's, unless the answer was whole or the server said why it failed."""
    one = answer()
    one.feed(1, body)
    one.end(2, clean=False, failure=RESET)
    record = one.timeline.freeze(2)
    assert record.error == error
    assert record.outcome is (Outcome.SUCCESS if error is None else Outcome.FAILED)


def test_a_refusal_stays_one_when_its_body_breaks_off() -> None:
    one = answer(429)
    one.feed(1, b'{"error": {"co')
    one.end(2, clean=False, failure=RESET)
    assert one.timeline.error == "HTTP 429"


def test_a_failure_of_the_client_stays() -> None:
    """D39: the client's stall deadline has passed; the end of the body does not change the label."""
    one = answer()
    one.feed(1, C("a"))
    one.timeline.fail(failures.STALL)
    one.end(2)
    assert one.timeline.error == "stall"


def test_finished_and_failed() -> None:
    one = answer()
    one.feed(1, C("a"))
    assert (one.finished, one.failed) == (False, False)
    one.feed(2, ENGINE_DIED)
    assert (one.finished, one.failed) == (False, True)
    other = answer()
    other.feed(1, C("a") + STOP + U(1, 1))
    assert (other.finished, other.failed) == (False, False)
    other.feed(2, DONE)
    assert (other.finished, other.failed) == (True, False)


def test_nothing_after_done_counts_however_much() -> None:
    """D44c."""
    one = answer()
    one.feed(1, C("a") + STOP + DONE)
    one.feed(2, b"x" * (MAX_EVENT_BYTES + 2))
    one.end(3)
    record = one.timeline.freeze(3)
    assert (record.success, record.done_ns, record.text) == (True, 1, "a")


@pytest.mark.parametrize("body", [b"data: ", b'{"a": "'], ids=["event", "document"])
def test_too_long(body: bytes) -> None:
    """D53: more than the cap is one clear failure, and is not kept."""
    one = answer()
    one.feed(1, body)
    for _ in range(17):
        one.feed(2, b"x" * 1024 * 1024)
    one.end(3)
    assert one.timeline.error == "event too long"


def test_a_refusal_keeps_64_kib() -> None:
    one = answer(500)
    for _ in range(100):
        one.feed(1, b"<p>" * 30_000)
    assert len(one._kept) == 64 * 1024
    one.end(2)
    assert one.timeline.error == "HTTP 500"


def test_retry_after() -> None:
    assert answer(429, retry_after="2").retry_after == "2"
    assert answer(429).retry_after is None
