"""Lines: what the text tables (console, Markdown) show of one request name, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from locust_llm.measure.catalogue import BY_KEY, E2E, ITL, TPOT, TTFT
from locust_llm.measure.record import TokenSource
from locust_llm.measure.summary import Quantile, SummaryRow, summary_row
from locust_llm.report.columns import AGGREGATED, SHOWN
from locust_llm.report.digits import three
from locust_llm.report.run import RunView

HEADS: Final = ("n", *(name for _, name in SHOWN), "max")
NOTHING: Final = "–"
FEW: Final = "*"
FEW_NOTE: Final = "* too few samples to trust this percentile"
BEYOND_NOTE: Final = "with failures: a failed request counts as longer than any other; > is the longest success"

LATE_MS: Final = 1.0
"""Above this schedule delay (p99) the times from schedule are shown, too."""


WITH_FAILURES: Final = frozenset((TTFT, E2E, "ttft_from_schedule", "e2e_from_schedule"))
"""The metrics whose percentiles with failures stand below them; the files have all."""


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one request name: its title with unit, and the cells of HEADS.

    `few`: some percentile rests on too few samples. `failures`: the line of percentiles with failures below another.
    """

    name: str
    title: str
    cells: tuple[str, ...]
    few: bool = False
    failures: bool = False


def lines(view: RunView, name: str | None) -> list[Line]:
    """The metrics that users compare, of one name or (None) of all; those without a sample are left out."""
    untold = set(view.stats.counts(name).token_sources) - {TokenSource.USAGE}
    return [
        line for row in _rows(view, name) for line in _lines(row, estimated=bool(untold) and row.metric.key == TPOT)
    ]


def _rows(view: RunView, name: str | None) -> Iterator[SummaryRow]:
    def row(key: str) -> SummaryRow:
        return summary_row(view.stats, BY_KEY[key], name)

    ttft, late = row(TTFT), row("schedule_delay").at(0.99).value
    rows = [ttft]
    ttfc = row("ttfc")
    if _shown(ttfc) != _shown(ttft):
        rows.append(ttfc)
    open_loop = late is not None and late > LATE_MS
    if open_loop:
        rows.append(row("ttft_from_schedule"))
    rows += [row(ITL), row(TPOT), row(E2E)]
    if open_loop:
        rows.append(row("e2e_from_schedule"))
    return (row for row in rows if row.n)


def _shown(row: SummaryRow) -> list[float | None]:
    return [three(row.at(q).value) for q, _ in SHOWN]


def _lines(row: SummaryRow, *, estimated: bool) -> Iterator[Line]:
    """The lines of one metric; `estimated`: some answers' tokens are no usage (the sources stand in the files)."""
    quantiles = [row.at(q) for q, _ in SHOWN]
    name = AGGREGATED if row.name is None else row.name
    title = f"{row.metric.title} ({row.metric.unit}{', estimated' if estimated else ''})"
    cells = [number(quantile.value) + FEW * quantile.few for quantile in quantiles]
    few = any(quantile.few for quantile in quantiles)
    yield Line(name, title, (f"{row.n:,}", *cells, number(row.max)), few=few)
    if row.metric.key in WITH_FAILURES:
        with_failures = [_with_failures(row, quantile) for quantile in quantiles]
        if with_failures != [number(quantile.value) for quantile in quantiles]:
            yield Line(name, f"{row.metric.title} with failures", ("", *with_failures, ""), failures=True)


def _with_failures(row: SummaryRow, quantile: Quantile) -> str:
    return f">{number(row.max)}" if quantile.beyond else number(quantile.with_failures)


def number(value: float | None) -> str:
    """A number to three significant digits, larger ones to the unit; a dash for what is missing."""
    short = three(value)
    if short is None:
        return NOTHING
    if abs(short) >= 100 or short == 0:
        return f"{short:,}"
    return f"{short:.{2 - math.floor(math.log10(abs(short)))}f}"
