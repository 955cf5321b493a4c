"""Records and timelines for tests, from milliseconds after `T0`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit, Usage
from locust_llm.measure.stats import LOCAL_LAG_S, RunStats
from locust_llm.measure.timeline import Timeline

MS = 1_000_000
SECOND = 1_000_000_000
T0 = 5_000 * SECOND
OFFSET = 1_700_000_000 * SECOND - T0
"""Wall - monotonic: T0 is the beginning of the wall-clock second WALL_0."""
WALL_0 = 1_700_000_000


def ns(ms: float) -> int:
    """Milliseconds after T0 as a monotonic instant."""
    return T0 + round(ms * MS)


def record(
    events: Sequence[float] = (),
    *,
    n: int | None = None,
    name: str = "chat",
    sent: float = 0.0,
    started: float | None = None,
    scheduled: float | None = None,
    ended: float | None = None,
    outcome: Outcome = Outcome.SUCCESS,
    source: TokenSource | None = TokenSource.USAGE,
    choices: Sequence[int] | None = None,
    tokens: Sequence[int] | None = None,
    streamed_tokens: int | None = None,
    transit: Transit | None = None,
    **more: Any,
) -> RequestRecord:
    """A request with output events at these milliseconds; `n` = output tokens, told by `source`."""
    begun = started if started is not None else sent
    last = ended if ended is not None else max(events, default=sent)
    return RequestRecord(
        name=name,
        outcome=outcome,
        scheduled_ns=ns(scheduled if scheduled is not None else begun),
        started_ns=ns(begun),
        ended_ns=ns(last),
        transit=replace(transit if transit is not None else Transit(), sent_ns=ns(sent)),
        event_ns=array("q", [ns(at) for at in events]),
        event_choice=array("q", choices) if choices is not None else None,
        event_tokens=array("q", tokens) if tokens is not None else None,
        output_tokens=n,
        token_source=source if n is not None else None,
        streamed_tokens=streamed_tokens if streamed_tokens is not None else n,
        **more,
    )


def running(name: str = "chat", *, started: float = 0.0, sent: float | None = None, warmup: bool = False) -> Timeline:
    """A timeline of a request that has just been sent."""
    timeline = Timeline(name, started_ns=ns(started), warmup=warmup)
    timeline.transit.sent_ns = ns(sent if sent is not None else started)
    return timeline


def usage(output: int | None = None, input_tokens: int | None = None, **more: Any) -> Usage:
    """Server usage."""
    return Usage(input_tokens=input_tokens, output_tokens=output, **more)


def fed(*records: RequestRecord, lag_s: int | None = LOCAL_LAG_S) -> RunStats:
    """RunStats of requests that have started and ended."""
    stats = RunStats(OFFSET, lag_s=lag_s)
    for each in records:
        stats.started(each.name, each.started_ns, warmup=each.warmup)
        stats.add(each)
    return stats
