"""PhasesChart: a scatter with its fit and, below on the same x axis, the residuals; as SVG that needs no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from locust_llm.analysis.phases_prefill import Scatter
from locust_llm.report.lines import number

WIDTH: Final = 560
LEFT: Final = 64
RIGHT: Final = 12
UPPER: Final = (14, 214)
LOWER: Final = (250, 320)
HEIGHT: Final = 362
POINTS_LIMIT: Final = 800
"""More points than this are thinned evenly."""

TICKS: Final = 4


def chart(title: str, x_title: str, scatter: Scatter, *, line: bool) -> str:
    """The chart of one fit; `line`: the fitted values lie on one curve, else they are drawn as crosses."""
    step = max(1, math.ceil(len(scatter.x) / POINTS_LIMIT))
    x, y, fitted = (values[::step] for values in (scatter.x, scatter.y, scatter.fitted))
    residuals = [seen - told for seen, told in zip(y, fitted, strict=True)]
    across = _Scale(0.0, max(scatter.x, default=0.0), LEFT, WIDTH - RIGHT)
    up = _Scale(0.0, max((*y, *fitted), default=0.0), UPPER[1], UPPER[0])
    bound = max(map(abs, residuals), default=0.0)
    off = _Scale(-bound, bound, LOWER[1], LOWER[0])
    parts = [
        *_axis(up, UPPER, "ms"),
        *_axis(off, LOWER, "residual, ms"),
        *_across(across, x_title),
        _dots(across, up, x, y),
        _line(across, up, x, fitted) if line else _crosses(across, up, x, fitted),
        f'<path d="M{LEFT} {off(0.0):.1f}H{WIDTH - RIGHT}" stroke="var(--line)"/>',
        _dots(across, off, x, residuals),
    ]
    name = escape(f"{title}: measured and fitted, residuals below")
    return (
        f'<figure class="chart" style="margin:0"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}" style="width:100%" font-size="11" '
        f'fill="currentColor">{"".join(parts)}</svg></figure>'
    )


class _Scale:
    """Values low … high to pixels begin … end."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low = low
        self.high = high if high > low else low + 1.0
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        return self._begin + (value - self.low) / (self.high - self.low) * (self._end - self._begin)


def _axis(scale: _Scale, frame: tuple[int, int], title: str) -> list[str]:
    lines = [f'<text x="{LEFT}" y="{frame[0] - 4}" fill="var(--quiet)">{escape(title)}</text>']
    for i in range(TICKS + 1):
        value = scale.low + (scale.high - scale.low) * i / TICKS
        if frame is LOWER and i % 2:
            continue
        y = scale(value)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="var(--line)" stroke-width="0.5"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    return lines


def _across(scale: _Scale, title: str) -> list[str]:
    lines = []
    for i in range(TICKS + 1):
        value = scale.high * i / TICKS
        anchor = "end" if i == TICKS else "middle"
        lines.append(f'<text x="{scale(value):.1f}" y="{LOWER[1] + 16}" text-anchor="{anchor}">{number(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle" fill="var(--quiet)">{escape(title)}</text>')
    return lines


def _dots(across: _Scale, up: _Scale, x: Sequence[float], y: Sequence[float]) -> str:
    dots = "".join(f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="2.2"/>' for a, b in zip(x, y, strict=True))
    return f'<g fill="#2563eb" fill-opacity="0.55">{dots}</g>'


def _line(across: _Scale, up: _Scale, x: Sequence[float], y: Sequence[float]) -> str:
    points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="var(--accent)" stroke-width="1.6"/>'


def _crosses(across: _Scale, up: _Scale, x: Sequence[float], y: Sequence[float]) -> str:
    marks = "".join(
        f"M{across(a) - 3:.1f} {up(b):.1f}h6M{across(a):.1f} {up(b) - 3:.1f}v6" for a, b in zip(x, y, strict=True)
    )
    return f'<path d="{marks}" stroke="var(--accent)" fill="none"/>'
