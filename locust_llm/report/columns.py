"""Columns: the plain shape of a run that the live page, the HTML report and the run document share.

Everything here is lists and dicts of text and numbers, ready for JSON. What is missing is None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS, E2E, ITL, TPOT, TTFT
from locust_llm.measure.counts import Counts
from locust_llm.measure.series import Point
from locust_llm.measure.summary import SummaryRow, summary, summary_row
from locust_llm.report import open_load
from locust_llm.report.client_delay import latest_reader
from locust_llm.report.digits import Number, short, three
from locust_llm.report.gates import gates_dict, so_far_dict
from locust_llm.report.knee_panel import panel
from locust_llm.report.run import RunView
from locust_llm.report.server import server_columns

AGGREGATED: Final = "Aggregated"

SHOWN: Final = ((0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"))
"""The quantiles that tables show, and their names."""

POINTS_LIMIT: Final = 2000
"""Points of one live reply; a reader that finds `more` asks again from the last one on."""

NOW_S: Final = 10
"""Seconds that the rates of a running test are taken over."""

COUNTS: Final = (
    ("started", "Started", "", "Requests handed to the client."),
    ("succeeded", "Succeeded", "", "Requests with a complete answer."),
    ("failed", "Failed", "", "Requests that failed, by refusal, error, timeout or a truncated answer."),
    (
        "cancelled",
        "Cancelled",
        "",
        "Requests cut off by the end of the test or a ramp-down: neither success nor failure.",
    ),
    ("in_flight", "In flight", "", "Requests that have not ended."),
    ("input_tokens", "Input tokens", "tok", "Prompt tokens as the server counted them, all requests."),
    ("output_tokens", "Output tokens", "tok", "Output tokens of all successful requests."),
)

# -- the series ----------------------------------------------------------------------------------------------------


def points_columns(points: Iterable[Point], digits: Callable[[float | None], Number | None] = short) -> dict[str, Any]:
    """The series by column: rates per second over each point's span, percentiles in ms of its ten seconds.

    `digits` rounds what is not a count.
    """
    rows = list(points)
    columns: dict[str, Any] = {
        "second": [p.second for p in rows],
        "span_s": [p.span_s for p in rows],
        "output_tps": [digits(p.output_tokens / p.span_s) for p in rows],
        "input_tps": [digits(p.input_tokens / p.span_s) for p in rows],
        "req_per_s": [digits((p.succeeded + p.failed) / p.span_s) for p in rows],
        "failed_per_s": [digits(p.failed / p.span_s) for p in rows],
        "users": [p.users for p in rows],
        "in_flight": [p.in_flight for p in rows],
        "oldest_age_s": [digits(p.oldest_age_s) for p in rows],
    }
    for key in (TTFT, ITL, E2E):
        triples = [getattr(p, f"{key}_ms") for p in rows]
        for i, quantile in enumerate(("p50", "p95", "p99")):
            columns[f"{key}_{quantile}"] = [digits(triple[i]) for triple in triples]
    labels = dict.fromkeys(label for p in rows for label in p.errors)
    columns["errors"] = {label: [p.errors.get(label, 0) for p in rows] for label in labels}
    return columns


# -- the table -----------------------------------------------------------------------------------------------------


def table_columns() -> list[dict[str, str]]:
    """Every column of the table: key, title, unit, help, and the metric it belongs to (empty: the counts)."""
    columns = [_column("name", "Name", "", "Request name.", "")]
    columns += [_column(*column, "") for column in COUNTS]
    for metric in DISTRIBUTIONS:
        key, title = metric.key, metric.title
        columns.append(_column(f"n_{key}", f"{title} n", "", f"Samples of {title}.", key))
        for _, quantile in SHOWN:
            columns.append(_column(f"{key}_{quantile}", f"{title} {quantile}", metric.unit, metric.help, key))
        columns.append(_column(f"{key}_max", f"{title} max", metric.unit, metric.help, key))
    return columns


def _column(key: str, title: str, unit: str, text: str, group: str) -> dict[str, str]:
    return {"key": key, "title": title, "unit": unit, "help": text, "group": group}


def table(view: RunView) -> dict[str, Any]:
    """`columns` and `rows`: one row for each request name and one for all.

    Beside its figures a row has `few` (keys of the percentiles that rest on too few samples) and `with_failures` (key →
    the percentile with failed requests as +∞, where it differs; None means: above every success).
    """
    return {"columns": table_columns(), "rows": table_rows(view)}


def table_rows(view: RunView) -> list[dict[str, Any]]:
    """One row for each request name, then the one of all."""
    return [table_row(view, name) for name in [*view.stats.names, None]]


def table_row(view: RunView, name: str | None) -> dict[str, Any]:
    """The row of one request name, or (None) of all."""
    counts = view.stats.counts(name)
    row: dict[str, Any] = {"name": AGGREGATED if name is None else name}
    row |= {key: getattr(counts, key) for key, *_ in COUNTS}
    few: list[str] = []
    worse: dict[str, Number | None] = {}
    for line in summary(view.stats, name):
        _fill(row, few, worse, line)
    return row | {"few": few, "with_failures": worse}


def _fill(row: dict[str, Any], few: list[str], worse: dict[str, Number | None], line: SummaryRow) -> None:
    """Put one distribution into its row."""
    metric = line.metric.key
    row[f"n_{metric}"] = line.n
    for q, name in SHOWN:
        quantile = line.at(q)
        key = f"{metric}_{name}"
        row[key] = three(quantile.value)
        if quantile.few and line.n:
            few.append(key)
        if quantile.beyond or (quantile.with_failures is not None and three(quantile.with_failures) != row[key]):
            worse[key] = three(quantile.with_failures)
    row[f"{metric}_max"] = three(line.max)


# -- the headline --------------------------------------------------------------------------------------------------


def headline(view: RunView) -> list[dict[str, Any]]:
    """The few figures that stand on top: key, title, value, unit, n (samples), note (what it is taken over).

    While the test runs, rates are of the last ten seconds and all else of the run so far.
    """
    counts = view.stats.counts()
    return [*_rates(view, counts), *_percentiles(view), _errors(view, counts), *_goodput(view, counts), *_client(view)]


def _rates(view: RunView, counts: Counts) -> Iterator[dict[str, Any]]:
    output, requests, note = _recent(view) if view.provisional else _whole(view)
    yield _figure("output_throughput", "Output tok/s", short(output), "tok/s", None, note)
    speed = view.figure("output_speed")
    yield _figure("output_speed", "Output speed", short(speed), "tok/s per stream", counts.succeeded, _span(view))
    yield _figure("request_throughput", "Requests/s", short(requests), "req/s", None, note)
    yield _figure("in_flight", "In flight", counts.in_flight, "", None, "now")


def _recent(view: RunView) -> tuple[float | None, float | None, str]:
    """(output tokens, successes) per second over the last complete seconds, and their number in words."""
    complete = view.stats.complete_s
    points = list(view.stats.points(complete - NOW_S)) if complete is not None else []
    span_s = sum(p.span_s for p in points)
    if not span_s:
        return None, None, "no whole second yet"
    tokens, ended = sum(p.output_tokens for p in points), sum(p.succeeded for p in points)
    return tokens / span_s, ended / span_s, f"last {span_s} s"


def _whole(view: RunView) -> tuple[float | None, float | None, str]:
    return view.figure("output_throughput"), view.figure("request_throughput"), "whole run, without its drain"


def _percentiles(view: RunView) -> Iterator[dict[str, Any]]:
    for metric, quantiles in ((TTFT, (0.5, 0.95, 0.99)), (ITL, (0.5, 0.99)), (TPOT, (0.5,))):
        row = summary_row(view.stats, BY_KEY[metric])
        for q in quantiles:
            quantile = row.at(q)
            name = f"p{q * 100:g}"
            note = _span(view) + (", too few samples" if quantile.few and row.n else "")
            title = f"{row.metric.title} {name}"
            yield _figure(f"{metric}_{name}", title, three(quantile.value), row.metric.unit, row.n, note)


def _errors(view: RunView, counts: Counts) -> dict[str, Any]:
    share = f", {counts.failed / counts.outcomes:.2%} of {counts.outcomes}" if counts.outcomes else ""
    return _figure("errors", "Errors", counts.failed, "", counts.outcomes, _span(view) + share)


def _goodput(view: RunView, counts: Counts) -> Iterator[dict[str, Any]]:
    """Only when there are SLOs."""
    if view.slos:
        share = view.figure("goodput_share")
        note = _span(view) + (f", {share:.2%} of {counts.slo_judged}" if share is not None else "")
        note += f" meet {' and '.join(view.slos)}"
        yield _figure("goodput", "Goodput", short(view.figure("goodput")), "req/s", counts.slo_judged, note)


def _client(view: RunView) -> Iterator[dict[str, Any]]:
    """How late the client read what had arrived: the error bar, where the kernel's stamps tell."""
    worst = latest_reader(view)
    if worst is not None:
        note = "of all reads: at most, from a packet's arrival to its read"
        yield _figure("read_delay_p99", "Client delay p99", three(worst.read_p99_ms), "ms", worst.reads, note)


