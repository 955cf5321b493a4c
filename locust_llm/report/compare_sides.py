"""The two targets of a run with `--llm-ab` against each other, as text and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.analysis.compare import Comparison
from locust_llm.report.compare_lines import HEADS, figure_dict, verdict_text
from locust_llm.report.compare_text import entry, table

_HEADS: Final = ("A", "B", *HEADS[2:])


@dataclass(frozen=True, slots=True)
class ComparedSides:
    """`a` and `b` name the targets; `comparison` is of B against A, None when a side has ended no request."""

    a: str
    b: str
    comparison: Comparison | None

    @property
    def sentence(self) -> str:
        """The outcome."""
        if self.comparison is None:
            return "Cannot say: a side has ended no request."
        return verdict_text(self.comparison)


def sides_text(compared: ComparedSides) -> str:
    """Targets, verdict and table."""
    return "\n".join(_text(compared))


def _text(compared: ComparedSides) -> Iterator[str]:
    yield "B against A"
    yield from entry("A", compared.a)
    yield from entry("B", compared.b)
    yield from entry("verdict", compared.sentence)
    if compared.comparison is not None:
        yield ""
        yield from table(compared.comparison, _HEADS)
        yield ""
        yield "Intervals: within this run (bootstrap over blocks of time). Verdicts: at 5 % for all together (Holm)."


def sides_dict(compared: ComparedSides) -> dict[str, Any]:
    """Plain values, as in the comparison of documents: base is A, run is B."""
    comparison = compared.comparison
    return {
        "a": compared.a,
        "b": compared.b,
        "verdict": comparison.verdict.value if comparison is not None else None,
        "sentence": compared.sentence,
        "figures": [figure_dict(row) for row in comparison.rows] if comparison is not None else [],
    }
