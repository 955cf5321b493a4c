"""The run document: what it says, that the statistics can be made from it again, and how it refuses other files."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from locust_llm.analysis.overload import OpenTotals
from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.figures import FIGURES
from locust_llm.measure.findings import RunFacts, findings
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import DEFINITIONS_VERSION, Clock, RequestRecord, Transit
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import summary
from locust_llm.report.calibration_store import Safe
from locust_llm.report.columns import live, points_columns
from locust_llm.report.document import (
    DocumentError,
    document,
    read_document,
    view_of,
    write_document,
)
from locust_llm.report.rebuild import stats_of
from locust_llm.report.run import ProcessLag, RunView, without_secrets
from tests.measure.build import OFFSET, ns, record
from tests.report import runs


def full_view() -> RunView:
    view = runs.view_of(
        runs.small_run(),
        target="http://127.0.0.1:8000/v1/chat/completions",
        models=("tiny",),
        test=3,
        simulated=True,
        lost_workers=("w1",),
        options=without_secrets({"llm_max_tokens": 4, "llm_header": ["X-Key: hunter2"]}),
        locust_options={"num_users": 3, "run_time": 2},
        versions={"python": "3.11.7", "locust": "2.47"},
        machine={"platform": "linux", "cpus": 2},
        started_wall_s=1_700_000_000.0,
        stopped_wall_s=1_700_000_002.0,
        lag=(ProcessLag("local", 100, 0.1, 1.5, 3.0, 0.25),),
        engine_command=("python", "-m", "locust_llm.sim"),
    )
    return replace(view, findings=tuple(findings(view.stats, RunFacts(simulated=True, lost_workers=("w1",)))))


def again(view: RunView) -> dict[str, Any]:
    """The document as a reader gets it."""
    content: dict[str, Any] = json.loads(json.dumps(document(view), allow_nan=False))
    return content


def test_what_it_says() -> None:
    content = again(full_view())
    assert content["schema"] == "locust_llm.run/1"
    assert content["run"] == {
        "id": "r1",
        "test": 3,
        "state": "stopped",
        "simulated": True,
        "incomplete": True,
        "provisional": False,
        "lost_workers": ["w1"],
        "started_wall_s": 1_700_000_000.0,
        "stopped_wall_s": 1_700_000_002.0,
    }
    assert content["definitions"]["version"] == DEFINITIONS_VERSION
    assert [each["key"] for each in content["definitions"]["distributions"]] == [m.key for m in DISTRIBUTIONS]
    assert content["clock"] == "kernel"
    assert content["lag"][0]["p99_ms"] == 1.5
    assert content["configuration"]["models"] == ["tiny"]
    assert {finding["key"] for finding in content["findings"]} >= {"simulated", "worker_lost"}
    assert "hunter2" not in json.dumps(content)


def test_percentiles_by_hand() -> None:
    chat, total = again(full_view())["names"]
    assert (chat["name"], total["name"]) == ("chat", None)
    assert chat["summary"]["ttft"] == total["summary"]["ttft"]
    ttft = chat["summary"]["ttft"]
    assert {key: ttft[key] for key in ("n", "mean", "min", "max")} == {"n": 2, "mean": 150, "min": 100, "max": 200}
    assert ttft["percentiles"]["p50"] == {"value": 100, "with_failures": 200, "beyond": False, "few": True}
    assert ttft["percentiles"]["p99"] == {"value": 200, "with_failures": None, "beyond": True, "few": True}
    assert chat["counts"]["finish_reasons"] == {"stop": 2}
    assert chat["counts"]["token_sources"] == {"usage": 2}
    assert chat["counts"]["errors"] == {"http_500": 1}
    assert chat["figures"]["output_throughput"] == 4.5
    assert chat["figures"].keys() == {figure.key for figure in FIGURES}


def test_series_by_hand() -> None:
    series = again(full_view())["series"]
    assert series["second"] == [runs.second(ms) for ms in (0, 1000, 2000)]
    assert series["output_tokens"] == [4, 5, 0]
    assert series["told_tokens"] == [4, 4, 0]
    assert series["open_events"] == {"chat": [0, 1, 0]}
    assert series["output_tps"] == [4, 5, 0]
    assert series["errors"] == {"http_500": [1, 0, 0]}
    assert series["ttft_p50"] == pytest.approx([100, 100, 100], rel=0.001)
    assert series["ttft_p99"] == [100, 200, 200]


def test_a_view_made_again_tells_the_same() -> None:
    view = full_view()
    content = again(view)
    made = view_of(content)
    assert again(made) == content
    assert live(made, limit=None) == live(view, limit=None) | {"now": view.stats.complete_s}
    assert made.findings == view.findings
    assert made.lag == view.lag


def close(told: Any, made: Any) -> bool:
    """Equal, but for the last digits of sums that were added in another order."""
    return made == pytest.approx(told, rel=1e-12) if isinstance(told, float) else bool(told == made)


@settings(max_examples=50, deadline=None)
@given(runs.runs)
def test_statistics_of_any_run_survive(records: list[RequestRecord]) -> None:
    stats = runs.stats_of(records)
    made = stats_of(again(RunView(stats)))
    for name in (None, *stats.names):
        assert made.counts(name) == stats.counts(name)
        for lagged in (True, False):
            for metric in DISTRIBUTIONS:
                told, rebuilt = (each.histogram(metric.key, name, lagged=lagged) for each in (stats, made))
                assert rebuilt.buckets() == told.buckets()
                assert (rebuilt.min, rebuilt.max) == (told.min, told.max)
                assert close(told.mean, rebuilt.mean)
        for row, other in zip(summary(stats, name), summary(made, name), strict=True):
            assert row.quantiles == other.quantiles
        for figure in FIGURES:
            assert close(figure.of(stats, name), figure.of(made, name)), figure.key
    assert list(made.points()) == list(stats.points())


def test_untouched_samples_survive() -> None:
    """Samples of requests that the client's own delay may have touched stand apart, and come back apart."""
    late = Transit(clock=Clock.READ, max_lag_ns=9_000_000)
    records = [record([100 + i, 300 + i], n=2, transit=late if i % 2 else Transit()) for i in range(10)]
    stats = runs.stats_of(records)
    content = again(RunView(stats))
    assert content["names"][0]["untouched"]["ttft"]["count"] == 5
    made = stats_of(content)
    assert made.histogram("ttft", lagged=False).percentile(0.5) == stats.histogram("ttft", lagged=False).percentile(0.5)
    assert made.histogram("ttft").count == 10


