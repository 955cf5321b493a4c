"""The CSV files: read back with the csv module, equal to what is in memory, safe in a spreadsheet."""

from __future__ import annotations

import csv
import io
import logging
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from locust.env import Environment
from locust.stats import StatsCSV, get_readable_percentiles

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.stats import RunStats
from locust_llm.report.csv import (
    HISTORY_COLUMNS,
    LOCUST_COLUMNS,
    LOCUST_PERCENTILES,
    HistoryWriter,
    errors_lines,
    history_lines,
    line,
    path_of,
    stats_columns,
    stats_lines,
    write_files,
)
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, WALL_0, ns, record
from tests.report.runs import runs, small_run, stats_of, view_of


def read(lines: Iterable[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines), newline="")))


def stats_row(view: RunView, name: str) -> dict[str, str]:
    return next(row for row in read(stats_lines(view)) if row["Name"] == name)


def history(view: RunView) -> list[dict[str, str]]:
    return read([line(HISTORY_COLUMNS), *history_lines(view, view.stats.points())])


# -- statistics ----------------------------------------------------------------------------------------------------


def test_leading_columns_are_locusts() -> None:
    theirs = StatsCSV(Environment(), list(LOCUST_PERCENTILES)).requests_csv_columns
    assert list(LOCUST_COLUMNS) == theirs
    assert get_readable_percentiles(list(LOCUST_PERCENTILES)) == list(LOCUST_COLUMNS[11:])


def test_columns_are_unique_and_every_metric_has_its_group() -> None:
    columns = stats_columns()
    assert len(set(columns)) == len(columns)
    for metric in DISTRIBUTIONS:
        at = columns.index(f"{metric.title} n")
        assert columns[at + 1] == f"{metric.title} mean ({metric.unit})"


def test_statistics_by_hand() -> None:
    row = stats_row(view_of(small_run()), "chat")
    exact = {
        "Type": "E2E",
        "Name": "chat",
        "Request Count": "3",
        "Failure Count": "1",
        "Median Response Time": "160",
        "Average Response Time": "225",
        "Min Response Time": "160",
        "Max Response Time": "290",
        "50%": "160",
        "66%": "290",
        "100%": "290",
        "Average Content Size": "2.666667",
        "Requests/s": "1.5",
        "Failures/s": "0.5",
        "Marks": "",
        "Output (tok/s)": "4.5",
        "Failed (share)": "0.3333333",
        "Output tokens (tok)": "8",
        "Input tokens (tok)": "30",
        "Token Sources": "usage=2",
        "Cancelled": "1",
        "TTFT n": "2",
        "TTFT mean (ms)": "150",
        "TTFT min (ms)": "100",
        "TTFT p50 (ms)": "100",
        "TTFT p99 (ms)": "200",
        "TTFT max (ms)": "200",
        "TTFT p50 with failures (ms)": "200",
        "TTFT p99 with failures (ms)": ">200",
        "ITL n": "6",
        "ITL mean (ms)": "25",
        "ITL p90 with failures (ms)": ">30",
        "ITL/token n": "0",
        "ITL/token p50 (ms)": "",
        "ITL/token max (ms)": "",
        "ITL/token p50 with failures (ms)": "",
    }
    assert {key: row[key] for key in exact} == exact
    assert float(row["ITL p50 (ms)"]) == pytest.approx(20, rel=0.001)
    assert "TTFT p50" in row["Too Few Samples For"].split("; ")
    assert "ITL/token p50" not in row["Too Few Samples For"]


def test_one_row_a_name_and_all() -> None:
    rows = read(stats_lines(view_of([*small_run(), record([5], n=1, name="rag")])))
    assert [(row["Type"], row["Name"]) for row in rows] == [("E2E", "chat"), ("E2E", "rag"), ("", "Aggregated")]
    assert [row["TTFT n"] for row in rows] == ["2", "1", "3"]


def test_slow_requests_are_not_dropped_from_the_sample() -> None:
    """D22: 11 of 20 within the limit, 9 timed out: p90 with failures is said to lie above the slowest success."""
    answers = [record([1000 * s], n=1) for s in range(42, 53)]
    timeouts = [record([], ended=60_000, outcome=Outcome.FAILED, error="timeout")] * 9
    row = stats_row(view_of([*answers, *timeouts], stop_ms=70_000), "chat")
    assert (row["Request Count"], row["Failure Count"], row["TTFT n"]) == ("20", "9", "11")
    assert row["TTFT p99 (ms)"] == "52000"
    assert float(row["TTFT p50 with failures (ms)"]) == pytest.approx(51_000, rel=0.001)
    assert row["TTFT p90 with failures (ms)"] == row["TTFT p99 with failures (ms)"] == ">52000"


