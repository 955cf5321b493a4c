"""How a calibration is told, and kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from locust_llm.report import calibration_store
from locust_llm.report.calibration import Calibration, text_of
from locust_llm.report.calibration_html import html_of
from locust_llm.report.calibration_store import Safe, save, saved, store_path
from tests.calibrate.levels import level

SET_UP = {"host": "h", "cpu": "<b>Fast</b>", "cpus": 4, "python": "3.11.2", "locust_llm": "1.0"}


def calibration(*levels: object) -> Calibration:
    return Calibration(levels, SET_UP, "2026-12-01", 50.0, 400)  # type: ignore[arg-type]


SENTENCES = [
    pytest.param([level(50), level(400)], ["at least 400 for an error below 1 %"], id="all-right"),
    pytest.param(
        [level(50), level(400, error=0.02)], ["50 for an error below 1 %", "at least 400 for"], id="one-percent"
    ),
    pytest.param([level(50, error=0.2)], ["none for an error below 1 %", "No more streams were tried"], id="none"),
    pytest.param([level(50), level(200, error=0.2, waited=0.3)], ["Other work had", "30 %", "quiet"], id="disturbed"),
    pytest.param(
        [level(50), level(200, error=0.2, pace=1.3)], ["at least 50 for an error", "no fault of"], id="engine"
    ),
]


@pytest.mark.parametrize(("levels", "words"), SENTENCES)
def test_what_follows(levels: list[object], words: list[str]) -> None:
    text = " ".join(text_of(calibration(*levels)).split())
    assert [word for word in words if word not in text] == []


def test_undisturbed_levels_blame_nobody() -> None:
    assert calibration(level(50, waited=0.5), level(200, error=0.2, waited=0.05)).disturbed is None
    assert calibration(level(50), level(200, error=0.2, waited=None)).disturbed is None


@pytest.mark.parametrize(("cpus", "told"), [(1, True), (2, False)])
def test_one_cpu_is_shared_with_the_engine(cpus: int, told: bool) -> None:
    found = Calibration([level(50)], SET_UP | {"cpus": cpus}, "2026-12-01", 50.0, 400)
    assert ("This machine has one CPU" in text_of(found)) is told


def test_the_table_has_a_line_for_each_level_of_120_columns() -> None:
    lines = text_of(calibration(level(5000, "bursts"), level(50))).splitlines()
    assert len([line for line in lines if line.lstrip().startswith(("bursts  ", "even  "))]) == 2
    assert max(map(len, lines[4:7])) == len(lines[4])
    assert "5,000" in lines[5]


def test_the_page_loads_nothing_and_shows_hostile_texts_as_texts() -> None:
    page = html_of(calibration(level(50), level(200, "bursts", error=0.3)))
    assert "&lt;b&gt;Fast&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<svg") == 2
    assert "prefers-color-scheme: dark" in page


def test_json_holds_no_nan() -> None:
    told = json.loads(json.dumps(calibration(level(50)).to_dict(), allow_nan=False))
    assert told["safe_streams"] == {"0.01": 50, "0.05": 50}
    assert told["levels"][0]["errors"]["output rate"] == pytest.approx(0.001)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    saved.cache_clear()
    yield tmp_path
    saved.cache_clear()


SAFE = Safe(400, 600, 50.0, "2026-12-01")


def test_what_is_saved_is_found_again(state: Path) -> None:
    assert saved() is None
    assert save(SAFE) == state / "locust-llm" / "calibration.json"
    assert saved() == SAFE


def test_another_set_up_was_not_calibrated(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(SAFE)
    monkeypatch.setattr(calibration_store, "set_up", lambda: {"python": "4.0"})
    saved.cache_clear()
    assert saved() is None
    save(Safe(1, 1, 50.0, "x"))
    assert len(json.loads(store_path().read_text())) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}', "\xff"], ids=["empty", "list", "broken", "other", "bytes"])
def test_a_damaged_file_is_no_calibration(state: Path, text: str) -> None:
    save(SAFE)
    store_path().write_text(text, encoding="latin-1")
    saved.cache_clear()
    assert saved() is None


def test_an_entry_of_another_shape_is_no_calibration(state: Path) -> None:
    save(SAFE)
    kept = json.loads(store_path().read_text())
    store_path().write_text(json.dumps({key: {"streams": 3} for key in kept}))
    saved.cache_clear()
    assert saved() is None
