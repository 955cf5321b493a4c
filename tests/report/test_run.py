"""The view of a run, digits and files: secrets, marks, rounding, numbered names, whole writes."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from locust_llm.measure.record import Clock, Transit
from locust_llm.measure.stats import RunStats
from locust_llm.report.digits import short, three
from locust_llm.report.files import numbered, trouble, write_whole
from locust_llm.report.lines import number
from locust_llm.report.run import RunView, shown_url, without_secrets
from tests.measure.build import OFFSET, record
from tests.report.runs import small_run, view_of


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("llm_header", ["Authorization: Bearer hunter2", "X: y"], ["Authorization: ***", "X: ***"]),
        ("llm_header", None, None),
        ("llm_api_key", "hunter2", "***"),
        ("llm_api_key", "", ""),
        ("llm_api_key_env", "MY_KEY", "MY_KEY"),
        ("llm_max_tokens", 256, 256),
        ("llm_input_tokens", "512", "512"),
        ("llm_proxy", "http://me:hunter2@proxy:80", "http://***@proxy:80"),
        (
            "llm_extra_body",
            {"top_p": 0.9, "user": {"access_token": "hunter2"}},
            {"top_p": 0.9, "user": {"access_token": "***"}},
        ),
        ("llm_extra_body", ['{"api_key": "hunter2"}'], ['{"api_key": "***"}']),
        ("llm_extra_body", ['{"api_key": "hunter2"'], ["***"]),
        ("llm_extra_body", ['{"top_p": 0.9, "stop": ["a"]}'], ['{"top_p": 0.9, "stop": ["a"]}']),
        ("llm_model", "org/model", "org/model"),
    ],
)
def test_options_without_secrets(name: str, value: Any, expected: Any) -> None:
    assert without_secrets({name: value}) == {name: expected}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://key@host/v1?api-version=1&key=hunter2#x", "https://***@host/v1?api-version=***&key=***#x"),
        ("https://me:p@ss@host/", "https://***@host/"),
    ],
)
def test_urls_without_secrets(url: str, expected: str) -> None:
    assert shown_url(url) == expected


def test_marks() -> None:
    assert view_of(small_run()).marks == ()
    assert view_of(small_run(), simulated=True, lost_workers=("w",)).marks == ("SIMULATED", "INCOMPLETE")


@pytest.mark.parametrize(
    ("clocks", "expected"), [([], None), (["kernel"], "kernel"), (["read", "kernel"], "kernel+read")]
)
def test_clock(clocks: list[str], expected: str | None) -> None:
    records = [record([1], n=1, transit=Transit(clock=Clock(clock))) for clock in clocks]
    assert view_of(records).clock == expected


@pytest.mark.parametrize(
    ("state", "provisional"),
    [
        ("ready", False),
        ("spawning", True),
        ("running", True),
        ("cleanup", True),
        ("stopping", True),
        ("stopped", False),
    ],
)
def test_figures_are_provisional_until_the_end(state: str, provisional: bool) -> None:
    assert RunView(RunStats(OFFSET), state=state).provisional is provisional


def test_figures_by_key() -> None:
    view = view_of(small_run())
    assert view.figure("failed_share") == pytest.approx(1 / 3)
    assert view.figure("succeeded", "chat") == 2
    with pytest.raises(KeyError):
        view.figure("nonsense")


@pytest.mark.parametrize(
    ("value", "four", "three_", "text"),
    [
        (None, None, None, "–"),
        (math.nan, None, None, "–"),
        (math.inf, None, None, "–"),
        (0, 0, 0, "0"),
        (0.0, 0, 0, "0"),
        (0.00012345, 0.0001234, 0.000123, "0.000123"),
        (0.6, 0.6, 0.6, "0.600"),
        (9.996, 9.996, 10, "10.0"),
        (12.345, 12.35, 12.3, "12.3"),
        (99.96, 99.96, 100, "100"),
        (123.45, 123.5, 123, "123"),
        (15501, 15501, 15501, "15,501"),
        (1234567.8, 1234568, 1234568, "1,234,568"),
    ],
)
def test_digits(value: float | None, four: float | None, three_: float | None, text: str) -> None:
    """D67: at least three significant digits, never a rounded-up maximum of large values, never 0 for what is not."""
    assert short(value) == four
    assert three(value) == three_
    assert number(value) == text


def test_whole_numbers_have_no_point() -> None:
    assert repr(short(20.0)) == repr(three(20.0)) == "20"


@pytest.mark.parametrize(
    ("path", "test", "expected"),
    [("run.json", 1, "run.json"), ("a.b/run.json", 2, "a.b/run.2.json"), ("run", 3, "run.3")],
)
def test_later_tests_have_their_number(path: str, test: int, expected: str) -> None:
    assert numbered(path, test) == expected


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def lines() -> Any:
        yield "new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(path, lines())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", ["new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written_straight() -> None:
    reader, writer = os.pipe()
    write_whole(f"/dev/fd/{writer}", ["a", "b"])
    assert os.read(reader, 100) == b"ab"
    os.close(writer)
    os.close(reader)


def test_trouble_is_one_sentence() -> None:
    assert trouble("/x/run.json", OSError(28, "No space left on device")) == "/x/run.json: No space left on device"
    assert trouble("f", OSError("odd")) == "f: odd"