def test_sub_millisecond_values_survive() -> None:
    """D67: ITLs of 0.4, 0.5, 0.6, 1.5 and 2.5 ms."""
    row = stats_row(view_of([record([100, 100.4, 100.9, 101.5, 103.0, 105.5], n=6)]), "chat")
    assert float(row["ITL p50 (ms)"]) == pytest.approx(0.6, rel=0.001)
    assert row["ITL min (ms)"] == "0.4"
    assert row["ITL max (ms)"] == "2.5"


def test_rates_of_the_run_are_tokens_over_time() -> None:
    """D29: 72 tokens in 0.692 s, then 2107 in 1.727 s are 900.8 tok/s, not the mean of 104 and 1220."""
    first = record([692], n=72)
    second = record([692 + 1727], n=2107, sent=692)
    row = stats_row(view_of([first, second], stop_ms=2419.001), "chat")
    assert float(row["Output (tok/s)"]) == pytest.approx(2179 / 2.419001, rel=1e-6)
    assert float(row["TPS mean (tok/s)"]) == pytest.approx((72 / 0.692 + 2107 / 1.727) / 2, rel=1e-6)


def test_workers_merge_to_the_samples_of_both() -> None:
    """D30: 100 x 100 ms and 100 x 1000 ms: p50 is one of the two, p99 is 1000."""
    master = RunStats(OFFSET, lag_s=0)
    for ttft in (100, 1000):
        worker = RunStats(OFFSET, lag_s=None)
        for _ in range(100):
            worker.started("chat", ns(0))
            worker.add(record([ttft], n=1))
        master.merge_delta(worker.take_delta())
    row = stats_row(RunView(master), "chat")
    assert row["TTFT n"] == "200"
    assert float(row["TTFT p50 (ms)"]) == pytest.approx(100, rel=0.001)
    assert row["TTFT p99 (ms)"] == "1000"


# -- errors --------------------------------------------------------------------------------------------------------


def test_errors_most_first() -> None:
    failures = [record([], outcome=Outcome.FAILED, error=error) for error in ("timeout", "http_500", "http_500")]
    rows = read(errors_lines(view_of([*failures, record([10], n=1)])))
    assert rows == [
        {"Name": "chat", "Error": "http_500", "Occurrences": "2", "Share": "0.5", "Marks": ""},
        {"Name": "chat", "Error": "timeout", "Occurrences": "1", "Share": "0.25", "Marks": ""},
    ]


# -- history -------------------------------------------------------------------------------------------------------


def test_history_by_hand() -> None:
    rows = history(view_of(small_run()))
    assert [row["Timestamp"] for row in rows] == [str(WALL_0 + s) for s in range(3)]
    assert [row["User Count"] for row in rows] == ["3", "3", "3"]
    assert [row["Output tokens"] for row in rows] == ["4", "5", "0"]
    assert [row["Input tokens"] for row in rows] == ["15", "15", "0"]
    assert [row["Started"] for row in rows] == ["2", "2", "0"]
    assert [row["Requests/s"] for row in rows] == ["2", "1", "0"]
    assert [row["Failures/s"] for row in rows] == ["1", "0", "0"]
    assert [row["In flight"] for row in rows] == ["0", "0", "0"]
    assert [row["Errors"] for row in rows] == ["http_500=1", "", ""]
    assert rows[0]["TTFT p99 (ms)"] == "100"
    assert rows[1]["TTFT p99 (ms)"] == "200"
    assert rows[0]["Oldest (s)"] == ""


