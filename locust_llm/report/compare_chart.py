"""Charts of a comparison as SVG, drawn here: distributions over each other, and throughput over time.

A line for each run, in its side's colour. Colours and text come from the page's style, so that a chart is right on
light, dark and paper. What is drawn are numbers only; texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import infinite_samples

Points = list[tuple[float, float]]

WIDTH: Final = 640
HEIGHT: Final = 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 34
MOST: Final = 240
"""Points of a line; more cannot be seen."""

_LOW, _HIGH = 0.001, 0.999
"""What part of the samples the range of a distribution's axis shows."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line: which side it belongs to (`base` or `run`), what it is called, and its points."""

    side: str
    label: str
    points: Points


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a value lies on an axis, 0 … 1, and its ticks as (value, text)."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]
    title: str


def distribution_chart(key: str, sides: Sequence[tuple[str, str, RunStats]]) -> str:
    """Share of the requests (of the gaps) that are at or below a time; failures keep a line below 100 %.

    Empty without samples. `sides`: side, label and statistics of each run.
    """
    histograms = [(side, label, stats, stats.histogram(key)) for side, label, stats in sides]
    found = [
        (low, high) for *_, h in histograms if h.count for low, high in [(h.percentile(_LOW), h.percentile(_HIGH))]
    ]
    lows, highs = ([pair[i] for pair in found if pair[i]] for i in (0, 1))
    if not lows or not highs:
        return ""
    low, high = min(v for v in lows if v is not None), max(v for v in highs if v is not None)
    axis = _logarithmic(low / 1.02, max(high, low * 1.2) * 1.02, f"{BY_KEY[key].title} (ms)")
    drawn = [
        Drawn(side, label, _cumulated(h.buckets(), h.count + infinite_samples(stats.counts(), BY_KEY[key], h.count)))
        for side, label, stats, h in histograms
        if h.count
    ]
    return _svg(drawn, axis, _share_axis())


def throughput_chart(sides: Sequence[tuple[str, str, RunStats]]) -> str:
    """Output tokens per second over the time since each run's begin; empty when no run has a series."""
    drawn = [Drawn(side, label, points) for side, label, stats in sides if (points := _rates(stats))]
    if not drawn:
        return ""
    end = max(points.points[-1][0] for points in drawn)
    top = max(rate for points in drawn for _, rate in points.points)
    return _svg(drawn, _linear(end, "seconds since the begin"), _linear(top * 1.05, "output tok/s"))


def _cumulated(buckets: Sequence[tuple[float, int]], total: int) -> Points:
    """Steps of the distribution: one point every so many samples, the last one always."""
    points: Points = []
    below, step = 0, max(1, total // MOST)
    next_at = 0
    for value, count in buckets:
        if not points:
            points.append((value, 0.0))
        below += count
        if below >= next_at:
            points.append((value, below / total))
            next_at = below + step
    points.append((buckets[-1][0], below / total))
    return points


def _rates(stats: RunStats) -> Points:
    """Output tokens per second over stretches of equal length."""
    points = list(stats.points())
    if not points:
        return []
    begin, end = points[0].second, points[-1].second + points[-1].span_s
    span = max(1, math.ceil((end - begin) / MOST))
    tokens: dict[int, float] = {}
    seconds: dict[int, int] = {}
    for point in points:
        place = (point.second - begin) // span
        tokens[place] = tokens.get(place, 0.0) + point.output_tokens
        seconds[place] = seconds.get(place, 0) + point.span_s
    return [((place + 0.5) * span, tokens[place] / seconds[place]) for place in sorted(tokens)]


_TICKS: Final = 8
_STEPS: Final = (
    [1 + i / 50 for i in range(450)],
    [1 + i / 20 for i in range(180)],
    [1 + i / 10 for i in range(90)],
    [1 + i / 5 for i in range(45)],
    [1 + i / 2 for i in range(18)],
    [1, 2, 3, 5, 7],
    [1, 2, 5],
    [1],
)
"""Ticks of a decade, the finest first: the first that gives few enough is taken."""

# -- axes ----------------------------------------------------------------------------------------------------------


def _logarithmic(low: float, high: float, title: str) -> Axis:
    span = math.log(high / low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in _STEPS:
        values = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(values) <= _TICKS:
            break
    ticks = tuple((value, f"{value:,.4g}") for value in values)
    return Axis(lambda value: math.log(max(value, low * 1e-3) / low) / span, ticks, title)


def _linear(high: float, title: str) -> Axis:
    high = high if high > 0 else 1.0
    raw = high / 5
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    ticks = tuple((i * step, f"{i * step:,.6g}") for i in range(math.floor(high / step) + 1))
    return Axis(lambda value: value / high, ticks, title)


def _share_axis() -> Axis:
    ticks = tuple((share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 0.95))
    return Axis(lambda value: value / 1.02, ticks, "")


# -- drawing -------------------------------------------------------------------------------------------------------


def _svg(drawn: Sequence[Drawn], across: Axis, up: Axis) -> str:
    return "".join(_parts(drawn, across, up))


def _parts(drawn: Sequence[Drawn], across: Axis, up: Axis) -> Iterator[str]:
    label = escape(f"{up.title or 'share'} over {across.title}")
    yield f'<svg class="drawn" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, text in up.ticks:
        y = _y(up, value)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    for value, text in across.ticks:
        x = _x(across, value)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{escape(text)}</text>'
    middle = (LEFT + right) / 2
    yield f'<text class="axis" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(across.title)}</text>'
    if up.title:
        yield f'<text class="axis" x="{LEFT + 4}" y="{TOP + 9}">{escape(up.title)}</text>'
    for line in drawn:
        inside = [(_x(across, x), _y(up, y)) for x, y in line.points]
        path = " ".join(f"{min(max(x, LEFT), right):.1f},{min(max(y, TOP), bottom):.1f}" for x, y in inside)
        yield f'<polyline class="{line.side}" points="{path}"><title>{escape(line.label)}</title></polyline>'
    yield "</svg>"


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM)
