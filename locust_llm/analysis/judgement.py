"""Judgement: whether a run meets its gates, and when the evidence does not tell.

Three answers. A gate is met or breached as its figure over the whole run says. It is not judged when the figure means
too little: too few samples for that percentile, no such request, or a breach whose interval contains the limit (unless
`strict`). Nothing is judged when the whole run means too little: it is incomplete, nothing succeeded, the client was
the bottleneck, or it drifted. Open load that the service could not take is a breach by itself: the backlog, and with it
every latency, would have grown as long as one cared to wait.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from locust_llm.analysis.batches import batch_edges
from locust_llm.analysis.gate_figures import Batches, Reading, read
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.overload import growing
from locust_llm.analysis.run_intervals import steady_edges, tokens_between
from locust_llm.analysis.steady import WindowRule, halves
from locust_llm.analysis.window import MAX_BATCHES
from locust_llm.measure.gate import Gate
from locust_llm.measure.stats import RunStats

NOT_PROVEN: Final = "not proven: the limit lies within the interval. Run longer, or take --llm-strict"

MET_CODE: Final = 0
BREACHED_CODE: Final = 1
UNJUDGED_CODE: Final = 3
"""Exit codes. 2 is taken: argparse and Locust use it for mistakes in the command line and in listeners."""


class GateStatus(StrEnum):
    """What became of a gate."""

    MET = "met"
    BREACHED = "breached"
    UNJUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate. `reason`: why it was not judged. `n`: the samples that its figure rests on.

    `value` is in the figure's own unit, None when there is none, or when it lies among the failures (`beyond`).
    """

    gate: Gate
    status: GateStatus
    value: float | None
    beyond: bool
    n: int
    interval: Interval | NoInterval
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """All gates of a run.

    `reason`: what is wrong with the whole run; then no gate is judged. `overloaded`: how open load outgrew the service.
    """

    results: tuple[GateResult, ...]
    reason: str | None = None
    overloaded: str | None = None

    @property
    def status(self) -> GateStatus:
        """Of all together: one breach is a breach, whatever else could not be judged."""
        if self.reason is not None:
            return GateStatus.UNJUDGED
        found = {result.status for result in self.results}
        if self.overloaded is not None or GateStatus.BREACHED in found:
            return GateStatus.BREACHED
        return GateStatus.UNJUDGED if GateStatus.UNJUDGED in found else GateStatus.MET

    @property
    def exit_code(self) -> int:
        """0 met, 1 breached, 3 not judged."""
        return {GateStatus.MET: MET_CODE, GateStatus.BREACHED: BREACHED_CODE}.get(self.status, UNJUDGED_CODE)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the statistics do not tell of a run.

    `incomplete` and `client_limited` say why, else None. `shortened`: why it ended before its time on purpose, so that
    what is met so far need not stay so. `offered_rps`: the rate of open load, None in closed loop; `unserved`: how many
    of its arrivals were lost or still waiting, in words. `load_changes`: the load changed on purpose (a shape).
    `settle_s`: how long it still grew when all users ran.
    """

    strict: bool = False
    incomplete: str | None = None
    client_limited: str | None = None
    shortened: str | None = None
    offered_rps: float | None = None
    unserved: str | None = None
    load_changes: bool = False
    settle_s: float = 0.0


def judge(stats: RunStats, gates: Sequence[Gate], known: Circumstances) -> Judgement:
    """Judge every gate of a run that is over."""
    residence = stats.histogram("residence")
    p95_s, median_s = (value / 1e3 if value is not None else None for value in map(residence.percentile, (0.95, 0.5)))
    overloaded = known.unserved
    if overloaded is None and known.offered_rps is not None and not known.load_changes:
        overloaded = growing(stats, known.offered_rps, known.settle_s)
    reason = _spoilt(stats, known)
    if reason is None and overloaded is None and not known.load_changes:
        reason = _drifting(stats, known, p95_s, median_s)
    batches = _batches(stats, known, p95_s)
    results = tuple(_judged(gate, read(stats, gate, batches), known, reason) for gate in gates)
    return Judgement(results, reason, overloaded if reason is None else None)


def _batches(stats: RunStats, known: Circumstances, p95_s: float | None) -> Batches | NoInterval:
    if known.load_changes:
        return NoInterval("the load changed on purpose, and with it the batches of time")
    edges = steady_edges(stats, p95_s, known.settle_s)
    return edges if isinstance(edges, NoInterval) else Batches(stats, edges)


def _judged(gate: Gate, reading: Reading, known: Circumstances, reason: str | None) -> GateResult:
    value, interval = reading.value, reading.interval
    reason = reason if reason is not None else reading.missing
    status = GateStatus.UNJUDGED
    if reason is None and value is not None:
        if gate.holds(value):
            reason = known.shortened
            status = GateStatus.MET if reason is None else GateStatus.UNJUDGED
        elif not known.strict and isinstance(interval, Interval) and interval.low <= gate.limit <= interval.high:
            reason = NOT_PROVEN
        else:
            status = GateStatus.BREACHED
    beyond = value == math.inf
    return GateResult(gate, status, None if beyond else value, beyond, reading.n, interval, reason)


# -- the whole run -------------------------------------------------------------------------------------------------


def _spoilt(stats: RunStats, known: Circumstances) -> str | None:
    """Why the figures of this run mean too little; None when they mean something."""
    counts = stats.counts()
    if known.incomplete is not None:
        return known.incomplete
    if not counts.ended:
        return "no request ended"
    if not counts.succeeded:
        return f"none of {counts.ended} requests succeeded"
    return known.client_limited


def _drifting(stats: RunStats, known: Circumstances, p95_s: float | None, median_s: float | None) -> str | None:
    """Whether the throughput of the run's steady part was still changing, by the rule of a step's window."""
    begin_s, end_s = stats.all_running_s, stats.stopped_s
    if begin_s is None or end_s is None or p95_s is None or median_s is None:
        return None
    rule = WindowRule()
    edges = batch_edges(begin_s + known.settle_s + p95_s, end_s, max(median_s, 1.0), MAX_BATCHES)
    if edges[-1] <= edges[0] or len(edges) - 1 < rule.batches:
        return None
    rates = tokens_between(stats, edges) / np.diff(edges)
    first, second = halves(rates)
    apart = abs(float(np.mean(second) - np.mean(first)))
    error = math.sqrt(float(np.var(first, ddof=1)) / len(first) + float(np.var(second, ddof=1)) / len(second))
    if apart <= rule.drift_errors * error or apart <= rule.drift_share * float(np.mean(rates)):
        return None
    return (
        f"the run drifted: {np.mean(first):.4g} output tok/s in the first half of its steady part,"
        f" {np.mean(second):.4g} in the second. Warm up, or run longer"
    )