def test_history_is_appended_live_and_corrected_at_the_end(tmp_path: Path) -> None:
    """D68. A request's tokens are known only when it ends: the file is provisional until `finish`, then complete."""
    path = str(tmp_path / "a_llm_stats_history.csv")
    writer = HistoryWriter(path)
    stats = RunStats(OFFSET, lag_s=0)
    view = RunView(stats, state="running")
    slow = record([500, 1500, 2500], n=30)
    stats.started("chat", slow.started_ns)
    for s in range(3):
        stats.tick(ns(1000 * s), [], 1)
        writer.append(view)
        writer.append(view)  # nothing new: nothing is written twice
    live = read(Path(path).read_text("utf-8").splitlines(keepends=True))
    assert [(row["Timestamp"], row["Output tokens"], row["In flight"]) for row in live] == [
        (str(WALL_0 + s), "0", "1") for s in range(3)
    ]
    stats.add(slow)
    stats.tick(ns(3000), [], 1)
    writer.finish(view)
    final = read(Path(path).read_text("utf-8").splitlines(keepends=True))
    assert [row["Output tokens"] for row in final] == ["10", "10", "10", "0"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a_llm_stats_history.csv"]


def test_history_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = HistoryWriter(str(tmp_path / "missing" / "history.csv"))
    view = view_of(small_run())
    with caplog.at_level(logging.ERROR):
        writer.append(view)
        writer.append(view)
    assert len(caplog.messages) == 1
    assert "No such file or directory" in caplog.messages[0]
    with pytest.raises(OSError, match="No such file"):
        writer.finish(view)


def test_old_seconds_come_in_spans_of_ten() -> None:
    stats = RunStats(OFFSET, lag_s=0)
    for s in range(25):
        each = record([1000 * s + 100], n=7, sent=1000 * s)
        stats.started("chat", each.started_ns)
        stats.add(each)
        stats.tick(ns(1000 * s), [], 1)
    stats.tick(ns(3_620_000), [], 1)
    rows = history(RunView(stats))
    assert [(row["Span (s)"], row["Output tokens"], row["Output (tok/s)"]) for row in rows[:3]] == [
        ("10", "70", "7"),
        ("10", "70", "7"),
        ("1", "7", "7"),
    ]
    assert sum(float(row["Output tokens"]) for row in rows) == 25 * 7


# -- cells ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, "", id="missing"),
        pytest.param(math.nan, "", id="nan"),
        pytest.param(math.inf, "", id="inf"),
        pytest.param(0, "0", id="zero"),
        pytest.param(1234567890123, "1234567890123", id="large"),
        pytest.param(12345678.9, "12345679", id="large-float"),
        pytest.param(0.00001234, "0.00001234", id="no-exponent"),
        pytest.param(-1.5, "-1.5", id="negative-number"),
        pytest.param("=1+1", "'=1+1", id="formula"),
        pytest.param("+sum(A1)", "'+sum(A1)", id="plus"),
        pytest.param("-2", "'-2", id="minus"),
        pytest.param("@SUM(1)", "'@SUM(1)", id="at"),
        pytest.param("\t=1", "'\t=1", id="tab"),
        pytest.param('say "hi", ok', '"say ""hi"", ok"', id="quotes"),
        pytest.param("two\nlines", '"two\nlines"', id="line-feed"),
        pytest.param("größer", "größer", id="utf-8"),
    ],
)
def test_cells(value: str | float | None, expected: str) -> None:
    assert line(("a", value, "b")) == f"a,{expected},b\n"


def test_hostile_names_and_labels_are_no_formulas() -> None:
    name, error = '=HYPERLINK("http://evil","x")', "@import\nlabel"
    view = view_of([record([], name=name, outcome=Outcome.FAILED, error=error)])
    assert read(errors_lines(view))[0]["Name"] == "'" + name
    assert read(errors_lines(view))[0]["Error"] == "'" + error
    assert read(stats_lines(view))[0]["Name"] == "'" + name


def test_simulated_and_incomplete_stand_on_every_line() -> None:
    view = view_of(small_run(), simulated=True, lost_workers=("w1", "w2"))
    expected = "SIMULATED; INCOMPLETE (lost w1, w2)"
    for rows in (read(stats_lines(view)), read(errors_lines(view)), history(view)):
        assert rows
        assert {row["Marks"] for row in rows} == {expected}


# -- files ---------------------------------------------------------------------------------------------------------


def test_files_of_a_test(tmp_path: Path) -> None:
    prefix = str(tmp_path / "run")
    write_files(prefix, view_of(small_run()))
    write_files(prefix, view_of(small_run()[:1], test=2))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "run_llm_errors.2.csv",
        "run_llm_errors.csv",
        "run_llm_stats.2.csv",
        "run_llm_stats.csv",
    ]
    data = Path(path_of(prefix, "stats")).read_bytes()
    assert b"\r" not in data
    assert data.endswith(b"\n")
    assert read([data.decode("utf-8")])[0]["Name"] == "chat"


@settings(max_examples=40, deadline=None)
@given(runs)
def test_any_run_reads_back_as_it_is_in_memory(records: list[RequestRecord]) -> None:
    """D68: sums of the files equal the counts; no cell is nan or inf; every row has every cell."""
    view = view_of(records, stop_ms=None)
    counts = view.stats.counts()
    rows = history(view)
    for row in [*read(stats_lines(view)), *rows]:
        assert None not in row.values()  # a short line
        assert None not in row  # a long one
        assert not {"nan", "inf", "-inf", "None"} & set(row.values())
    names = read(stats_lines(view))[:-1]
    assert sum(int(row["Succeeded"]) for row in names) == counts.succeeded == sum(int(row["Succeeded"]) for row in rows)
    assert sum(int(row["Failed"]) for row in rows) == counts.failed
    assert sum(int(row["Started"]) for row in rows) == counts.started
    assert sum(int(row["Input tokens"]) for row in rows) == counts.input_tokens


@settings(max_examples=40, deadline=None)
@given(runs)
def test_tokens_of_the_history_are_all_tokens(records: list[RequestRecord]) -> None:
    """Σ of the series = Σ N of the successes + what other requests told, + their events at their name's weight."""
    stats = stats_of(records, stop_ms=None)
    expected = 0.0
    for name in stats.names:
        counts = stats.counts(name)
        expected += counts.output_tokens + counts.partial_tokens
        expected += counts.partial_events * stats.tokens_per_event(name)
    told = sum(float(row["Output tokens"]) for row in history(RunView(stats)))
    assert told == pytest.approx(expected, rel=1e-6)
