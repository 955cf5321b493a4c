"""Plays the bytes of an answer into the parser, whole or cut, and gives the record that comes of it.

Times are milliseconds after `sent`; each step is one read. Cutting a read does not change its time, so a record must be
the same however its bytes were cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from locust_llm.measure.record import RequestRecord
from locust_llm.measure.timeline import Timeline
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import APIS, Call
from tests.wire_script import Step

MS = 1_000_000
OK = {"outcome": "success", "error": None}


@dataclass(frozen=True, slots=True)
class Case:
    """One answer and what its record must say. `clean` = the body ended as its framing promised.

    `expect` names properties of the record, or of `figures` below.
    """

    id: str
    steps: Sequence[Step]
    expect: dict[str, Any]
    clean: bool = True
    api: str = "chat"
    call: Call = field(default_factory=Call)
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end_ms: float | None = None


def play(case: Case, steps: Iterable[Step] | None = None) -> RequestRecord:
    """The record of `case`, read in those steps instead of its own if given."""
    timeline = Timeline("t", started_ns=0, api=case.api)
    timeline.transit.sent_ns = 0
    answer = Answer(APIS[case.api], timeline, case.call, status=case.status, headers=case.headers)
    at_ns = 0
    for at_ms, data in case.steps if steps is None else steps:
        at_ns = round(at_ms * MS)
        answer.feed(at_ns, data)
        if answer.finished:
            break
    if case.end_ms is not None:
        at_ns = round(case.end_ms * MS)
    answer.end(at_ns, case.clean)
    return timeline.freeze(at_ns)


def bytewise(steps: Iterable[Step]) -> Iterator[Step]:
    """Each byte a read of its own, at the time of the read it was in."""
    for at_ms, data in steps:
        for place in range(len(data)):
            yield at_ms, data[place : place + 1]


def cuts(steps: Sequence[Step], every: int = 1) -> Iterator[list[Step]]:
    """The steps with one of them cut in two, at every place."""
    for number, (at_ms, data) in enumerate(steps):
        for place in range(1, len(data), every):
            yield [*steps[:number], (at_ms, data[:place]), (at_ms, data[place:]), *steps[number + 1 :]]


def figures(record: RequestRecord) -> dict[str, Any]:
    """What the tables of cases ask of a record, times in ms."""
    tpot = record.tpot_ms
    return {
        "outcome": str(record.outcome),
        "error": record.error,
        "N": record.output_tokens,
        "source": None if record.token_source is None else str(record.token_source),
        "prompt": record.input_tokens,
        "cached": record.usage.cached_tokens,
        "events": len(record.event_ns),
        "TTFT": record.ttft_ms,
        "TTFC": record.ttfc_ms,
        "ITL": [round(gap, 6) for gap in record.itl_ms],
        "TPOT": None if tpot is None else round(tpot, 3),
        "E2E": record.e2e_ms,
        "done": None if record.done_ns is None else record.done_ns / MS,
        "text": record.text,
        "texts": record.choices,
        "reasoning": record.reasoning,
        "finish": record.finish_reasons,
        "streamed": record.streamed,
        "asked": record.stream_asked,
        "hidden": record.hidden_reasoning,
        "model": record.model_answered,
        "tokens": None if record.event_tokens is None else list(record.event_tokens),
        "tools": [(call["name"], call["arguments"]) for call in record.tool_calls],
        "detail": record.detail,
    }


def failed(error: str, **also: Any) -> dict[str, Any]:
    """A failure with that label and without any latency."""
    return {"outcome": "failed", "error": error, "TTFT": None, "TPOT": None, "E2E": None, "ITL": []} | also


def many(event: bytes, first_ms: float, every_ms: float, count: int) -> list[Step]:
    """The same event that often, one a read."""
    return [(first_ms + every_ms * place, event) for place in range(count)]


def assert_as_expected(case: Case, record: RequestRecord) -> None:
    """The record says what the case expects."""
    seen = figures(record)
    assert {name: seen[name] for name in case.expect} == case.expect
