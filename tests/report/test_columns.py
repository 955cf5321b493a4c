"""The columnar shape: rates, headline, table and live reply of a run computed by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.findings import RunFacts, findings
from locust_llm.measure.record import RequestRecord
from locust_llm.measure.series import Point
from locust_llm.measure.stats import RunStats
from locust_llm.report.columns import headline, live, points_columns, table, table_columns
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, WALL_0, ns, record, running
from tests.report.runs import runs, small_run, view_of


def test_rates_are_per_second_of_the_span() -> None:
    point = Point(
        *(1000, 10, 1234.56, 70, 30, 20, 5, 1, 4, 12.3456, 8, {"timeout": 5}),
        *((100.04, 200.0, None), (None, None, None), (1234.5, 1999.9, 2000.4)),
    )
    assert points_columns([point]) == {
        "second": [1000],
        "span_s": [10],
        "output_tps": [123.5],
        "input_tps": [7],
        "req_per_s": [2.5],
        "failed_per_s": [0.5],
        "users": [8],
        "in_flight": [4],
        "oldest_age_s": [12.35],
        "ttft_p50": [100],
        "ttft_p95": [200],
        "ttft_p99": [None],
        "itl_p50": [None],
        "itl_p95": [None],
        "itl_p99": [None],
        "e2e_p50": [1234],
        "e2e_p95": [2000],
        "e2e_p99": [2000],
        "errors": {"timeout": [5]},
    }


def test_no_points() -> None:
    columns = points_columns([])
    assert columns.pop("errors") == {}
    assert set(map(tuple, columns.values())) == {()}


def test_errors_of_other_seconds_are_zero() -> None:
    view = view_of(small_run())
    assert points_columns(view.stats.points())["errors"] == {"http_500": [1, 0, 0]}


def row_of(view: RunView, name: str) -> dict[str, Any]:
    return next(row for row in table(view)["rows"] if row["name"] == name)


def test_table_by_hand() -> None:
    row = row_of(view_of(small_run()), "chat")
    expected = {
        "started": 4,
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
        "in_flight": 0,
        "input_tokens": 30,
        "output_tokens": 8,
        "n_ttft": 2,
        "ttft_p50": 100,
        "ttft_p90": 200,
        "ttft_p95": 200,
        "ttft_p99": 200,
        "ttft_max": 200,
        "n_itl": 6,
        "itl_p50": 20,
        "itl_p90": 30,
        "itl_p95": 30,
        "itl_p99": 30,
        "itl_max": 30,
        "n_tpot": 2,
        "tpot_p50": 20,
        "tpot_p99": 30,
        "tpot_max": 30,
        "n_e2e": 2,
        "e2e_p50": 160,
        "e2e_p99": 290,
        "e2e_max": 290,
        "n_itl_token": 0,
        "itl_token_p50": None,
        "itl_token_max": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_failures_stand_beside_the_successes() -> None:
    """D22: of three outcomes one failed: the median of all is the second TTFT, and what lies above is unknown."""
    beside = row_of(view_of(small_run()), "chat")["with_failures"]
    ttft = {key: value for key, value in beside.items() if key.startswith("ttft_p")}
    assert ttft == {"ttft_p50": 200, "ttft_p90": None, "ttft_p95": None, "ttft_p99": None}
    assert beside["itl_p50"] == 30  # 6 gaps and 3 of +∞: rank 5
    assert beside["itl_p90"] is None
    assert not any(key.startswith("tps_") for key in beside)  # a high TPS is a good one


def test_without_failures_nothing_stands_beside() -> None:
    assert row_of(view_of(small_run()[:1]), "chat")["with_failures"] == {}


@pytest.mark.parametrize(
    ("answers", "few"),
    [(5, {"p50", "p90", "p95", "p99"}), (6, {"p90", "p95", "p99"}), (36, {"p95", "p99"}), (72, {"p99"}), (368, set())],
)
def test_few_samples_are_marked(answers: int, few: set[str]) -> None:
    marked = row_of(view_of([record([100], n=1, name="a")] * answers), "a")["few"]
    assert {key.removeprefix("ttft_") for key in marked if key.startswith("ttft_p")} == few
    assert not any(key.startswith("itl") for key in marked)  # no sample at all is missing, not few


def test_rows_are_the_names_and_all() -> None:
    other = record([50, 60], n=2, name="rag")
    rows = table(view_of([*small_run(), other]))["rows"]
    assert [row["name"] for row in rows] == ["chat", "rag", "Aggregated"]
    assert rows[2]["n_ttft"] == 3
    assert rows[2]["ttft_p50"] == 100


def test_every_row_has_every_column() -> None:
    keys = [column["key"] for column in table_columns()]
    assert len(set(keys)) == len(keys)
    assert {column["group"] for column in table_columns()} == {"", *(metric.key for metric in DISTRIBUTIONS)}
    for row in table(view_of(small_run()))["rows"]:
        assert set(keys) <= row.keys()


def figures(view: RunView) -> dict[str, tuple[Any, Any]]:
    return {figure["key"]: (figure["value"], figure["n"]) for figure in headline(view)}


def test_headline_of_a_run_that_is_over() -> None:
    """D28, D29: 9 tokens arrived in the 2 s from first sent to stop; 6 tokens took 150 ms of decoding: 40 a second."""
    assert figures(view_of(small_run())) == {
        "output_throughput": (4.5, None),
        "output_speed": (40, 2),
        "request_throughput": (1, None),
        "in_flight": (0, None),
        "ttft_p50": (100, 2),
        "ttft_p95": (200, 2),
        "ttft_p99": (200, 2),
        "itl_p50": (20, 6),
        "itl_p99": (30, 6),
        "tpot_p50": (20, 2),
        "errors": (1, 3),
    }


def test_headline_before_anything_is_blank() -> None:
    blank = figures(RunView(RunStats(OFFSET), state="spawning"))
    assert {value for value, _ in blank.values()} == {None, 0}
    assert [key for key, (value, _) in blank.items() if value == 0] == ["in_flight", "errors"]


def test_a_stall_is_seen() -> None:
    """D17, D18: the series tells of the last ten seconds only; in a stall it is 0 or blank while the oldest ages."""
    stats = RunStats(OFFSET, lag_s=0)
    hanging = running(started=2500)
    for each in small_run()[:3]:
        stats.started(each.name, each.started_ns)
        stats.add(each)
    stats.started("chat", hanging.started_ns)
    for s in range(16):
        stats.tick(ns(1000 * s), [hanging] if s > 2 else [], 2)
    view = RunView(stats, state="running")
    assert figures(view)["output_throughput"] == (0, None)
    assert figures(view)["in_flight"] == (1, None)
    columns = live(view, WALL_0 + 13)["points"]
    assert columns["second"] == [WALL_0 + 14, WALL_0 + 15]
    assert columns["oldest_age_s"] == [11.5, 12.5]
    assert columns["ttft_p50"] == columns["itl_p50"] == columns["e2e_p50"] == [None, None]
    windows = live(view, WALL_0 + 8)["points"]
    assert windows["ttft_p50"][:3] == [pytest.approx(100, rel=0.001), pytest.approx(200, rel=0.001), None]
    assert windows["output_tps"] == [0] * 7


def test_live_comes_in_pieces() -> None:
    view = view_of(small_run(), state="running")
    first = live(view, None, limit=2)
    assert first["points"]["second"] == [WALL_0, WALL_0 + 1]
    assert first["more"]
    assert first["table"]["columns"]
    rest = live(view, WALL_0 + 1, limit=2)
    assert rest["points"]["second"] == [WALL_0 + 2]
    assert not rest["more"]
    assert "columns" not in rest["table"]


def test_live_says_what_run_it_is() -> None:
    view = view_of(small_run(), test=2, simulated=True, lost_workers=("w1",), state="running")
    reply = live(view)
    told = {
        key: reply[key] for key in ("run", "test", "state", "simulated", "incomplete", "lost_workers", "provisional")
    }
    assert told == {
        "run": "r1",
        "test": 2,
        "state": "running",
        "simulated": True,
        "incomplete": True,
        "lost_workers": ["w1"],
        "provisional": True,
    }


def test_findings_are_sentences() -> None:
    view = view_of(small_run())
    found = tuple(findings(view.stats, RunFacts(simulated=True)))
    told = live(RunView(view.stats, findings=found))["findings"]
    assert len(told) == len(found) > 0
    simulated = next(finding for finding in told if finding["key"] == "simulated")
    assert simulated["severity"] == "note"
    assert simulated["sentence"].startswith("SIMULATED")


@settings(max_examples=40, deadline=None)
@given(runs)
def test_any_run_is_json_without_nan(records: list[RequestRecord]) -> None:
    for state in ("running", "stopped"):
        text = json.dumps(live(view_of(records, state=state)), allow_nan=False)
        assert json.loads(text)["points"]
