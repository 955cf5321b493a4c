"""Digits: how many of them a figure is given. A histogram's percentiles are right to 0.1 %, so four are enough."""

from __future__ import annotations

import math

Number = int | float


def short(value: float | None) -> Number | None:
    """The value to four significant digits, larger ones to the unit; None stays None, and so what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    if abs(value) >= 1000:
        return round(value)
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def three(value: float | None) -> Number | None:
    """The value to three significant digits, larger ones to the unit: what tables show of milliseconds."""
    if value is None or not math.isfinite(value):
        return None
    if abs(value) >= 100:
        return round(value)
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded
