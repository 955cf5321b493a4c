"""The truth benchmark as a picture: cost of a token and error of the stamps against the number of streams, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 420, 300, 60, 40, 110, 45
LABEL_HEIGHT = 13
COLOURS = {"ours": "#1a7f37", "plain": "#cf222e", "aiohttp": "#9a6700", "C": "#57606a"}

Row = dict[str, Any]


def svg(rows: Sequence[Row]) -> str:
    """All rows; for each mode a chart of the cost and one of the error, both on logarithmic scales."""
    modes = list(dict.fromkeys(row["server"] for row in rows))
    parts = []
    for place, mode in enumerate(modes):
        chosen = [row for row in rows if row["server"] == mode]
        for column, (title, value) in enumerate(
            (("CPU µs per token with a time of its own", cost), ("stamp error p99, µs", error))
        ):
            drawn = chart(chosen, f"{title} ({mode})", value)
            parts.append(f'<g transform="translate({column * WIDTH},{place * HEIGHT})">{drawn}</g>')
    size = f'width="{2 * WIDTH}" height="{HEIGHT * len(modes)}"'
    style = 'font-family="sans-serif" font-size="12"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{ground}{"".join(parts)}</svg>\n'


def cost(row: Row) -> float | None:
    return row.get("cpu_us_per_own") or row["cpu_us_per_token"] or None


def error(row: Row) -> float | None:
    return (row["stamp_error_us"] or {}).get("p99")


def chart(rows: Sequence[Row], title: str, value: Callable[[Row], float | None]) -> str:
    """One chart: a line for each stack, its points labelled."""
    streams = sorted({row["streams"] for row in rows})
    values = [found for row in rows if (found := value(row)) is not None and found > 0]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(count: int) -> float:
        return LEFT + inner_width * (streams.index(count) + 0.5) / len(streams)

    def y(found: float) -> float:
        return TOP + inner_height * (high - math.log10(found)) / max(high - low, 1)

    parts = [f'<text x="{LEFT}" y="{TOP - 15}" font-weight="bold">{escape(title)}</text>']
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + inner_width}" y1="{at:.1f}" y2="{at:.1f}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10**exponent:,}</text>')
    for count in streams:
        parts.append(f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count:,}</text>')
    parts.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 8}" text-anchor="middle">streams</text>')
    ends: list[tuple[float, float, str]] = []
    for stack in dict.fromkeys(row["stack"] for row in rows):
        points = [
            (x(row["streams"]), y(found))
            for row in rows
            if row["stack"] == stack and (found := value(row)) is not None and found > 0
        ]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[stack]}" stroke-width="2"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{COLOURS[stack]}"/>' for px, py in points]
        ends += [(py, px, stack) for px, py in points[-1:]]
    return "".join(parts) + labels(ends)


def labels(ends: list[tuple[float, float, str]]) -> str:
    """The names at the lines' ends (y, x, stack), moved apart where they would overlap."""
    parts, free = [], 0.0
    for py, px, stack in sorted(ends):
        at = max(py, free)
        free = at + LABEL_HEIGHT
        parts.append(f'<text x="{px + 8:.1f}" y="{at + 4:.1f}" fill="{COLOURS[stack]}">{stack}</text>')
    return "".join(parts)
