"""Throughput: rates over a stated window, from what arrived in it.

The run's window lasts from the first request sent after warm-up to the stop request: the ramp is in it, the drain is
not. The steady window lasts from the moment when all users run to the stop request, in whole seconds. Tokens count
when they arrive, those of running, failed and cut-off requests included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from locust_llm.measure.series import Row

if TYPE_CHECKING:
    from locust_llm.measure.stats import RunStats


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates over one window. `begin_s` is wall-clock time; `requests` counts successful ends.

    `peak` is the highest rate of output tokens over one second, or over the whole window where that is higher (a
    window shorter than a second has no whole second).
    """

    begin_s: float
    duration_s: float
    output_tokens: float
    input_tokens: int
    requests: int
    peak: float

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens that arrived per second."""
        return self.output_tokens / self.duration_s

    @property
    def input_tokens_per_s(self) -> float:
        """Input tokens per second, counted when their first output event arrived."""
        return self.input_tokens / self.duration_s

    @property
    def requests_per_s(self) -> float:
        """Successful ends per second."""
        return self.requests / self.duration_s


def run_throughput(stats: RunStats) -> Throughput | None:
    """The whole run's; while it is not stopped, up to the last complete second. None before anything was sent."""
    begin = float(stats.reset_s) if stats.reset_s is not None else stats.first_sent_s
    if begin is None:
        return None
    if stats.stopped_s is None:
        complete = stats.complete_s
        return None if complete is None else _over(stats, begin, complete + 1)
    counts = stats.counts()
    events = sum(stats.counts(name).drained_events * stats.tokens_per_event(name) for name in stats.names)
    drain = _Drain(counts.drained_tokens + events, counts.drained_input_tokens, counts.drained_succeeded)
    return _over(stats, begin, stats.stopped_s, drain)


def steady_throughput(stats: RunStats) -> Throughput | None:
    """That of the steady window; None when there was no whole second in which all users ran."""
    if stats.all_running_s is None:
        return None
    begin = stats.series.edge(math.ceil(stats.all_running_s))
    end = math.floor(stats.stopped_s) if stats.stopped_s is not None else stats.complete_s
    return None if end is None else _over(stats, begin, end)


@dataclass(frozen=True, slots=True)
class _Drain:
    """What came after the window, though its rows may reach into it."""

    output_tokens: float
    input_tokens: int
    requests: int


def _over(stats: RunStats, begin: float, end: float, drain: _Drain | None = None) -> Throughput | None:
    """What the rows hold that reach into [begin, end); with a drain: all rows from begin on, less the drain."""
    duration = end - begin
    if duration <= 0:
        return None
    rows = [row for _, row in _rows(stats, begin, end if drain is None else math.inf)]
    late = drain if drain is not None else _Drain(0.0, 0, 0)
    output = sum(row.tokens(stats.tokens_per_event) for row in rows) - late.output_tokens
    return Throughput(
        begin_s=begin,
        duration_s=duration,
        output_tokens=output,
        input_tokens=sum(row.input_tokens for row in rows) - late.input_tokens,
        requests=sum(row.succeeded for row in rows) - late.requests,
        peak=max(_peak(stats, begin, end), output / duration),
    )


def _rows(stats: RunStats, begin: float, end: float) -> Iterator[tuple[int, Row]]:
    return ((second, row) for second, span, row in stats.series.rows() if second + span > begin and second < end)


def _peak(stats: RunStats, begin: float, end: float) -> float:
    """Output tokens of the fullest second that lies wholly in [begin, end); 0 when there is none."""
    weight = stats.tokens_per_event
    inside = (row for second, span, row in stats.series.rows() if second >= begin and second + span <= end)
    return max((row.peak if row.peak is not None else row.tokens(weight) for row in inside), default=0.0)