def test_old_seconds_survive() -> None:
    """Ten-second spans of a long run come back as such, with their peak."""
    stats = RunStats(OFFSET, lag_s=0)
    for s in range(25):
        each = record([1000 * s + 100], n=s, sent=1000 * s)
        stats.started("chat", each.started_ns)
        stats.add(each)
        stats.tick(ns(1000 * s), [], 1)
    stats.tick(ns(3_615_000), [], 1)
    made = stats_of(again(RunView(stats)))
    assert list(made.points()) == list(stats.points())
    assert [span for _, span, _ in made.series.rows()][:2] == [10, 1]
    assert next(row.peak for _, _, row in made.series.rows()) == 9


def test_in_flight_over_a_reset_survives() -> None:
    stats = RunStats(OFFSET, lag_s=0)
    for _ in range(3):
        stats.started("chat", ns(0))
    stats.tick(ns(1000), [], 3)
    stats.reset(ns(1500))
    stats.add(record([1700], n=1))
    stats.add(record([2100], n=1))
    stats.tick(ns(4000), [], 3)
    made = stats_of(again(RunView(stats)))
    assert points_columns(made.points()) == points_columns(stats.points())
    assert [point.in_flight for point in made.points()][-1] == 1


def test_of_nothing() -> None:
    content = again(RunView(RunStats(OFFSET)))
    made = view_of(content)
    assert again(made) == content
    assert made.stats.counts().started == 0


def test_histograms_can_be_read_by_their_rule() -> None:
    """The rule in the document is enough: bucket i holds the doubles whose upper bits are i."""
    import struct

    data = again(full_view())["names"][0]["histograms"]["itl"]
    low, high = (struct.unpack("<d", struct.pack("<q", (data["index"][0] + i) << 43))[0] for i in (0, 1))
    assert low <= 20 < high
    assert data["counts"] == [3, 3]
    assert Histogram.from_dict(data).count == 6


# -- files ---------------------------------------------------------------------------------------------------------


def test_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    path.chmod(0o644)
    content = document(full_view())
    write_document(path, content)
    assert read_document(path) == json.loads(json.dumps(content))
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o444


def test_a_number_that_json_does_not_have_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="JSON"):
        write_document(path, {"value": float("nan")})
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "run.json: No such file or directory.", id="missing"),
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(b"Type,Name\n", "is not JSON", id="csv"),
        pytest.param(b"\xff\xfe\x00", "is not JSON", id="binary"),
        pytest.param(b"[" * 100_000, "is not JSON", id="deep"),
        pytest.param(b"[1, 2]", "is not a run document", id="list"),
        pytest.param(b"{}", "is not a run document", id="other"),
        pytest.param(b'{"schema": "locust_llm.records/1"}', "is not a run document", id="records"),
        pytest.param(b'{"schema": "locust_llm.run/x"}', "is not a run document", id="no-version"),
        pytest.param(b'{"schema": "locust_llm.run/2"}', "version 2, this locust_llm reads up to 1", id="newer"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, text: bytes | None, expected: str) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(DocumentError) as error:
        read_document(path)
    assert expected in str(error.value)
    assert "run.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", ["names", "series", "run", "marks", "configuration", "findings"])
def test_a_damaged_document_is_refused(missing: str) -> None:
    content = again(full_view())
    del content[missing]
    with pytest.raises(DocumentError, match="damaged"):
        view_of(content)


# id, what the view has, the mode, offered requests per second
LOADS: list[tuple[str, dict[str, Any], str, float | None]] = [
    ("users", {}, "closed", None),
    ("a rate", {"open_load": OpenTotals(10, 10, 0, 0, 12.0)}, "open", 12.0),
    ("steps", {"options": {"llm_shape": "sweep"}}, "steps", None),
]


@pytest.mark.parametrize(("given", "mode", "offered"), [case[1:] for case in LOADS], ids=[case[0] for case in LOADS])
def test_how_the_load_was_made(given: dict[str, Any], mode: str, offered: float | None) -> None:
    view = replace(full_view(), **given)
    load = again(view)["load"]
    assert (load["mode"], load["users"], load["offered_rps"]) == (mode, 3, offered)
    assert load["achieved_rps"] == view.figure("request_throughput")


def test_the_calibration_of_the_machine_stays_with_the_run() -> None:
    safe = Safe(400, 600, 50.0, "2026-12-01")
    content = again(replace(full_view(), calibration=safe))
    assert view_of(content).calibration == safe
    assert view_of(again(full_view())).calibration is None
