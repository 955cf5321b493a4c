"""Runs for the report room's tests: one small enough to compute by hand, and any that Hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from locust_llm.measure.record import Clock, Outcome, RequestRecord, TokenSource, Transit, Usage
from locust_llm.measure.stats import RunStats
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, WALL_0, ns, record

KERNEL = Transit(clock=Clock.KERNEL)


def small_run() -> list[RequestRecord]:
    """Two answers, a failure and a cut-off one.

    TTFT 100 and 200 ms; ITL 3 x 20 and 3 x 30 ms; TPOT 20 and 30 ms; E2E 160 and 290 ms; 8 output tokens and one event
    whose tokens nobody told; 30 input tokens.
    """
    told = {"usage": Usage(input_tokens=15, output_tokens=4), "transit": KERNEL, "finish_reasons": ("stop",)}
    return [
        record([100, 120, 140, 160], n=4, **told),
        record([], sent=500, ended=600, outcome=Outcome.FAILED, error="http_500", transit=KERNEL),
        record([1200, 1230, 1260, 1290], n=4, sent=1000, **told),
        record(
            [1600], n=1, sent=1500, ended=1700, outcome=Outcome.CANCELLED, source=TokenSource.CHUNKS, transit=KERNEL
        ),
    ]


def stats_of(records: Sequence[RequestRecord], *, stop_ms: float | None = 2000, users: int | None = 3) -> RunStats:
    """The statistics of requests that were added in the order of their ends, ticked until every second is complete."""
    stats = RunStats(OFFSET, min_tokens=1, lag_s=1)
    for each in records:
        stats.started(each.name, each.started_ns, warmup=each.warmup)
    last = max((each.ended_ns for each in records), default=ns(0))
    waiting = sorted(records, key=lambda each: each.ended_ns, reverse=True)
    at = ns(0)
    while True:
        while waiting and waiting[-1].ended_ns <= at:
            stats.add(waiting.pop())
        stats.tick(at, [], users)
        if at > last + 1_000_000_000:
            break
        at += 1_000_000_000
    if stop_ms is not None:
        stats.mark_stop(ns(stop_ms))
    return stats


def view_of(records: Sequence[RequestRecord], *, stop_ms: float | None = 2000, **more: Any) -> RunView:
    """The view of a run that is over, unless `state` says otherwise."""
    return RunView(stats_of(records, stop_ms=stop_ms), **({"run": "r1", "state": "stopped"} | more))


def second(ms: float) -> int:
    """The wall-clock second of so many milliseconds after the run's begin."""
    return WALL_0 + int(ms // 1000)


# -- any run -------------------------------------------------------------------------------------------------------

_GAPS = st.lists(st.integers(0, 3_000_000).map(lambda us: us / 1000), max_size=30)


@st.composite
def requests(draw: st.DrawFn) -> RequestRecord:
    """One request as it can come: any outcome, clock, source of tokens, number of events."""
    sent = draw(st.integers(0, 20_000))
    wait = draw(st.integers(0, 500))
    at, events = float(sent), []
    for gap in draw(_GAPS):
        at = round(at + gap, 3)
        events.append(at)
    outcome = draw(st.sampled_from(Outcome))
    source = draw(st.sampled_from(TokenSource))
    n: int | None = len(events)
    if source is not TokenSource.CHUNKS:
        n = draw(st.integers(0, 60) if events else st.none() | st.integers(0, 60))
    lag_ms = draw(st.sampled_from([None, 0, 1, 12]))
    transit = Transit(
        clock=draw(st.sampled_from(Clock)),
        reused=draw(st.booleans()),
        max_lag_ns=None if lag_ms is None else lag_ms * 1_000_000,
        headers_ns=ns(sent + 1),
    )
    return record(
        events,
        n=n,
        name=draw(st.sampled_from(["chat", "=rag", 'naïve, "quoted"'])),
        sent=sent,
        started=sent - wait if wait < sent else sent,
        scheduled=sent - wait if wait < sent else sent,
        ended=max([sent, *events]) + draw(st.integers(0, 100)),
        outcome=outcome,
        source=source,
        error=draw(st.sampled_from(["http_500", "timeout", "+sum(1)"])) if outcome is Outcome.FAILED else None,
        first_visible_ns=ns(events[-1]) if events else None,
        usage=Usage(
            input_tokens=draw(st.none() | st.integers(0, 100)),
            output_tokens=n if source is TokenSource.USAGE else None,
            cached_tokens=draw(st.none() | st.integers(0, 50)),
        ),
        tokens=[1] * len(events) if source is TokenSource.LOGPROBS else None,
        max_tokens=draw(st.none() | st.just(50)),
        transit=transit,
        warmup=draw(st.integers(0, 9)) == 0,
    )


runs = st.lists(requests(), max_size=12)
