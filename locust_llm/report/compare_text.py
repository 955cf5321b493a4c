"""Comparison as text, for the console."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from locust_llm.analysis.compare import Comparison, Verdict
from locust_llm.report.compare_lines import HEADS, Line, lines, notes, side_text, turns_text, verdict_text

if TYPE_CHECKING:
    from locust_llm.report.compare import Compared

WIDTH: Final = 120
_LABEL: Final = 10


def comparison_text(compared: Compared) -> str:
    """Sides, changes, verdict, and the table: judged figures first."""
    return "\n".join(_text(compared))


def _text(compared: Compared) -> Iterator[str]:
    comparison = compared.comparison
    yield " · ".join(("LLM comparison", *compared.marks))
    yield from entry("base", side_text(compared.base))
    yield from entry("run", f"{side_text(compared.run)} · {turns_text(comparison)}")
    yield from entry("changed", compared.changes.sentence)
    for each in compared.changes.between:
        yield from entry("", f"{each.variable}: {each.base} → {each.run}")
    yield from entry("verdict", verdict_text(comparison))
    yield ""
    yield from table(comparison, HEADS)
    yield ""
    for note in notes(compared):
        yield from textwrap.wrap(note, WIDTH)


def table(comparison: Comparison, heads: Sequence[str]) -> Iterator[str]:
    """The figures, judged ones first."""
    judged = list(lines(comparison, comparison.judged))
    rest = list(lines(comparison, [row for row in comparison.rows if row.verdict is None]))
    title = max(len(line.title) for line in (*judged, *rest)) if judged or rest else 0
    widths = [max([len(head), *(len(line.cells[i]) for line in (*judged, *rest))]) for i, head in enumerate(heads)]
    yield _row("", heads, title, widths)
    for line in judged:
        yield from _judged(line, title, widths)
    if judged and rest:
        yield "-" * (4 + title + sum(widths) + 3 * len(widths))
    yield from (_row(line.title, line.cells, title, widths) for line in rest)


def _judged(line: Line, title: int, widths: Sequence[int]) -> Iterator[str]:
    assert line.verdict is not None
    verdict = line.verdict.upper() if line.verdict is Verdict.WORSE else line.verdict.value
    yield f"{_row(line.title, line.cells, title, widths)}   {verdict}"
    if line.reason:
        yield f"      {line.reason}"


def _row(name: str, cells: Sequence[str], title: int, widths: Sequence[int]) -> str:
    return f"  {name:<{title}}" + "".join(f"   {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def entry(label: str, text: str) -> Iterator[str]:
    """A label and a text, wrapped; control characters do not get through."""
    plain = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    for place, part in enumerate(textwrap.wrap(plain, WIDTH - _LABEL, break_on_hyphens=False) or [""]):
        yield f"{label if place == 0 else '':<{_LABEL}}{part}"
