"""Comparison as Markdown, for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from locust_llm.analysis.compare import Verdict
from locust_llm.report.compare import Compared
from locust_llm.report.compare_lines import HEADS, lines, notes, side_text, turns_text, verdict_text
from locust_llm.report.markdown import escaped, row

_SIGNS: Final = {Verdict.BETTER: "✅", Verdict.SAME: "✅", Verdict.WORSE: "❌", Verdict.UNKNOWN: "⚠️"}


def comparison_markdown(compared: Compared) -> str:
    """Verdict, changes, the judged figures, and all others folded away."""
    return "\n".join(_markdown(compared)) + "\n"


def _markdown(compared: Compared) -> Iterator[str]:
    comparison = compared.comparison
    yield f"### {escaped(' · '.join(('LLM comparison', *compared.marks)))}"
    yield ""
    yield f"{_SIGNS[comparison.verdict]} **{escaped(verdict_text(comparison))}**"
    yield ""
    yield f"- base: {escaped(side_text(compared.base))}"
    yield f"- run: {escaped(side_text(compared.run))} ({turns_text(comparison)})"
    yield f"- {escaped(compared.changes.sentence)}"
    for each in compared.changes.between:
        yield f"  - {escaped(each.variable)}: {escaped(each.base)} → {escaped(each.run)}"
    yield ""
    yield row("Figure", *HEADS, "Verdict")
    yield row("---", *("--:" for _ in HEADS), "---")
    for line in lines(comparison, comparison.judged):
        assert line.verdict is not None
        verdict = f"{_SIGNS[line.verdict]} {line.verdict}" + (f": {line.reason}" if line.reason else "")
        yield row(escaped(line.title), *map(escaped, line.cells), escaped(verdict))
    yield ""
    yield "<details><summary>All figures</summary>"
    yield ""
    yield row("Figure", *HEADS)
    yield row("---", *("--:" for _ in HEADS))
    for line in lines(comparison, [each for each in comparison.rows if each.verdict is None]):
        yield row(escaped(line.title), *map(escaped, line.cells))
    yield ""
    yield "</details>"
    yield ""
    yield from (f"- {escaped(note)}" for note in notes(compared))
