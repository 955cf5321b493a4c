"""Time batches: a window cut into equal stretches, whose means are nearly independent though requests are not.

Requests of one run are strongly correlated (they share batches, queues and steps), so a standard error from single
requests is far too small. The means of stretches that are longer than a request's life are nearly independent; their
scatter is the honest one (method of batch means, Law & Kelton, *Simulation Modeling and Analysis*, ch. 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, both in the unit of the quantity."""

    value: float
    error: float

    @property
    def ln_error(self) -> float:
        """Standard error of the logarithm: the relative error. 0 when the value is 0."""
        return self.error / abs(self.value) if self.value else 0.0


def batch_edges(begin_s: float, end_s: float, least_s: float, most: int) -> Floats:
    """Borders of equal batches of at least `least_s`, at most `most` of them, at least one."""
    count = int((end_s - begin_s) / least_s) if least_s > 0 else most
    return np.linspace(begin_s, end_s, max(1, min(count, most)) + 1)


def estimate(means: Floats) -> Estimate | None:
    """Mean and standard error of batch means of equal length; None for fewer than two batches."""
    if len(means) < 2:
        return None
    return Estimate(float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(len(means)))


def ratio_estimate(over: Floats, under: Floats) -> Estimate | None:
    """Estimate of Σ over / Σ under from batch sums (Cochran's ratio estimator); None when it is not defined."""
    total = float(np.sum(under))
    if len(over) < 2 or total <= 0:
        return None
    ratio = float(np.sum(over)) / total
    n = len(over)
    spread = float(np.sum((over - ratio * under) ** 2)) / (n - 1)
    return Estimate(ratio, math.sqrt(spread / n) / (total / n))


def sums(at_s: Floats, values: Floats, edges: Floats) -> Floats:
    """Sum of `values` in each batch, each at its instant; a value on a border belongs to the batch that it ends."""
    inside = (at_s > edges[0]) & (at_s <= edges[-1])
    place = np.searchsorted(edges, at_s[inside], side="left") - 1
    total: Floats = np.bincount(place, weights=values[inside], minlength=len(edges) - 1).astype(np.float64)
    return total


def student_t(p: float, dof: int) -> float:
    """The p-quantile of Student's t, p > 0.5.

    Exact for 1 and 2 degrees of freedom; beyond, the expansion of Cornish and Fisher (Abramowitz & Stegun 26.7.5),
    within 0.2 % for p ≤ 0.975.
    """
    if dof == 1:
        return math.tan(math.pi * (p - 0.5))
    if dof == 2:
        a = 2 * p - 1
        return a * math.sqrt(2 / (1 - a * a))
    z = NormalDist().inv_cdf(p)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / dof + g2 / dof**2 + g3 / dof**3 + g4 / dof**4
