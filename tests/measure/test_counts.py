"""Counts: what each kind of record adds, and how counts travel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from locust_llm.measure.counts import OTHER, TALLY_LIMIT, Counts, count, tally
from locust_llm.measure.record import Clock, Outcome, RequestRecord, TokenSource, Transit
from tests.measure.build import record, usage

TABLE = [
    pytest.param(
        record((100, 120), n=2),
        {"succeeded": 1, "events": 2, "output_tokens": 2, "weighed_events": 2, "weighed_tokens": 2, "empty": 0},
        id="success",
    ),
    pytest.param(
        record((100, 120), n=2, source=TokenSource.CHUNKS),
        {"output_tokens": 2, "weighed_events": 0, "token_sources": {"chunks": 1}},
        id="D34-an-estimate-weighs-no-event",
    ),
    pytest.param(record((), n=0), {"succeeded": 1, "empty": 1, "not_streamed": 0}, id="D37-empty"),
    pytest.param(record((), n=9, streamed=False), {"empty": 0, "not_streamed": 1, "output_tokens": 9}, id="D59"),
    pytest.param(
        record((100,), outcome=Outcome.FAILED, error="timeout", n=3),
        {"failed": 1, "errors": {"timeout": 1}, "partial_tokens": 3, "partial_events": 0, "output_tokens": 0},
        id="failed-with-tokens-told",
    ),
    pytest.param(
        record((100, 120), outcome=Outcome.CANCELLED, n=2, source=TokenSource.CHUNKS),
        {"cancelled": 1, "errors": {}, "partial_tokens": 0, "partial_events": 2},
        id="D15-cut-off",
    ),
    pytest.param(record((), outcome=Outcome.FAILED), {"errors": {"unknown": 1}}, id="no-label"),
    pytest.param(
        record((1,), transit=Transit(reused=True)), {"connections_reused": 1, "connections_new": 0}, id="reused"
    ),
    pytest.param(record((1,)), {"connections_reused": 0, "connections_new": 1}, id="new"),
    pytest.param(
        record((1,), transit=Transit(reused=True, stale_retries=1)),
        {"connections_reused": 0, "connections_new": 1, "stale_retries": 1},
        id="D78-a-stale-connection-was-not-reused",
    ),
    pytest.param(
        RequestRecord(name="x", outcome=Outcome.FAILED, error="connect"),
        {"connections_new": 0, "clocks": {}},
        id="never-sent",
    ),
    pytest.param(record((1,), transit=Transit(clock=Clock.KERNEL)), {"clocks": {"kernel": 1}}, id="kernel-clock"),
    pytest.param(
        record((1,), n=1, usage=usage(1, 50, cached_tokens=20, reasoning_tokens=1)),
        {"input_tokens": 50, "cache_judged_tokens": 50, "cached_tokens": 20, "reasoning_tokens": 1},
        id="cached-told",
    ),
    pytest.param(
        record((1,), n=1, usage=usage(1, 50)),
        {"input_tokens": 50, "cache_judged_tokens": 0, "cached_tokens": 0},
        id="cached-not-told-is-not-zero",
    ),
    pytest.param(
        record((1,), n=1, max_tokens=2, finish_reasons=("stop",)),
        {"length_judged": 1, "short": 1, "finish_reasons": {"stop": 1}},
        id="D60-short",
    ),
    pytest.param(
        record((1,), n=2, max_tokens=2), {"length_judged": 1, "short": 0, "finish_reasons": {"none": 1}}, id="full"
    ),
    pytest.param(record((1,), n=2), {"length_judged": 0}, id="no-limit-asked"),
    pytest.param(
        record((1,), n=1, model="a", model_answered="b"), {"model_differs": 1, "models": {"b": 1}}, id="D65-differs"
    ),
    pytest.param(record((1,), n=1, model="a"), {"model_differs": 0, "models": {}}, id="D65-not-told"),
    pytest.param(record((5, 5, 9), n=3), {"coalesced_events": 1}, id="D10-coalesced"),
    pytest.param(
        record((500, 520), n=50, streamed_tokens=2, hidden_reasoning=True), {"hidden_reasoning": 1}, id="hidden"
    ),
]


@pytest.mark.parametrize(("made", "expected"), TABLE)
def test_count(made: RequestRecord, expected: dict[str, Any]) -> None:
    counts = Counts()
    count(counts, made)
    found = asdict(counts)
    assert {key: found[key] for key in expected} == expected
    assert counts.ended == 1


@pytest.mark.parametrize("made", [param.values[0] for param in TABLE])
def test_counts_travel_and_merge(made: object) -> None:
    assert isinstance(made, RequestRecord)
    once, twice = Counts(), Counts()
    count(once, made)
    count(twice, made)
    count(twice, made)
    assert Counts.unpack(once.pack()) == once
    merged = Counts.unpack(once.pack())
    merged.merge_packed(once.pack())
    assert merged == twice
    once.merge(Counts.unpack(once.pack()))
    assert once == twice


def test_what_is_zero_does_not_travel() -> None:
    assert Counts().pack() == {}
    assert Counts(started=-2).pack() == {"started": -2}


def test_a_tally_keeps_a_bounded_number_of_labels() -> None:
    counts: dict[str, int] = {}
    for label in range(TALLY_LIMIT + 10):
        tally(counts, str(label))
    tally(counts, "3")
    assert len(counts) == TALLY_LIMIT + 1
    assert (counts[OTHER], counts["3"]) == (10, 2)
