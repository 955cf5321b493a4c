"""Markdown: the gates and the console's table for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from locust_llm.analysis.judgement import GateStatus
from locust_llm.report.console import goodput_text
from locust_llm.report.gates import gate_lines, verdict_text
from locust_llm.report.lines import BEYOND_NOTE, FEW_NOTE, HEADS, lines, number
from locust_llm.report.run import RunView
from locust_llm.report.ttft_split import TITLE, split_text

_SIGNS: Final = {GateStatus.MET: "✅", GateStatus.BREACHED: "❌", GateStatus.UNJUDGED: "⚠️"}


def summary_markdown(view: RunView) -> str:
    """Title, throughput, one table for all names, and the findings."""
    return "\n".join(_summary(view)) + "\n"


def _summary(view: RunView) -> Iterator[str]:
    stats = view.stats
    counts = stats.counts()
    title = " · ".join(("LLM load test", *view.marks))
    yield f"### {escaped(title)}"
    yield ""
    yield from _gates(view)
    share = view.figure("failed_share")
    failed = f"{counts.failed:,} failed" + (f" ({100 * share:.3g} %)" if share else "")
    yield (
        f"**{number(view.figure('output_throughput'))}** output tok/s · "
        f"**{number(view.figure('output_speed'))}** tok/s per stream · "
        f"**{number(view.figure('request_throughput'))}** req/s · "
        f"{counts.succeeded:,} succeeded, {failed}, {counts.cancelled:,} cancelled"
    )
    yield ""
    if view.slos:
        yield f"Goodput: {escaped(goodput_text(view))}"
        yield ""
    split = split_text(view)
    if split is not None:
        yield f"{TITLE}: {escaped(split)}"
        yield ""
    yield row("Name", "Metric", *HEADS)
    yield row("---", "---", *("--:" for _ in HEADS))
    names: list[str | None] = [*stats.names] if len(stats.names) == 1 else [*stats.names, None]
    found = [line for name in names for line in lines(view, name)]
    for line in found:
        yield row(escaped(line.name), line.title, *(cell.replace("*", r"\*") for cell in line.cells))
    yield ""
    if any(line.few for line in found):
        yield f"- {escaped(FEW_NOTE)}"
    if any(line.failures for line in found):
        yield f"- {escaped(BEYOND_NOTE)}"
    for finding in view.findings:
        yield f"- **{finding.severity.value}**: {escaped(finding.sentence)}"


def _gates(view: RunView) -> Iterator[str]:
    """The verdict and a table of the gates; nothing when there are none."""
    judgement = view.judgement
    if judgement is None:
        return
    yield f"{_SIGNS[judgement.status]} **{escaped(verdict_text(judgement))}**"
    yield ""
    yield row("", "Gate", "Figure", "")
    yield row("---", "---", "---", "---")
    for line in gate_lines(judgement):
        cells = (escaped(cell) for cell in (line.gate, line.figure, line.reason))
        yield row(f"{_SIGNS[line.status]} {line.status.value}", *cells)
    yield ""


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text that Markdown takes as it is, in one line."""
    text = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#~" else c for c in text)
