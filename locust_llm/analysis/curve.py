"""Curve: the smooth law that is fitted to the steps of a search, and its maximum of power.

    (x / X)^p = (a + b·x)^p + (x / Xc)^p,   2 ≤ p ≤ 16

x users get X units a second, so that one takes R = x / X a unit. While the server has room, R = a + b·x: work that
grows with the users it is shared by (b = 0: no contention at all). When one resource is full, X = Xc and R = x / Xc.
p joins the two: a large p is a kink (slots), a small one a gentle bend. The fit is weighted least squares on ln R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARPNESS: Final = (2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0)
ERROR_FLOOR: Final = 0.005
"""No step counts as known better than this: the law itself is not that true."""

MIN_STEPS: Final = 4
_ROUNDS: Final = 40
_GRID: Final = 2000


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted law. `a` in seconds a unit, `b` in seconds a unit and user, `xc` in units a second.

    `misfit` is the mean square of the residuals in standard errors: far above 1 means that the law does not fit.
    """

    a: float
    b: float
    xc: float
    p: float
    misfit: float

    def throughput(self, users: Floats) -> Floats:
        """X at each number of users."""
        return users / np.exp(_ln_time(np.log([self.a, self.b, self.xc]), self.p, users)[0])

    def power(self, users: Floats) -> Floats:
        """P = X² / x at each number of users."""
        return self.throughput(users) ** 2 / users


def fit(users: Floats, rates: Floats, ln_errors: Floats) -> Curve | None:
    """The best curve through the steps; None for fewer than four."""
    if len(users) < MIN_STEPS:
        return None
    weights = 1.0 / np.maximum(ln_errors, ERROR_FLOOR)
    ln_time = np.log(users / rates)
    first, most = int(np.argmin(users)), float(np.max(rates))
    best: Curve | None = None
    for p in SHARPNESS:
        for share in (1e-3, 0.5):  # of the time at the highest load, contention's part to start with
            a = float(users[first] / rates[first])
            start = np.log([a, share * a / float(np.mean(users)), 1.1 * most])
            logs, misfit = _descend(start, p, users, ln_time, weights)
            if best is None or misfit < best.misfit:
                a, b, xc = (float(value) for value in np.exp(logs))
                best = Curve(a, b, xc, p, misfit)
    return best


def peak(users: Floats, power: Floats, level: float) -> tuple[float, float, float]:
    """(low, place of the maximum, high): where power, given at rising `users`, stays at or above level · maximum."""
    top = int(np.argmax(power))
    below = np.flatnonzero(power < level * power[top])
    left, right = below[below < top], below[below > top]
    low = users[left[-1] + 1] if len(left) else users[0]
    high = users[right[0] - 1] if len(right) else users[-1]
    return float(low), float(users[top]), float(high)


def grid(low: float, high: float) -> Floats:
    """Users between two loads, evenly on the logarithmic scale."""
    return np.geomspace(low, high, _GRID)


def _ln_time(logs: Floats, p: float, users: Floats) -> tuple[Floats, Floats]:
    """ln R and its derivatives by (ln a, ln b, ln Xc), shape (users, 3)."""
    a, b, xc = np.exp(logs)
    free, full = a + b * users, users / xc
    ln_free, ln_full = np.log(free), np.log(full)
    ln_time = np.logaddexp(p * ln_free, p * ln_full) / p
    share = np.exp(p * (ln_free - ln_time))
    slopes = np.stack([share * a / free, share * b * users / free, share - 1.0], axis=1)
    return ln_time, slopes


def _descend(start: Floats, p: float, users: Floats, ln_time: Floats, weights: Floats) -> tuple[Floats, float]:
    """Levenberg and Marquardt's descent from `start`; returns the logs of (a, b, Xc) and the misfit."""
    # Bounds far out: b only ever goes towards 0, and Xc towards infinity when nothing is full.
    floor = np.array([start[0] - 5.0, start[0] - 14.0 - np.log(users.max()), start[2] - 3.0])
    ceiling = start + np.array([5.0, 14.0, 7.0])
    logs, damping = start, 1e-2
    fitted, slopes = _ln_time(logs, p, users)
    left = (ln_time - fitted) * weights
    cost = float(left @ left)
    for _ in range(_ROUNDS):
        leaning = slopes * weights[:, None]
        normal = leaning.T @ leaning
        normal[np.diag_indices(3)] += damping * (np.diag(normal) + 1e-9)
        moved = np.clip(logs + np.linalg.solve(normal, leaning.T @ left), floor, ceiling)
        fitted, new_slopes = _ln_time(moved, p, users)
        new_left = (ln_time - fitted) * weights
        new_cost = float(new_left @ new_left)
        if new_cost < cost:
            done = cost - new_cost < 1e-6 * cost
            logs, slopes, left, cost, damping = moved, new_slopes, new_left, new_cost, damping / 3
            if done:
                break
        else:
            damping *= 4
            if damping > 1e8:
                break
    return logs, cost / len(users)
