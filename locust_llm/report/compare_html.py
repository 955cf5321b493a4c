"""Comparison as one self-contained page, without a script: verdict, changes, charts, tables.

It has the style of a run's page. Texts (files, models, options) are hostile and escaped; a content policy forbids
everything but the style. Dark and light follow the reader's own setting, since there is no script to switch them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from locust_llm.analysis.compare import Verdict
from locust_llm.measure.catalogue import E2E, ITL, TPOT, TTFT
from locust_llm.measure.stats import RunStats
from locust_llm.report.compare import Compared
from locust_llm.report.compare_chart import distribution_chart, throughput_chart
from locust_llm.report.compare_lines import HEADS, Line, lines, notes, side_text, turns_text, verdict_text
from locust_llm.report.html import STYLE, asset

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_DARK: Final = re.compile(r':root\[data-theme="dark"\] \{(.*?)\}', re.S)

_OWN_STYLE: Final = """
:root { --base: #1d5fbf; --run: #c2540a; }
@media screen and (prefers-color-scheme: dark) { :root { %s --base: #7db5ff; --run: #ffab66; } }
.drawn { width: 100%%; height: auto; display: block; }
.drawn text { fill: var(--quiet); font: 11px Roboto, Helvetica, Arial, sans-serif; }
.drawn .grid { stroke: var(--line); stroke-width: 0.6; }
.drawn polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke: var(--base); }
.drawn polyline.run { stroke: var(--run); }
.swatch { border-color: var(--base); display: inline-block; vertical-align: middle; margin-right: 6px; }
.swatch.run { border-color: var(--run); }
.sides { margin: 0 0 12px; overflow-wrap: anywhere; }
td.verdict { text-align: left; white-space: normal; min-width: 150px; }
td.worse { color: var(--bad); font-weight: 600; }
td.better { color: var(--accent); font-weight: 600; }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
"""

_FINDINGS: Final = {Verdict.WORSE: "error", Verdict.UNKNOWN: "warning"}
_CLASSES: Final = {Verdict.WORSE: " worse", Verdict.BETTER: " better"}

_CHARTS: Final = (
    (TTFT, "Time to first token"),
    (ITL, "Gaps between tokens"),
    (TPOT, "Time per output token"),
    (E2E, "End to end"),
)


def comparison_html(compared: Compared) -> str:
    """The page."""
    return "".join(f"{part}\n" for part in _page(compared))


def _page(compared: Compared) -> Iterator[str]:
    title = " ".join(("LLM comparison", *compared.marks))
    dark = _DARK.search(asset(STYLE))
    style = asset(STYLE) + _OWN_STYLE % (" ".join(dark[1].split()) if dark is not None else "")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n<body>\n<main>'
    marks = "".join(f'<span class="mark {mark.lower()}">{mark}</span>' for mark in compared.marks)
    yield f'<header><h1>LLM comparison</h1><div class="marks">{marks}</div></header>'
    yield from _head(compared)
    yield from _charts(compared)
    yield from _tables(compared)
    yield '<ul class="key">' + "".join(f"<li>{escape(note)}</li>" for note in notes(compared)) + "</ul>"
    yield "</main>\n</body>\n</html>"


def _head(compared: Compared) -> Iterator[str]:
    comparison, changes = compared.comparison, compared.changes
    kind = _FINDINGS.get(comparison.verdict, "")
    yield f'<ul class="findings"><li class="finding {kind}">{escape(verdict_text(comparison))}</li>'
    yield f'<li class="finding">{escape(changes.sentence[:1].upper() + changes.sentence[1:])}.</li></ul>'
    yield f'<p class="sides"><span class="swatch base"></span>base: {escape(side_text(compared.base))}<br>'
    yield f'<span class="swatch run"></span>run: {escape(side_text(compared.run))}<br>'
    yield f"The runs were {turns_text(comparison)}.</p>" if comparison.interleaved is not None else "</p>"
    if changes.between:
        rows = "".join(
            f'<tr><th>{escape(c.variable)}</th><td class="text">{escape(c.base)}</td>'
            f'<td class="text">{escape(c.run)}</td></tr>'
            for c in changes.between
        )
        head = '<tr><th>Changed</th><th class="text">base</th><th class="text">run</th></tr>'
        yield f'<div class="scroll"><table class="changed"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _charts(compared: Compared) -> Iterator[str]:
    sides: list[tuple[str, str, RunStats]] = [
        (side, f"{side}: {told.file}", told.run.stats)
        for side, runs in (("base", compared.base), ("run", compared.run))
        for told in runs
    ]
    drawn = [(title, "share at or below", distribution_chart(key, sides)) for key, title in _CHARTS]
    drawn.append(("Output throughput", "a line a run", throughput_chart(sides)))
    yield '<div class="charts">'
    for title, small, chart in drawn:
        if chart:
            yield f'<section class="chart"><h2>{title}<small>{small}</small></h2>{chart}</section>'
    yield "</div>"


def _tables(compared: Compared) -> Iterator[str]:
    comparison = compared.comparison
    judged = list(lines(comparison, comparison.judged))
    rest = list(lines(comparison, [row for row in comparison.rows if row.verdict is None]))
    if judged:
        yield f"<h2>Judged</h2>{_table(judged, verdicts=True)}"
    yield f"<details open><summary>All other figures</summary>{_table(rest, verdicts=False)}</details>"


def _table(rows: Sequence[Line], *, verdicts: bool) -> str:
    heads = "".join(f"<th>{head}</th>" for head in HEADS) + ('<th class="text">verdict</th>' if verdicts else "")
    return (
        f'<div class="scroll"><table><thead><tr><th>Figure</th>{heads}</tr></thead>'
        f"<tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(line: Line) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in line.cells)
    if line.verdict is not None:
        reason = f"<small>{escape(line.reason)}</small>" if line.reason else ""
        cells += f'<td class="verdict{_CLASSES.get(line.verdict, "")}">{line.verdict.value}{reason}</td>'
    return f"<tr><th>{escape(line.title)}</th>{cells}</tr>"
