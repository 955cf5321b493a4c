"""CSV: what `--csv PREFIX` adds to Locust's files, for spreadsheets and scripts.

UTF-8, LF, quoted as RFC 4180 says. A missing value is an empty cell, never 0, nan or inf. Text that a spreadsheet
would run as a formula gets an apostrophe in front. The column `Marks` says SIMULATED and INCOMPLETE.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Iterator
from typing import Final

from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS, E2E, ITL, TTFT, Distribution
from locust_llm.measure.figures import FIGURES, Figure, Kind
from locust_llm.measure.series import Point
from locust_llm.measure.summary import Quantile, SummaryRow, summary
from locust_llm.measure.throughput import run_throughput
from locust_llm.report.columns import AGGREGATED
from locust_llm.report.files import numbered, trouble, write_whole
from locust_llm.report.run import RunView

logger = logging.getLogger(__name__)

Cell = str | float | int | None

LOCUST_PERCENTILES: Final = (0.5, 0.66, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9999, 1.0)
"""The percentile columns of Locust's own statistics file; in ours they are of E2E."""

LOCUST_COLUMNS: Final = (
    "Type",
    "Name",
    "Request Count",
    "Failure Count",
    "Median Response Time",
    "Average Response Time",
    "Min Response Time",
    "Max Response Time",
    "Average Content Size",
    "Requests/s",
    "Failures/s",
    *(f"{q * 100:.6g}%" for q in LOCUST_PERCENTILES),
)

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def path_of(prefix: str, kind: str, test: int = 1) -> str:
    """The file of one kind (stats, stats_history, errors) and test of this session; the first has no number."""
    return numbered(f"{prefix}_llm_{kind}.csv", test)


def write_files(prefix: str, view: RunView) -> None:
    """Write the statistics and errors files of a test; raises OSError. The history has its own writer."""
    write_whole(path_of(prefix, "stats", view.test), stats_lines(view))
    write_whole(path_of(prefix, "errors", view.test), errors_lines(view))


# -- PREFIX_llm_stats.csv ------------------------------------------------------------------------------------------


def stats_lines(view: RunView) -> Iterator[str]:
    """One line for each request name and one for all.

    Locust's columns first, in its order: response times are E2E of successes in ms (nearest rank), the content size is
    in output tokens, rates are over the window of the run's throughput. Then all figures, then a group of columns for
    each distribution; `with failures` counts a failed request as +∞, and `>x` there means: above x, the largest seen.
    """
    yield line(stats_columns())
    for name in (*view.stats.names, None):
        yield line(_stats_cells(view, name))


def stats_columns() -> list[str]:
    """The columns of the statistics file."""
    columns = [*LOCUST_COLUMNS, "Marks", *(_figure_column(figure) for figure in FIGURES), "Token Sources"]
    for metric in DISTRIBUTIONS:
        columns += _metric_columns(metric)
    return [*columns, "Too Few Samples For"]


def _figure_column(figure: Figure) -> str:
    unit = "share" if figure.kind is Kind.SHARE else figure.unit
    return f"{figure.title} ({unit})" if unit else figure.title


def _metric_columns(metric: Distribution) -> list[str]:
    title, unit = metric.title, f" ({metric.unit})"
    shown = ("mean", "min", *_QUANTILES, "max")
    columns = [f"{title} n", *(f"{title} {what}{unit}" for what in shown)]
    if metric.judged:
        columns += [f"{title} {what} with failures{unit}" for what in _QUANTILES]
    return columns


_QUANTILES: Final = ("p50", "p90", "p95", "p99", "p99.9")


def _stats_cells(view: RunView, name: str | None) -> Iterator[Cell]:
    rows = summary(view.stats, name)
    yield from _locust_cells(view, name)
    yield marks(view)
    for figure in FIGURES:
        yield view.figure(figure.key, name)
    yield counted(view.stats.counts(name).token_sources)
    few = []
    for row in rows:
        yield from _metric_cells(row)
        few += [f"{row.metric.title} {_name(quantile)}" for quantile in row.quantiles if row.n and quantile.few]
    yield "; ".join(few)


def _locust_cells(view: RunView, name: str | None) -> Iterator[Cell]:
    stats = view.stats
    counts = stats.counts(name)
    e2e = stats.histogram(E2E, name)
    run = run_throughput(stats)
    successes_per_s = view.figure("request_throughput", name)
    failures_per_s = counts.failed / run.duration_s if run is not None else None
    yield from ("" if name is None else BY_KEY[E2E].title, AGGREGATED if name is None else name)
    yield from (counts.outcomes, counts.failed, e2e.percentile(0.5), e2e.mean, e2e.min, e2e.max)
    yield counts.output_tokens / counts.outcomes if counts.outcomes else None
    yield None if successes_per_s is None or failures_per_s is None else successes_per_s + failures_per_s
    yield failures_per_s
    for q in LOCUST_PERCENTILES:
        yield e2e.percentile(q)


