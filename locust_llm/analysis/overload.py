"""Overload: whether open load outgrew the service, over a whole run or over what has been run so far.

Two signs. Arrivals that were dropped or still wait have not been served; and requests in flight that pile up, by the
rule of an open-loop step (`backlog`), will have no end. Either way every latency of the run is only as long as one
cared to wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from locust_llm.analysis.backlog import BacklogRule, backlog_slope
from locust_llm.analysis.run_intervals import in_flight_between
from locust_llm.measure.stats import RunStats

UNSERVED_SHARE: Final = 0.01
UNSERVED_LEAST: Final = 5
"""More than this share of the arrivals, and this many, were dropped or still wait: overloaded."""


@dataclass(frozen=True, slots=True)
class OpenTotals:
    """Arrivals of an open-loop run, up to its stop: scheduled = sent + dropped + waiting.

    `dropped`: over `--llm-max-in-flight`, or a lost worker's. `waiting`: due, and no sender was free. `rate_rps`: what
    was asked for, requests a second; None where a file of timestamps tells, or the rate changes. `settle_s`: how long
    the rate still grew when all users ran. `stepped`: steps of rate, which overload the service on purpose.
    """

    scheduled: int
    sent: int
    dropped: int
    waiting: int
    rate_rps: float | None = None
    settle_s: float = 0.0
    stepped: bool = False


def overloaded(stats: RunStats, totals: OpenTotals) -> str | None:
    """How open load outgrew the service, in words; None when it did not, or nothing tells."""
    if totals.stepped:
        return None
    lost = unserved(totals)
    if lost is not None or totals.rate_rps is None:
        return lost
    return growing(stats, totals.rate_rps, totals.settle_s)


def unserved(totals: OpenTotals) -> str | None:
    """Whether too many arrivals were not sent."""
    missing = totals.dropped + totals.waiting
    if missing < UNSERVED_LEAST or missing <= UNSERVED_SHARE * totals.scheduled:
        return None
    return (
        f"overloaded: of {totals.scheduled} arrivals offered, {totals.dropped} were dropped and"
        f" {totals.waiting} waited in vain for a free user"
    )


def growing(stats: RunStats, offered_rps: float, settle_s: float = 0.0) -> str | None:
    """Whether the requests in flight pile up."""
    median_ms = stats.histogram("residence").percentile(0.5)
    begin_s, end_s = stats.all_running_s, stats.stopped_s if stats.stopped_s is not None else stats.complete_s
    if begin_s is None or end_s is None or median_ms is None:
        return None
    rule = BacklogRule()
    begin_s = math.ceil(begin_s + settle_s + rule.settle_residences * median_ms / 1e3)
    seconds = math.floor(end_s) - begin_s
    if seconds < rule.least_s:
        return None
    in_flight = in_flight_between(stats, np.arange(seconds + 1, dtype=np.float64) + begin_s)
    slope, later = backlog_slope(in_flight, 1.0), backlog_slope(in_flight[len(in_flight) // 2 :], 1.0)
    if slope is None or slope.value <= max(rule.overload_errors * slope.error, rule.least_share * offered_rps):
        return None
    if later is None or later.value <= rule.later_errors * later.error:  # it only fills to its level
        return None
    return (
        f"overloaded: of {offered_rps:.3g} requests offered a second, {slope.value:.3g} a second piled up"
        f" (± {slope.error:.2g}), so that waiting has no limit"
    )
