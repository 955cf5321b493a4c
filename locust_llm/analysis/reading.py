"""Reading the evidence of a search: knee, bracket, zone and cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis import curve
from locust_llm.analysis.capacity import littles_bound, saturation, slo_capacity
from locust_llm.analysis.cause import Cause, find_cause
from locust_llm.analysis.step import Status, StepResult
from locust_llm.analysis.verdict import Evidence, Verdict, VerdictKind
from locust_llm.analysis.wording import notes, nothing, sentence

Floats = NDArray[np.float64]

BRACKET_ERRORS: Final = 2.0
ZONE: Final = 0.95
WELL_PAST: Final = 1.5
CLOSE: Final = 1.2
"""Between loads closer than this growth cannot be told; then the best step stands in for the lower one."""

POWER_FLOOR: Final = 0.005
"""ln P of no step counts as known better than this, however steady its batches are."""

NO_POWER: Final = 1e9
"""How far, in ln P, a step without any success lies below the others."""


def power_gap(better: StepResult, worse: StepResult) -> tuple[float, float]:
    """(ln P of the first - ln P of the second, the standard error of that)."""
    if worse.power <= 0:
        return NO_POWER, 0.0
    errors = (max(step.ln_power_error, POWER_FLOOR) for step in (better, worse))
    return math.log(better.power / worse.power), math.hypot(*errors)


def read(evidence: Evidence) -> Verdict:
    """The verdict."""
    steps = evidence.steps
    if not steps or max(step.power for step in steps) <= 0:
        return Verdict(_spoilt_kind(evidence), nothing(evidence), complete=evidence.complete)
    best = max(range(len(steps)), key=lambda place: steps[place].power)
    low, high = _bracket(steps, best)
    knee, zone, fitted = _knee(steps, best, low, high)
    kind = _kind(evidence, low, high)
    cause = _cause(evidence, best, high) if kind in (VerdictKind.KNEE, VerdictKind.BELOW) else None
    capacity = slo_capacity(steps, evidence.slo_target) if evidence.slo_target is not None else None
    found = steps[best]
    verdict = Verdict(
        kind=kind,
        sentence="",
        knee=knee if kind is VerdictKind.KNEE else None,
        fitted=fitted and kind is VerdictKind.KNEE,
        best=found.load,
        bracket=(steps[low].load if low is not None else None, steps[high].load if high is not None else None),
        zone=zone if kind is VerdictKind.KNEE else None,
        throughput=found.throughput.value if found.throughput is not None else None,
        unit=found.unit,
        requests_per_s=found.requests_per_s,
        saturation=saturation(steps),
        littles_bound=littles_bound(steps),
        slo_capacity=capacity,
        slo_target=evidence.slo_target,
        cause=cause,
        complete=evidence.complete,
        notes=notes(evidence),
    )
    return replace(verdict, sentence=sentence(verdict, evidence, found))


def _bracket(steps: Sequence[StepResult], best: int) -> tuple[int | None, int | None]:
    """Places of the nearest steps on each side with clearly lower power.

    Power has one maximum, so a step only counts when all beyond it are clearly lower too: with many looks one of them
    is low by chance.
    """

    def lower(place: int) -> bool:
        gap, error = power_gap(steps[best], steps[place])
        return gap > BRACKET_ERRORS * error

    below = list(takewhile(lower, range(best)))
    above = list(takewhile(lower, range(len(steps) - 1, best, -1)))
    return (below[-1] if below else None), (above[-1] if above else None)


def _kind(evidence: Evidence, low: int | None, high: int | None) -> VerdictKind:
    spoilt = evidence.spoilt
    if spoilt is not None and (high is None or spoilt.load < evidence.steps[high].load):
        return _spoilt_kind(evidence)
    if high is not None:
        return VerdictKind.KNEE if low is not None else VerdictKind.BELOW
    return VerdictKind.ABOVE if evidence.complete else VerdictKind.UNKNOWN


def _spoilt_kind(evidence: Evidence) -> VerdictKind:
    spoilt = evidence.spoilt
    limited = spoilt is not None and spoilt.status is Status.CLIENT_LIMITED
    return VerdictKind.CLIENT_LIMITED if limited else VerdictKind.UNKNOWN


def _knee(
    steps: Sequence[StepResult], best: int, low: int | None, high: int | None
) -> tuple[float, tuple[float, float], bool]:
    """(knee, zone, whether they are the fit's)."""
    useful = [step for step in steps if step.power > 0]
    users = np.array([step.users for step in useful])
    rates = np.array([step.throughput.value for step in useful if step.throughput is not None])
    errors = np.array([step.ln_power_error / 2 for step in useful])
    law = curve.fit(users, rates, errors)
    place = curve.grid(float(users[0]), float(users[-1]))
    if law is not None:
        left, top, right = curve.peak(place, law.power(place), ZONE)
        inside = (low is None or top > steps[low].users) and (high is None or top < steps[high].users)
        if inside:
            return top, (left, right), True
    power = np.exp(np.interp(np.log(place), np.log(users), np.log(rates**2 / users)))
    left, _, right = curve.peak(place, power, ZONE)
    return steps[best].users, (left, right), False


def _cause(evidence: Evidence, best: int, high: int | None) -> Cause | None:
    """The cause, from what changed between the bracket's upper end and a step well past it."""
    steps = evidence.steps
    if high is None:
        return None
    past = past_bracket(steps, high)
    before = steps[high] if past.load >= CLOSE * steps[high].load else steps[best]
    until = [step for step in steps if step.load <= past.load]
    peak = max(until, key=lambda step: step.throughput.value if step.throughput is not None else 0.0)
    probe = evidence.probe if evidence.probe is not None and evidence.probe.load == past.load else None
    return find_cause(before, past, peak, probe)


def past_bracket(steps: Sequence[StepResult], high: int) -> StepResult:
    """The first step well past the bracket's upper end; the highest load when none is."""
    return next((step for step in steps if step.load >= WELL_PAST * steps[high].load), steps[-1])
