"""The ladder of loads that a search climbs: which load lies between two others, and where to look next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

GAP: Final = 1.21
"""Loads next to the best are at most this factor apart: finer steps would differ by less than their noise."""


def between(low: float, high: float, gap: float, *, whole: bool = True) -> float | None:
    """The middle of two loads on the logarithmic scale; None when they are close enough or nothing lies between."""
    if high / low <= gap:
        return None
    middle = math.sqrt(low * high)
    if not whole:
        return middle
    rounded = round(middle)
    return rounded if low < rounded < high else None


def beside(
    loads: Sequence[float], powers: Sequence[float], place: int, gap: float, *, whole: bool = True
) -> float | None:
    """What to try next around the best, `loads[place]` (loads rise): the middle of the wider gap beside it.

    Of equal gaps the one whose far end has more power comes first; a gap without a middle gives way to the other.
    """
    gaps = []
    if place > 0:
        gaps.append((loads[place] / loads[place - 1], powers[place - 1], loads[place - 1], loads[place]))
    if place < len(loads) - 1:
        gaps.append((loads[place + 1] / loads[place], powers[place + 1], loads[place], loads[place + 1]))
    for _, _, low, high in sorted(gaps, reverse=True):
        middle = between(low, high, gap, whole=whole)
        if middle is not None:
            return middle
    return None