def _span(view: RunView) -> str:
    return "run so far" if view.provisional else "whole run"


def _figure(key: str, title: str, value: Number | None, unit: str, n: int | None, note: str) -> dict[str, Any]:
    return {"key": key, "title": title, "value": value, "unit": unit, "n": n, "note": note}


# -- all of it -----------------------------------------------------------------------------------------------------


def findings(view: RunView) -> list[dict[str, str]]:
    """The findings, the gravest first: key, severity (error, warning, note), sentence."""
    return [{"key": f.key, "severity": f.severity.value, "sentence": f.sentence} for f in view.findings]


def live(
    view: RunView,
    since: int | None = None,
    limit: int | None = POINTS_LIMIT,
    rows: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Everything the page shows, with the points after the second `since`, at most `limit` of them (None: all).

    `more` says that there are further points: ask again from the last one on. Points of seconds whose requests still
    run may be corrected later, so a page asks again for the last minute or so, and for all once the test is over. The
    table's columns never change and come only with the reply that starts at the beginning (`since` None). `rows`: the
    table's rows as they were computed a moment ago, or an empty list for a reader without a table.
    """
    points = view.stats.points(since)
    shown = list(islice(points, limit))
    columns = points_columns(shown)
    if view.server is not None:
        columns |= server_columns(view.server, shown)
    return {
        "run": view.run,
        "test": view.test,
        "state": view.state,
        "simulated": view.simulated,
        "incomplete": view.incomplete,
        "lost_workers": list(view.lost_workers),
        "provisional": view.provisional,
        "now": view.stats.now_s,
        "reset": view.stats.reset_s,
        "points": columns,
        "more": next(points, None) is not None,
        "headline": headline(view),
        "table": ({"columns": table_columns()} if since is None else {})
        | {"rows": table_rows(view) if rows is None else rows},
        "findings": findings(view),
        "steps": panel(view),
        "gates": gates(view),
        "open_load": open_load.panel(view),
    }


def gates(view: RunView) -> dict[str, Any] | None:
    """What became of the gates, or how they stand while the test runs; None without any."""
    if view.judgement is not None:
        return gates_dict(view.judgement)
    return so_far_dict(view.stats, view.gates) if view.gates and view.provisional else None
