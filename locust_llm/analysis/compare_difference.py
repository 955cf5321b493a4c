"""Differences: how a figure of one side of runs differs from that of another, and how sure that is.

Theory of operation. Each run gives one value. Ratios are taken on the logarithmic scale, so that a side's value is the
geometric mean of its runs and "10 % slower" and "10 % faster" are alike; shares are averaged and subtracted as they
are. The yardstick of the difference is, in this order,

- `runs`: two runs or more on both sides: their pooled scatter, Student's t with n + m - 2 degrees of freedom;
- `baseline`: the scatter of a stored baseline of three runs or more, t with n - 1. The other side counts as one run
  however many it has, since runs made together share what makes one day differ from another;
- `within`: nothing but the scatter within the runs. How runs differ from each other is unknown then, so it gives an
  interval but proves nothing, except where both sides are of one and the same run.

Where the scatter within the runs can be told it is the least that any yardstick gives: three runs may agree by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from locust_llm.analysis.batches import student_t
from locust_llm.analysis.compare_reading import Reading
from locust_llm.analysis.compare_subject import Subject
from locust_llm.analysis.intervals import CONFIDENCE

ROUNDING: Final = 0.001
"""The least error of ln(value): histograms round by so much."""

BASELINE_LEAST: Final = 3
"""Runs that a stored baseline needs."""


class Yardstick(StrEnum):
    """What a difference is measured by."""

    RUNS = "between runs"
    BASELINE = "against the baseline's spread"
    WITHIN = "within the runs"


NORMAL: Final = 1000
"""Degrees of freedom at which Student's t is the normal distribution."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Base against run. Values are in the figure's unit; None where a side has none.

    `change` and its 95 % interval `low` … `high`: run / base - 1, of shares run - base. `base_beyond`, `run_beyond`: a
    percentile lies among the failures, so that the value is the longest success, a lower bound. `p`: of no difference,
    two-sided; None where only the scatter within the runs is known. `weak`: why it must not be judged.
    """

    base: float | None
    run: float | None
    base_n: int
    run_n: int
    base_beyond: bool = False
    run_beyond: bool = False
    change: float | None = None
    low: float | None = None
    high: float | None = None
    yardstick: Yardstick | None = None
    p: float | None = None
    weak: str | None = None


def difference(
    subject: Subject, base: Sequence[Reading], run: Sequence[Reading], *, stored: bool = False, together: bool = False
) -> Difference:
    """The difference in one figure. `stored`: the base is a stored baseline. `together`: both sides are of one run, so
    that the scatter within it is all there is."""
    weak = min((reading.weak for reading in (*base, *run) if reading.weak is not None), default=None)
    scale = _SHARE if subject.is_share else _RATIO
    found = Difference(
        base=_mean(scale, base),
        run=_mean(scale, run),
        base_n=sum(reading.n for reading in base),
        run_n=sum(reading.n for reading in run),
        base_beyond=any(reading.beyond for reading in base),
        run_beyond=any(reading.beyond for reading in run),
        weak=weak,
    )
    if not _comparable(scale, base) or not _comparable(scale, run):
        return found
    return _measured(found, scale, _Side(scale, base), _Side(scale, run), stored=stored, together=together)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where differences are taken: there, back, and back for a difference."""

    to: Callable[[float], float]
    back: Callable[[float], float]
    change: Callable[[float], float]
    least: float


_RATIO: Final = _Scale(math.log, math.exp, math.expm1, ROUNDING)
_SHARE: Final = _Scale(float, float, float, 0.0)


class _Side:
    """The runs of a side on the scale; sorted, so that no figure depends on their order."""

    def __init__(self, scale: _Scale, readings: Sequence[Reading]) -> None:
        self.values = sorted(scale.to(reading.value) for reading in readings if reading.value is not None)
        self.n = len(self.values)
        self.mean = math.fsum(self.values) / self.n
        self.squares = math.fsum((value - self.mean) ** 2 for value in self.values)
        errors = [reading.error for reading in readings]
        known = [error for error in errors if error is not None]
        self.within = math.fsum(error**2 for error in known) / self.n**2 if len(known) == len(errors) else None
        self.batches = min((reading.batches for reading in readings if reading.batches), default=0)


def _measured(found: Difference, scale: _Scale, base: _Side, run: _Side, *, stored: bool, together: bool) -> Difference:
    apart = run.mean - base.mean
    errors = []  # (standard error of the difference, degrees of freedom): the least certain one counts
    yardstick = Yardstick.WITHIN
    if base.within is not None and run.within is not None:
        errors.append((math.sqrt(base.within + run.within), _within_dof(base, run)))
    if stored and base.n >= BASELINE_LEAST:
        yardstick, dof = Yardstick.BASELINE, base.n - 1
        errors.append((math.sqrt(base.squares / dof * (1 / base.n + 1)), dof))
    elif min(base.n, run.n) >= 2:
        yardstick, dof = Yardstick.RUNS, base.n + run.n - 2
        errors.append((math.sqrt((base.squares + run.squares) / dof * (1 / base.n + 1 / run.n)), dof))
    if not errors:
        return replace(found, change=scale.change(apart))
    errors = [(max(error, scale.least), dof) for error, dof in errors]
    half = max(student_t((1 + CONFIDENCE) / 2, dof) * error for error, dof in errors)
    low, high = scale.change(apart - half), scale.change(apart + half)
    p = None
    if together or yardstick is not Yardstick.WITHIN:
        p = max(two_sided_p(apart / error, dof) if error else float(apart == 0) for error, dof in errors)
    return replace(found, change=scale.change(apart), low=low, high=high, yardstick=yardstick, p=p)


def _within_dof(base: _Side, run: _Side) -> int:
    """Degrees of freedom of the scatter within all runs."""
    if not base.batches or not run.batches:  # a share's error that comes from the number of outcomes alone
        return NORMAL
    return max(1, (base.batches - 1) * base.n + (run.batches - 1) * run.n)


def _comparable(scale: _Scale, readings: Sequence[Reading]) -> bool:
    """Whether every run has a value that the scale has."""
    values = [reading.value for reading in readings]
    return bool(values) and not any(value is None or (scale is _RATIO and value <= 0) for value in values)


def _mean(scale: _Scale, readings: Sequence[Reading]) -> float | None:
    """The side's value; None when a run has none."""
    if _comparable(scale, readings):
        return scale.back(_Side(scale, readings).mean)
    return _mean(_SHARE, readings) if scale is _RATIO else None


def two_sided_p(t: float, dof: int) -> float:
    """Probability that Student's t lies farther out than `t`: Abramowitz & Stegun 26.7.3 and 26.7.4, exact."""
    angle = math.atan(abs(t) / math.sqrt(dof))
    cosine, sine = math.cos(angle), math.sin(angle)
    if dof % 2:
        term, total = cosine, cosine if dof > 1 else 0.0
        for k in range(3, dof - 1, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        inside = 2 / math.pi * (angle + sine * total)
    else:
        term = total = 1.0
        for k in range(2, dof - 1, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        inside = sine * total
    return min(1.0, max(0.0, 1 - inside))
