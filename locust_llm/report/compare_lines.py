"""Lines of a comparison: what every output says of it, as words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from locust_llm.analysis.compare import Comparison, Row, Verdict
from locust_llm.analysis.compare_difference import Yardstick
from locust_llm.report.lines import FEW, FEW_NOTE, NOTHING, number

if TYPE_CHECKING:
    from locust_llm.report.compare import Compared, Told

HEADS: Final = ("base", "run", "change", "95 % interval", "n")

_YARDSTICKS: Final = {
    Yardstick.RUNS: "Intervals: between runs (Student's t of the runs' values, at least the scatter within them).",
    Yardstick.BASELINE: "Intervals: against the spread of the base's runs; the other side counts as one run.",
    Yardstick.WITHIN: (
        "Intervals: within the runs only (bootstrap over blocks of time); another run of the same set-up may differ by"
        " more."
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: its title with unit, the cells of HEADS, and the verdict with its reason (or '')."""

    title: str
    cells: tuple[str, ...]
    verdict: Verdict | None
    reason: str


def lines(comparison: Comparison, rows: Sequence[Row]) -> Iterator[Line]:
    """A line for each figure."""
    for row in rows:
        found = row.difference
        name = f"{row.subject.name}: " if row.subject.name is not None else ""
        unit = f" ({row.subject.unit})" if row.subject.unit else ""
        cells = (
            _value(row, found.base, found.base_beyond),
            _value(row, found.run, found.run_beyond),
            change(row, found.change),
            interval(row),
            f"{found.base_n:,} / {found.run_n:,}",
        )
        yield Line(f"{name}{row.subject.title}{unit}", cells, row.verdict, row.reason if row.reason is not None else "")


def _value(row: Row, value: float | None, beyond: bool) -> str:
    if value is None:
        return NOTHING
    few = FEW if row.difference.weak is not None else ""
    return (">" if beyond else "") + number(100 * value if row.subject.is_share else value) + few


def change(row: Row, value: float | None) -> str:
    """A change in % of the base, of shares in percentage points."""
    if value is None:
        return NOTHING
    return f"{_signed(value)} {'pp' if row.subject.is_share else '%'}"


def interval(row: Row) -> str:
    """The interval of a change, in the same unit."""
    found = row.difference
    if found.low is None or found.high is None:
        return NOTHING
    return f"{_signed(found.low)} to {_signed(found.high)}"


def _signed(value: float) -> str:
    percent = 100 * value
    size = abs(percent)
    digits = 0 if size >= 100 else 1 if size >= 1 else 2
    text = f"{percent:+,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else "0"


def verdict_text(comparison: Comparison) -> str:
    """The outcome in one or two sentences."""
    if comparison.unproven is not None:
        return f"Cannot say: {comparison.unproven}."
    parts = []
    for verdict, head in ((Verdict.WORSE, "Worse"), (Verdict.BETTER, "Better")):
        found = [
            f"{row.subject} ({change(row, row.difference.change)})"
            for row in comparison.judged
            if row.verdict is verdict
        ]
        if found:
            parts.append(f"{head}: {', '.join(found)}.")
    if not parts and comparison.judged and comparison.verdict is Verdict.SAME:
        least = f"{100 * comparison.rules.min_effect:g} %"
        parts.append(
            f"No difference of {least} or more shown in {', '.join(str(row.subject) for row in comparison.judged)}."
        )
    unknown = [str(row.subject) for row in comparison.judged if row.verdict is Verdict.UNKNOWN]
    if unknown:
        parts.append(f"Cannot say: {', '.join(unknown)}.")
    return " ".join(parts) if parts else "Nothing was judged."


def side_text(side: Sequence[Told]) -> str:
    """A side's runs: how many, and their files."""
    return f"{len(side)} {'run' if len(side) == 1 else 'runs'}: {', '.join(each.file for each in side)}"


def turns_text(comparison: Comparison) -> str:
    """Whether the runs were made in turns."""
    if comparison.interleaved is None:
        return "start times are missing"
    if comparison.interleaved:
        return "made in turns"
    return "not made in turns" if comparison.base_runs + comparison.run_runs > 2 else "one after the other"


def notes(compared: Compared) -> Iterator[str]:
    """What must be known to read the table."""
    comparison = compared.comparison
    found = {row.difference.yardstick for row in comparison.rows}
    yield from (text for yardstick, text in _YARDSTICKS.items() if yardstick in found)
    yield "A side's figure is the geometric mean of its runs (shares: the mean); percentiles count failures as endless."
    if any(row.difference.base_beyond or row.difference.run_beyond for row in comparison.rows):
        yield "> lies among the failures: above the longest success, which is shown."
    if any(row.difference.weak is not None and row.difference.base is not None for row in comparison.rows):
        yield FEW_NOTE
    if len(comparison.judged) > 1:
        yield f"Verdicts on {len(comparison.judged)} figures, at 5 % for all together (Holm)."
    if compared.changes.untold:
        yield f"Not told by every document, and so not compared: {', '.join(compared.changes.untold)}."
    if compared.changes.within:
        yield f"The runs of one side differ in: {', '.join(compared.changes.within)}."


def finite(value: float | None) -> float | None:
    """The value, or None for what JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def figure_dict(row: Row) -> dict[str, Any]:
    """One figure as plain values."""
    subject, found = row.subject, row.difference
    return {
        "figure": str(subject),
        "title": subject.title,
        "unit": "" if subject.is_share else subject.unit,
        "name": subject.name,
        "base": finite(found.base),
        "run": finite(found.run),
        "base_beyond": found.base_beyond,
        "run_beyond": found.run_beyond,
        "base_n": found.base_n,
        "run_n": found.run_n,
        "change": finite(found.change),
        "change_is": "difference" if subject.is_share else "ratio - 1",
        "low": finite(found.low),
        "high": finite(found.high),
        "interval": found.yardstick.value if found.yardstick is not None else None,
        "p": finite(found.p),
        "verdict": row.verdict.value if row.verdict is not None else None,
        "reason": row.reason,
    }
