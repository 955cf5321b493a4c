"""The page of a calibration: two charts and the table, in one file that loads nothing and follows the theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from locust_llm.analysis.calibration import Level
from locust_llm.analysis.calibration_safe import LIMITS
from locust_llm.report.calibration import Calibration, cells, machine_line

_HEADS: Final = (
    "Streams", "", "Tokens/s", "off", "TTFT p50, ms", "off", "p99", "off", "ITL p50, ms", "off", "p99", "off",
    "Stamps p50, µs", "p99", "Coalesced", "Busy", "CPU µs/token", "Core",
)  # fmt: skip

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0;
  --even: #15803d; --bursts: #1d4ed8; --limit: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #121212; --text: #f0f6fc; --quiet: #a5b3c0; --line: #3d444d;
  --even: #4ade80; --bursts: #7aa2ff; --limit: #ff8a80; } }
body { margin: 0 auto; max-width: 1240px; padding: 24px 16px; background: var(--page); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0; } .quiet { color: var(--quiet); margin: 2px 0 16px; }
.found { font-size: 16px; margin: 4px 0; }
.charts { display: flex; flex-wrap: wrap; gap: 16px; margin: 20px 0; } svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); } svg .title { font-weight: 600; }
svg .grid { stroke: var(--line); } svg .limit { stroke: var(--limit); stroke-dasharray: 4 3; }
svg .even { stroke: var(--even); fill: none; stroke-width: 2; }
svg .bursts { stroke: var(--bursts); fill: none; stroke-width: 2; }
svg .dot.even, svg text.even { fill: var(--even); stroke: none; }
svg .dot.bursts, svg text.bursts { fill: var(--bursts); stroke: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 6px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:nth-child(2) { text-align: left; color: var(--quiet); }
"""

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 280, 60, 60, 34, 42


def html_of(calibration: Calibration) -> str:
    """The whole page."""
    found = "".join(f'<p class="found">{escape(sentence)}</p>' for sentence in calibration.conclusions)
    charts = _error_chart(calibration.levels) + _cost_chart(calibration.levels)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<title>Calibration of a load generator</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Calibration of a load generator</h1>\n"
        f'<p class="quiet">{escape(machine_line(calibration))}</p>\n{found}\n<div class="charts">{charts}</div>\n'
        f"{_table(calibration.levels)}\n"
        '<p class="quiet">Figures as LLMUsers report them in a real locust process; off: against when the engine '
        "really sent each token. even: each stream sends on its own; bursts: all at the same steps. Coalesced: tokens "
        "read together with the one before, which have no time of their own. Busy: share of the streams' time with a "
        "request under way.</p>\n</body>\n</html>\n"
    )


def _table(levels: Sequence[Level]) -> str:
    rows = []
    for level in levels:
        mode, streams, *rest = cells(level)
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in (streams, mode, *rest)))
    head = "".join(f"<th>{title}</th>" for title in _HEADS)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _error_chart(levels: Sequence[Level]) -> str:
    return _chart(
        "Largest error of any figure, %", levels, lambda level: 100 * level.error, [100 * limit for limit in LIMITS]
    )


def _cost_chart(levels: Sequence[Level]) -> str:
    return _chart("CPU of the client, µs per token", levels, lambda level: level.cpu_us_per_token, [])


def _chart(title: str, levels: Sequence[Level], value: Callable[[Level], float], limits: Sequence[float]) -> str:
    """A line for each mode over the number of streams; the values on a logarithmic scale."""
    streams = sorted({level.streams for level in levels})
    shown = [max(value(level), 1e-3) for level in levels] + list(limits)
    low = math.floor(math.log10(min(shown)))
    high = max(math.ceil(math.log10(max(shown)) - 1e-9), low + 1)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(count: int) -> float:
        return LEFT + width * (streams.index(count) + 0.5) / len(streams)

    def y(found: float) -> float:
        return TOP + height * (high - math.log10(max(found, 1e-3))) / (high - low)

    parts = [f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>']
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + width}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**exponent:g}</text>')
    for limit in limits:
        at = y(limit)
        parts.append(f'<line class="limit" x1="{LEFT}" x2="{LEFT + width}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT + width + 6}" y="{at + 4:.1f}">{limit:g} %</text>')
    for count in streams:
        parts.append(f'<text x="{x(count):.1f}" y="{TOP + height + 18}" text-anchor="middle">{count:,}</text>')
    parts.append(f'<text x="{LEFT + width / 2}" y="{HEIGHT - 6}" text-anchor="middle">streams in one process</text>')
    for place, mode in enumerate(dict.fromkeys(level.mode for level in levels)):
        points = [(x(level.streams), y(value(level))) for level in levels if level.mode == mode]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline class="{mode}" points="{path}"/>')
        parts += [f'<circle class="dot {mode}" cx="{px:.1f}" cy="{py:.1f}" r="3.5"/>' for px, py in points]
        parts.append(f'<text class="{mode}" x="{WIDTH - RIGHT - 60 * (2 - place)}" y="18">{mode}</text>')
    label = escape(f"{title}, by number of streams")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
