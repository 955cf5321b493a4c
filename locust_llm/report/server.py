"""The server's own metrics as columns, for the run document and charts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from locust_llm.measure.series import Point
from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.report.digits import Number, short
from locust_llm.report.run import shown_url

COLUMNS: Final = ("running", "waiting", "kv_use", "preemptions", "prompt_tokens", "cached_tokens")
SUMS: Final = ("ttft_s", "ttft_n", "queue_s", "queue_n", "prefill_s", "prefill_n")
"""Columns that documents of earlier releases have not."""


def server_dict(series: ServerSeries) -> dict[str, Any]:
    """`at_s` (wall clock) and a list for each metric beside it; null where the engine does not tell it."""
    return {
        "url": shown_url(series.url),
        "engine": series.samples[-1].engine if series.samples else None,
        "at_s": [round(at_s, 3) for at_s in series.at_s],
        **{name: [getattr(sample, name) for sample in series.samples] for name in (*COLUMNS, *SUMS)},
    }


def server_of(told: Mapping[str, Any]) -> ServerSeries:
    """The series that `server_dict` described; raises KeyError, TypeError or ValueError when it is damaged."""
    unknown = [None] * len(told["at_s"])
    rows = zip(*(told[name] for name in COLUMNS), *(told.get(name, unknown) for name in SUMS), strict=True)
    samples = [ServerSample(told["engine"], *row) for row in rows]
    if len(samples) != len(told["at_s"]):
        raise ValueError("server metrics")
    return ServerSeries(told["url"], list(told["at_s"]), samples)


# -- beside the client's points ------------------------------------------------------------------------------------

LINES: Final[tuple[tuple[str, Callable[[ServerSample], float | None]], ...]] = (
    ("server_running", lambda sample: sample.running),
    ("server_waiting", lambda sample: sample.waiting),
    ("server_kv_percent", lambda sample: 100 * sample.kv_use if sample.kv_use is not None else None),
)
"""The gauges that charts draw, by column."""

PREEMPTIONS: Final = "server_preemptions_per_s"


def server_columns(series: ServerSeries, points: Sequence[Point]) -> dict[str, list[Number | None]]:
    """Columns for these points of the client: of each gauge the largest in the point's span, preemptions a second.

    None where no sample fell into the span, or the engine does not tell.
    """
    columns: dict[str, list[Number | None]] = {name: [] for name, _ in LINES}
    columns[PREEMPTIONS] = []
    for point in points:
        begin = bisect_left(series.at_s, point.second)
        end = bisect_left(series.at_s, point.second + point.span_s, lo=begin)
        samples = series.samples[begin:end]
        for name, of in LINES:
            columns[name].append(short(_largest(samples, of)))
        # counted from the sample before the span, so that nothing between two spans is lost
        columns[PREEMPTIONS].append(short(_preemptions_per_s(series, max(begin - 1, 0), end)))
    return columns


def _largest(samples: Sequence[ServerSample], of: Callable[[ServerSample], float | None]) -> float | None:
    return max((value for sample in samples if (value := of(sample)) is not None), default=None)


def _preemptions_per_s(series: ServerSeries, first: int, end: int) -> float | None:
    """Between the samples `first` and `end` - 1; a counter that fell was begun anew."""
    if end - first < 2:
        return None
    before, after = series.samples[first].preemptions, series.samples[end - 1].preemptions
    span_s = series.at_s[end - 1] - series.at_s[first]
    if before is None or after is None or span_s <= 0:
        return None
    return (after - before if after >= before else after) / span_s
