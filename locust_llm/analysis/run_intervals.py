"""Intervals of a whole run's figures, from the time blocks that RunStats keeps.

Theory of operation. The steady part of a run (all users run, and have for one p95 residence) is cut into equal batches
of whole blocks, at least 10 and each at least twice the p95 residence, as `intervals` asks; fewer: no interval, and
why. Figures are those of the whole run, as every table shows them; the batches tell only how much they scatter.

A percentile's interval is Woodruff's (Woodruff, "Confidence intervals for medians and other position measures", 1952):
the share of samples at or below the percentile scatters over the batches (a ratio estimator), and that share, give or
take its error, is read off the run's distribution again. It needs no percentile of a single batch, so few samples a
batch will do, and failures are simply samples above all others. Tried on independent samples with 10 to 20 batches and
5 or more samples beyond the percentile, p50 to p99: it covers 93 to 96 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import ratio_estimate, student_t, sums
from locust_llm.analysis.intervals import (
    CONFIDENCE,
    MAX_BATCHES,
    MIN_BATCHES,
    RESIDENCES,
    Interval,
    NoInterval,
    interval_edges,
    mean_interval,
)
from locust_llm.measure.blocks import Block, Blocks
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.stats import RunStats

Floats = NDArray[np.float64]

BEYOND_LEAST: Final = 5
"""Samples beyond a percentile below which it gets no interval."""


def steady_edges(stats: RunStats, p95_residence_s: float | None, settle_s: float = 0.0) -> Floats | NoInterval:
    """The borders of the batches, wall-clock seconds. `settle_s`: how long the load still grows when all users run."""
    begin_s, end_s = stats.all_running_s, stats.stopped_s
    if begin_s is None or end_s is None or p95_residence_s is None:
        return NoInterval("the run had no steady part in which all users ran")
    begin_s += p95_residence_s + settle_s
    edges = interval_edges(begin_s, max(begin_s, end_s), p95_residence_s)
    blocks = stats.blocks()
    if isinstance(edges, NoInterval) or blocks is None:
        return edges if isinstance(edges, NoInterval) else NoInterval("no blocks of time were kept")
    return whole_blocks(blocks.span_s, begin_s, end_s, p95_residence_s)


def whole_blocks(span_s: int, begin_s: float, end_s: float, p95_residence_s: float) -> Floats | NoInterval:
    """Batches of the window that begin and end where blocks of `span_s` seconds do."""
    first, last = math.ceil(begin_s / span_s), math.floor(end_s / span_s)
    each = max(math.ceil(RESIDENCES * p95_residence_s / span_s), math.ceil((last - first) / MAX_BATCHES), 1)
    batches = (last - first) // each
    if batches < MIN_BATCHES:
        return NoInterval(f"an interval needs {MIN_BATCHES} batches of whole blocks of {span_s} s: run longer")
    edges: Floats = np.arange(batches + 1, dtype=np.float64) * each + (last - batches * each)
    return edges * span_s


def batched(blocks: Blocks, edges: Floats) -> list[Block]:
    """What ended in each batch."""
    batches = [Block() for _ in edges[1:]]
    for second, block in blocks.items():
        place = int(np.searchsorted(edges, second, side="right")) - 1
        if 0 <= place < len(batches):
            batches[place].merge(block)
    return batches


def percentile_interval(
    q: float, whole: Histogram, infinite: int, parts: Sequence[Histogram], part_infinite: Sequence[float]
) -> Interval | NoInterval:
    """Interval of a run's percentile with failures. `infinite`: how many samples of +∞ the run has, `part_infinite`
    each batch. An upper end that lies above every sample is `math.inf`."""
    value = whole.percentile_with(infinite, q)
    if value is None:
        return NoInterval("there are no samples")
    samples = np.array([part.count for part in parts], dtype=np.float64)
    everything = samples + np.array(part_infinite)
    within = samples if value == math.inf else samples - np.array([part.count_above(value) for part in parts])
    total = float(everything.sum())
    if min(total * q, total * (1 - q)) < BEYOND_LEAST:
        return NoInterval(f"{total:.0f} samples in the steady part are too few for an interval of p{100 * q:g}")
    share = ratio_estimate(within.astype(np.float64), everything)
    assert share is not None
    half = _t(len(parts)) * share.error
    low = whole.percentile_with(infinite, max(q - half, 0.0))
    high = whole.percentile_with(infinite, q + half) if q + half < 1 else math.inf
    assert low is not None
    assert high is not None
    return Interval(low, high, len(parts))


def share_interval(part: Sequence[int], whole: Sequence[int]) -> Interval | NoInterval:
    """Interval of Σ part / Σ whole. When none or all are in the part, no scatter can be seen: 3 / n (rule of three)."""
    total, number = sum(part), sum(whole)
    share = ratio_estimate(np.array(part, dtype=np.float64), np.array(whole, dtype=np.float64))
    if share is None:
        return NoInterval("nothing ended in the steady part")
    half = 3 / number if total in (0, number) else _t(len(part)) * share.error
    return Interval(max(0.0, share.value - half), min(1.0, share.value + half), len(part))


def moved(interval: Interval | NoInterval, value: float) -> Interval | NoInterval:
    """The interval around the whole run's figure, as wide as it is."""
    if isinstance(interval, NoInterval):
        return interval
    half = (interval.high - interval.low) / 2
    return Interval(max(0.0, value - half), value + half, interval.batches, interval.label)


def rate_interval(numbers: Sequence[float] | Floats, edges: Floats) -> Interval | NoInterval:
    """Interval of a rate per second from its number in each batch."""
    return mean_interval(np.asarray(numbers, dtype=np.float64) / np.diff(edges))


def tokens_between(stats: RunStats, edges: Floats) -> Floats:
    """Output tokens that arrived in each batch, those of one point of the series evenly over its span."""
    points = list(stats.points())
    if not points:
        return np.zeros(len(edges) - 1)
    borders = np.array([float(points[0].second), *(float(point.second + point.span_s) for point in points)])
    arrived = np.concatenate([[0.0], np.cumsum([point.output_tokens for point in points])])
    return np.diff(np.interp(edges, borders, arrived))


def in_flight_between(stats: RunStats, edges: Floats) -> Floats:
    """Mean requests in flight in each batch."""
    points = list(stats.points())
    at_s = np.array([float(point.second + point.span_s) for point in points])
    spans = np.array([float(point.span_s) for point in points])
    total = sums(at_s, spans * [point.in_flight for point in points], edges)
    return total / np.maximum(sums(at_s, spans, edges), 1.0)


def _t(batches: int) -> float:
    return student_t((1 + CONFIDENCE) / 2, batches - 1)
