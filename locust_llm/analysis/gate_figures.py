"""Gate figures: what a gate is about, read from a run: its value, how many samples it rests on, and its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.run_intervals import (
    Floats,
    batched,
    moved,
    percentile_interval,
    rate_interval,
    share_interval,
    tokens_between,
)
from locust_llm.measure.blocks import KEPT, Block, Blocks
from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.figures import goodput, output_throughput, request_throughput
from locust_llm.measure.gate import ERRORS, GOODPUT, OUTPUT_THROUGHPUT, REQUEST_THROUGHPUT, Gate
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import ENOUGH, infinite_samples, too_few

FEWEST: Final = ENOUGH[0.5]
"""Outcomes below which a share or a rate means nothing."""

_NOTHING: Final = NoInterval("there is no figure")


@dataclass(frozen=True, slots=True)
class Reading:
    """A gate's figure in its own unit, `math.inf` when that percentile lies among the failures.

    `n`: the samples or outcomes it rests on. `missing`: why there is none, or none that means something.
    """

    value: float | None
    n: int
    interval: Interval | NoInterval
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Batches:
    """The steady part of a run, cut at `edges`."""

    stats: RunStats
    edges: Floats

    def parts(self, name: str | None) -> list[Block]:
        """What ended in each batch, of one request name or of all."""
        blocks = self.stats.blocks(name)
        return batched(blocks if blocks is not None else Blocks(), self.edges)


def read(stats: RunStats, gate: Gate, batches: Batches | NoInterval) -> Reading:
    """The figure that a gate is about."""
    counts = stats.counts(gate.name)
    if gate.name is not None and gate.name not in stats.names:
        named = ", ".join(stats.names) if stats.names else "none"
        return Reading(None, 0, _NOTHING, f"no request is named {gate.name!r}; there are: {named}")
    if not counts.succeeded and gate.metric != ERRORS:
        return Reading(None, 0, _NOTHING, f"none of {counts.ended} requests succeeded")
    if not isinstance(batches, NoInterval) and stats.blocks(gate.name) is None:
        batches = NoInterval("no blocks of time were kept of that name")
    if gate.q is not None:
        return _percentile(stats, gate, gate.q, batches)
    figure = _FIGURES[gate.metric, gate.unit == "%"]
    value, n = figure.value(stats, gate.name), figure.n(stats, gate.name)
    if value is None:
        return Reading(None, n, _NOTHING, f"the run has no {gate.title}")
    interval = batches if isinstance(batches, NoInterval) else figure.interval(batches, gate.name, value)
    return Reading(value, n, interval, f"{n} outcomes are too few ({FEWEST} needed)" if n < FEWEST else None)


def _percentile(stats: RunStats, gate: Gate, q: float, batches: Batches | NoInterval) -> Reading:
    metric = BY_KEY[gate.metric]
    whole = stats.histogram(gate.metric, gate.name)
    infinite = infinite_samples(stats.counts(gate.name), metric, whole.count)
    n = whole.count + infinite
    if not whole.count:
        return Reading(None, 0, _NOTHING, f"no request has a {metric.title}")
    interval: Interval | NoInterval
    if isinstance(batches, NoInterval):
        interval = batches
    elif gate.metric not in KEPT:
        interval = NoInterval(f"samples of {metric.title} are not kept in blocks of time")
    else:
        parts = batches.parts(gate.name)
        each = whole.count / stats.counts(gate.name).succeeded if metric.pooled else 1.0
        histograms = [part.histogram(gate.metric) for part in parts]
        interval = percentile_interval(q, whole, infinite, histograms, [each * part.failed for part in parts])
    needed = f" ({ENOUGH[q]} needed)" if q in ENOUGH else ""
    missing = f"{n} samples are too few for {gate.title}{needed}" if too_few(q, n) else None
    return Reading(whole.percentile_with(infinite, q), n, interval, missing)


# -- figures without percentiles -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figure:
    value: Callable[[RunStats, str | None], float | None]
    n: Callable[[RunStats, str | None], int]
    interval: Callable[[Batches, str | None, float], Interval | NoInterval]


def _outcomes(stats: RunStats, name: str | None) -> int:
    return stats.counts(name).outcomes


def _judged(stats: RunStats, name: str | None) -> int:
    return stats.counts(name).slo_judged


def _errors(stats: RunStats, name: str | None) -> float | None:
    counts = stats.counts(name)
    return counts.failed / counts.outcomes if counts.outcomes else None


def _errors_interval(batches: Batches, name: str | None, value: float) -> Interval | NoInterval:
    parts = batches.parts(name)
    return share_interval([part.failed for part in parts], [part.failed + part.succeeded for part in parts])


def _goodput_share(stats: RunStats, name: str | None) -> float | None:
    counts = stats.counts(name)
    return counts.slo_met / counts.slo_judged if counts.slo_judged else None


def _goodput_share_interval(batches: Batches, name: str | None, value: float) -> Interval | NoInterval:
    parts = batches.parts(name)
    return share_interval([part.met for part in parts], [part.met + part.missed for part in parts])


def _goodput_interval(batches: Batches, name: str | None, value: float) -> Interval | NoInterval:
    return moved(rate_interval([part.met for part in batches.parts(name)], batches.edges), value)


def _requests_interval(batches: Batches, name: str | None, value: float) -> Interval | NoInterval:
    return moved(rate_interval([part.succeeded for part in batches.parts(name)], batches.edges), value)


def _output_interval(batches: Batches, name: str | None, value: float) -> Interval | NoInterval:
    if name is not None:
        return NoInterval("the tokens of single names are not kept in blocks of time")
    return moved(rate_interval(tokens_between(batches.stats, batches.edges), batches.edges), value)


_FIGURES: Final[dict[tuple[str, bool], _Figure]] = {
    (ERRORS, True): _Figure(_errors, _outcomes, _errors_interval),
    (GOODPUT, True): _Figure(_goodput_share, _judged, _goodput_share_interval),
    (GOODPUT, False): _Figure(goodput, _judged, _goodput_interval),
    (OUTPUT_THROUGHPUT, False): _Figure(output_throughput, _outcomes, _output_interval),
    (REQUEST_THROUGHPUT, False): _Figure(request_throughput, _outcomes, _requests_interval),
}
"""By metric, and whether it is asked for as a share."""
