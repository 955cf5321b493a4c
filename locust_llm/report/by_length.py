"""ByLength told: tables of TTFT and TPOT by input length, output length and cached share."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from locust_llm.measure.by_length import AXES, CACHED, INPUT, OUTPUT, SHOWN, Bucket
from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import too_few
from locust_llm.report.lines import FEW, NOTHING, number

QUANTILES: Final = (0.5, 0.95)
HEADS: Final = {INPUT: "input tokens", OUTPUT: "output tokens", CACHED: "cached share of input"}

_TITLE: Final = 26
_CELL: Final = 12

Row = tuple[Bucket, dict[str, Histogram]]


def tables(stats: RunStats) -> Iterator[tuple[str, list[Row]]]:
    """(axis, its rows) of each axis that has more than one bucket with a sample."""
    for axis in AXES:
        rows = [row for row in stats.by_length.rows(axis) if any(histogram.count for histogram in row[1].values())]
        if len(rows) > 1:
            yield axis, rows


def columns() -> list[str]:
    """The titles of the columns behind the bucket's."""
    return [
        title
        for key in SHOWN
        for title in (f"{BY_KEY[key].title} n", *(f"{BY_KEY[key].title} p{100 * q:g}" for q in QUANTILES))
    ]


def cells(histograms: dict[str, Histogram]) -> list[str]:
    """The cells of one bucket; percentiles in ms, marked where they rest on too few samples."""
    told = []
    for key in SHOWN:
        histogram = histograms[key]
        told.append(f"{histogram.count:,}" if histogram.count else NOTHING)
        for q in QUANTILES:
            few = FEW if histogram.count and too_few(q, histogram.count) else ""
            told.append(number(histogram.percentile(q)) + few)
    return told


def by_length_lines(stats: RunStats) -> Iterator[str]:
    """The console's tables, one below the other; nothing when all requests are alike."""
    for axis, rows in tables(stats):
        yield ""
        yield f"{'By ' + HEADS[axis]:<{_TITLE}}" + "".join(f"{title:>{_CELL}}" for title in columns())
        for bucket, histograms in rows:
            line = (cell if cell.endswith(FEW) else f"{cell} " for cell in cells(histograms))
            yield (f"  {bucket.title:<{_TITLE - 2}}" + "".join(f"{cell:>{_CELL}}" for cell in line)).rstrip()


def by_length_dict(stats: RunStats) -> list[dict[str, Any]]:
    """The buckets as plain values: what they span, percentiles in ms, and the histograms that these come from."""
    told = []
    for axis in AXES:
        for bucket, histograms in stats.by_length.rows(axis):
            each: dict[str, Any] = {"axis": axis, "over": bucket.low, "up_to": bucket.high, "title": bucket.title}
            for key in SHOWN:
                histogram = histograms[key]
                each[key] = {"n": histogram.count, "mean": histogram.mean, "max": histogram.max}
                each[key] |= {f"p{100 * q:g}": histogram.percentile(q) for q in (0.5, 0.9, 0.95, 0.99)}
            told.append(each)
    return told


def by_length_html(stats: RunStats) -> str:
    """The report's section; '' when all requests are alike."""
    parts = []
    for axis, rows in tables(stats):
        head = "".join(f"<th scope='col'>{escape(title)}</th>" for title in columns())
        body = "".join(
            f"<tr><th scope='row'>{escape(bucket.title)}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells(histograms))
            + "</tr>"
            for bucket, histograms in rows
        )
        parts.append(
            f"<div class='scroll'><table><thead><tr><th scope='col'>{escape('By ' + HEADS[axis])}</th>{head}</tr>"
            f"</thead><tbody>{body}</tbody></table></div>"
        )
    if not parts:
        return ""
    return f"<section><h2>By length <small>ms; {FEW} too few samples</small></h2>{''.join(parts)}</section>"
