"""Regression: a straight law through points of which some are disturbed, with honest intervals.

Theory of operation. Least squares with Huber's weights (a residual beyond 1.345 robust standard deviations counts less
the farther it is; Huber, *Robust Statistics*, ch. 7), since a load test's disturbances come on one side only. The
intervals come from time batches: the points are cut into equal stretches of time, and how the stretches' sums of
residuals scatter gives the variance (the cluster-robust "sandwich" of Liang & Zeger 1986), because neighbouring
requests of one run depend on each other. With fewer than `MIN_BATCHES` stretches there is no interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import student_t
from locust_llm.analysis.intervals import CONFIDENCE, MAX_BATCHES, MIN_BATCHES

Floats = NDArray[np.float64]

HUBER: Final = 1.345
_NORMAL_MAD: Final = 1.4826
_ROUNDS: Final = 30


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A fitted number and its 95 % interval within this run; no `low` and `high` where there are too few points."""

    value: float
    low: float | None = None
    high: float | None = None

    def scaled(self, factor: float) -> Coefficient:
        """The same in another unit; `factor` > 0."""
        ends = (None if end is None else end * factor for end in (self.low, self.high))
        return Coefficient(self.value * factor, *ends)

    @property
    def clear(self) -> bool:
        """Whether the interval is known and has no 0 in it."""
        return self.low is not None and self.high is not None and self.low * self.high > 0


@dataclass(frozen=True, slots=True)
class Regression:
    """A fit: its coefficients in the order of the design's columns, the fitted values, and R² over all points."""

    coefficients: tuple[Coefficient, ...]
    fitted: Floats
    r2: float | None


def fit(design: Floats, y: Floats) -> Regression | None:
    """The law y = design · coefficients through points in the order of their times; `design` has a row a point.

    None for fewer points than twice the columns, or columns that say the same.
    """
    n, k = design.shape
    if n < 2 * k or np.linalg.matrix_rank(design / np.abs(design).max(axis=0)) < k:
        return None
    scales = np.abs(design).max(axis=0)
    scaled = design / scales
    weights = np.ones(n)
    solution = np.zeros(k)
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        moved = np.linalg.lstsq(scaled * root[:, None], y * root, rcond=None)[0]
        settled = np.allclose(moved, solution, rtol=1e-9, atol=0.0)
        solution = moved
        residuals = y - scaled @ solution
        spread = _NORMAL_MAD * float(np.median(np.abs(residuals)))
        if settled or spread <= 1e-9 * float(np.abs(y).max()):
            break
        weights = np.minimum(1.0, HUBER * spread / np.maximum(np.abs(residuals), 1e-300))
    fitted = scaled @ solution
    total = float(np.sum((y - y.mean()) ** 2))
    r2 = 1.0 - float(np.sum((y - fitted) ** 2)) / total if total > 0 else None
    errors = _errors(scaled, y - fitted, weights)
    return Regression(tuple(_coefficient(solution[i] / scales[i], errors, i, scales[i]) for i in range(k)), fitted, r2)


def _batches(n: int, k: int) -> int:
    """Stretches of time: each has at least twice as many points as the law has numbers."""
    return min(MAX_BATCHES, n // (2 * k))


def _errors(design: Floats, residuals: Floats, weights: Floats) -> tuple[Floats, float] | None:
    """(standard errors, Student's t of the interval) from time batches; None when these are too few."""
    n, k = design.shape
    batches = _batches(n, k)
    if batches < MIN_BATCHES:
        return None
    bread = np.linalg.inv((design * weights[:, None]).T @ design)
    scores = design * (weights * residuals)[:, None]
    sums = np.stack([part.sum(axis=0) for part in np.array_split(scores, batches)])
    slack = batches / (batches - 1) * (n - 1) / (n - k)
    variance = np.diag(bread @ (sums.T @ sums) @ bread) * slack
    return np.sqrt(np.maximum(variance, 0.0)), student_t((1 + CONFIDENCE) / 2, batches - 1)


def _coefficient(value: float, errors: tuple[Floats, float] | None, i: int, scale: float) -> Coefficient:
    if errors is None:
        return Coefficient(float(value))
    half = float(errors[0][i]) / float(scale) * errors[1]
    if not math.isfinite(half):
        return Coefficient(float(value))
    return Coefficient(float(value), float(value) - half, float(value) + half)