def _metric_cells(row: SummaryRow) -> Iterator[Cell]:
    yield row.n
    yield from (row.mean, row.min, *(quantile.value for quantile in row.quantiles), row.max)
    if row.metric.judged:
        for quantile in row.quantiles:
            yield _with_failures(row, quantile)


def _with_failures(row: SummaryRow, quantile: Quantile) -> Cell:
    if not quantile.beyond:
        return quantile.with_failures
    return f">{_digits(row.max)}" if row.max is not None else None


def _name(quantile: Quantile) -> str:
    return f"p{quantile.q * 100:.6g}"


# -- PREFIX_llm_errors.csv -----------------------------------------------------------------------------------------


def errors_lines(view: RunView) -> Iterator[str]:
    """One line for each request name and label of failure; the share is of that name's succeeded + failed."""
    yield line(("Name", "Error", "Occurrences", "Share", "Marks"))
    for name in view.stats.names:
        counts = view.stats.counts(name)
        for label, count in sorted(counts.errors.items(), key=lambda item: (-item[1], item[0])):
            yield line((name, label, count, count / counts.outcomes if counts.outcomes else None, marks(view)))


# -- PREFIX_llm_stats_history.csv ----------------------------------------------------------------------------------

HISTORY_COLUMNS: Final = (
    "Timestamp",
    "User Count",
    "Span (s)",
    "Output tokens",
    "Output (tok/s)",
    "Input tokens",
    "Input (tok/s)",
    "Started",
    "Succeeded",
    "Failed",
    "Cancelled",
    "Requests/s",
    "Failures/s",
    "In flight",
    "Oldest (s)",
    *(f"{BY_KEY[key].title} {q} (ms)" for key in (TTFT, ITL, E2E) for q in ("p50", "p95", "p99")),
    "Errors",
    "Marks",
)


def history_lines(view: RunView, points: Iterable[Point]) -> Iterator[str]:
    """One line for each point, without the header: counts are sums over its span, which begins at its timestamp.

    In flight is at the span's end; percentiles are of the ten seconds that end with the span, empty when nothing came.
    """
    mark = marks(view)
    for p in points:
        span = p.span_s
        yield line(
            (
                *(p.second, p.users, span, p.output_tokens, p.output_tokens / span, p.input_tokens),
                *(p.input_tokens / span, p.started, p.succeeded, p.failed, p.cancelled),
                *((p.succeeded + p.failed) / span, p.failed / span, p.in_flight, p.oldest_age_s),
                *(*p.ttft_ms, *p.itl_ms, *p.e2e_ms, counted(p.errors), mark),
            )
        )


class HistoryWriter:
    """Keeps a history file up to date: `append` while the test runs, `finish` once at its end.

    What is appended live is provisional; `finish` rewrites all of it from memory and replaces the file at one stroke.
    When writing fails it says so once, and the run goes on.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._last: int | None = None
        self._failed = False

    def append(self, view: RunView) -> None:
        """Add the seconds that have become complete since the last call; creates the file."""
        if self._failed:
            return
        points = list(view.stats.points(self._last))
        try:
            with open(self.path, "w" if self._last is None else "a", encoding="utf-8", newline="") as file:
                if self._last is None:
                    file.write(line(HISTORY_COLUMNS))
                file.writelines(history_lines(view, points))
        except OSError as error:
            self._failed = True
            logger.error("The history is not written any more: %s", trouble(self.path, error))
            return
        if points:
            self._last = points[-1].second

    def finish(self, view: RunView) -> None:
        """Rewrite the whole history from memory; raises OSError."""
        write_whole(self.path, (line(HISTORY_COLUMNS), *history_lines(view, view.stats.points())))


# -- cells ---------------------------------------------------------------------------------------------------------


def line(cells: Iterable[Cell]) -> str:
    """One line of a CSV file."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return buffer.getvalue()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return _digits(value)


def _digits(value: float | int | None) -> str:
    """A number without exponent: whole ones in full, others to seven significant digits; empty when not finite."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return ""
    if isinstance(value, int) or value.is_integer() or abs(value) >= 1e6:
        return str(round(value))
    text = f"{value:.7g}"
    return text if "e" not in text else f"{value:.9f}".rstrip("0").rstrip(".")


def counted(tally: dict[str, int]) -> str:
    """A tally as text: `usage=12; chunks=3`, most first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{label}={count}" for label, count in ordered if count)


def marks(view: RunView) -> str:
    """What must be known of every line: SIMULATED, INCOMPLETE and who was lost."""
    lost = f" (lost {', '.join(view.lost_workers)})" if view.incomplete else ""
    return "; ".join(view.marks) + lost
