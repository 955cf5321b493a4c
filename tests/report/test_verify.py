"""verify: what a document tells is what its records say, however the run went; what was changed in it is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm import __version__
from locust_llm.cli import main
from locust_llm.measure.record import RequestRecord, Transit
from locust_llm.measure.stats import RunStats
from locust_llm.report.document import document, write_document
from locust_llm.report.record_line import record_from_dict, record_to_dict
from locust_llm.report.records import RecordWriter
from locust_llm.report.run import RunView
from locust_llm.report.verify import Compared, Unverifiable, verify
from tests.measure.build import OFFSET, ns, record
from tests.report.runs import requests, small_run, view_of

VERSIONS = {"locust_llm": __version__}


def dated(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The same with the wall time of their start, as the client notes it."""
    return [replace(each, started_wall_s=(each.started_ns + OFFSET) / 1e9) for each in records]


def told(records: Sequence[RequestRecord], stop_ms: float = 2000) -> dict[str, Any]:
    """The document of a run that was stopped while it went on."""
    stats = RunStats(OFFSET, min_tokens=1, lag_s=1)
    stats.mark_stop(ns(stop_ms))
    for each in records:
        stats.started(each.name, each.started_ns, warmup=each.warmup)
    for each in sorted(records, key=lambda each: each.ended_ns):
        stats.add(each)
    stats.tick(max(each.ended_ns for each in records) + 10**9, ())
    content: dict[str, Any] = json.loads(
        json.dumps(document(RunView(stats, run="r1", state="stopped", versions=VERSIONS)))
    )
    return content


def read_back(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record_from_dict(record_to_dict(each)) for each in records]


def wrong(compared: Sequence[Compared]) -> list[str]:
    return [each.metric for each in compared if not each.ok]


def test_a_run_computed_by_hand_agrees() -> None:
    records = dated(small_run())
    compared = verify(told(records), read_back(records))
    assert wrong(compared) == []
    found = {each.metric: each.found for each in compared if each.name is None}
    assert (found["ttft p50"], found["ttft p90"], found["itl n"]) == (100, 200, 6)
    assert (found["ttft p50 with failures"], found["ttft p90 with failures"]) == (200, None)
    assert (found["output_tokens"], found["input_tokens"], found["failed_share"]) == (8, 30, 1 / 3)


@settings(deadline=None, max_examples=40)
@given(st.lists(requests(), min_size=1, max_size=12), st.integers(1, 30_000))
def test_any_run_agrees(records: list[RequestRecord], stop_ms: int) -> None:
    """Also one with names of its own, several choices, cut-off streams, and a stop while requests run."""
    records = dated(records)
    assert wrong(verify(told(records, stop_ms=stop_ms), read_back(records))) == []


def scale(*keys: Any, by: float) -> Callable[[dict[str, Any]], None]:
    """Changes one number of all requests together."""

    def change(content: dict[str, Any]) -> None:
        (inner,) = (each for each in content["names"] if each["name"] is None)
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] *= by

    return change


TAMPERED = [
    ("a percentile", scale("summary", "ttft", "percentiles", "p90", "value", by=0.99), ["ttft p90"]),
    ("one with failures", scale("summary", "e2e", "percentiles", "p50", "with_failures", by=0.5),
     ["e2e p50 with failures"]),
    ("a mean", scale("summary", "itl", "mean", by=0.99), ["itl mean"]),
    ("the largest", scale("summary", "itl", "max", by=0.99), ["itl max"]),
    ("the number of samples", scale("summary", "tpot", "n", by=2), ["tpot n"]),
    ("throughput", scale("figures", "output_throughput", by=1.05), ["output_throughput"]),
    ("failures", scale("figures", "failed_share", by=0.5), ["failed_share"]),
    ("a count", scale("counts", "succeeded", by=2), ["counts.succeeded"]),
    ("an error", scale("counts", "errors", "http_500", by=3), ["counts.errors.http_500"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), [row[1:] for row in TAMPERED], ids=[row[0] for row in TAMPERED])
def test_a_changed_document_is_found(change: Callable[[dict[str, Any]], None], found: list[str]) -> None:
    records = dated(small_run())
    content = told(records)
    change(content)
    assert wrong(verify(content, read_back(records))) == found


def test_a_request_that_is_missing_is_found() -> None:
    records = dated(small_run())
    compared = verify(told(records), read_back(records[:-1]))
    assert {"started", "cancelled", "counts.partial_events"} <= set(wrong(compared))


def test_a_name_that_only_the_records_have_is_found() -> None:
    records = dated(small_run())
    extra = replace(records[0], name="other")
    assert ("other", "name") in [(each.name, each.metric) for each in verify(told(records), [*records, extra])]


def told_of_a_reset(records: Sequence[RequestRecord], reset_ms: float) -> dict[str, Any]:
    """The document of a run whose figures were reset then, while requests ran."""
    stats = RunStats(OFFSET, min_tokens=1, lag_s=1)
    waiting = sorted(records, key=lambda each: each.ended_ns)
    for each in waiting:
        stats.started(each.name, each.started_ns)
    while waiting[0].ended_ns < ns(reset_ms):
        stats.add(waiting.pop(0))
    stats.reset(ns(reset_ms))
    stats.mark_stop(ns(20_000))
    for each in waiting:
        stats.add(each)
    stats.tick(ns(22_000), ())
    view = RunView(stats, run="r1", state="stopped", versions=VERSIONS)
    content: dict[str, Any] = json.loads(json.dumps(document(view)))
    return content


ACROSS = [
    record([100, 900], n=2, transit=Transit(), ended=900),
    record([1500, 1900], n=2, sent=1000, transit=Transit(), ended=1950),  # ends in the second of the reset, before it
    record([1100, 1980, 2500], n=3, sent=1050, transit=Transit(), ended=2500),  # runs across it
    record([1990, 2100], n=2, sent=1970, transit=Transit(), ended=1995),
    record([4000, 4100], n=2, sent=3900, transit=Transit(), ended=4100),
]


def test_a_run_that_was_reset_is_told_from_the_requests_that_ended_after_it() -> None:
    records = dated(ACROSS)
    content = told_of_a_reset(records, 1960)
    compared = verify(content, read_back(records))
    assert wrong(compared) == []
    assert {each.metric: each.told for each in compared if each.name is None}["succeeded"] == 3
    (every,) = (each for each in content["names"] if each["name"] is None)
    every["counts"]["succeeded"] = 5
    assert "succeeded" in wrong(verify(content, read_back(records)))


def test_a_run_of_several_processes_that_was_reset_is_not_judged() -> None:
    records = dated(ACROSS)
    with pytest.raises(Unverifiable, match="were reset"):
        verify(told_of_a_reset(records, 1960), read_back(records), processes=2)


def test_other_definitions_are_not_judged() -> None:
    content = told(dated(small_run()))
    content["definitions"]["version"] += 1
    with pytest.raises(Unverifiable, match="definitions of version"):
        verify(content, [])


@pytest.mark.parametrize(("version", "expected"), [("0.0.0", []), (__version__, ["counts.weighed_events"])])
def test_a_count_that_another_version_does_not_have(version: str, expected: list[str]) -> None:
    records = dated(small_run())
    content = told(records)
    content["versions"]["locust_llm"] = version
    for each in content["names"]:
        del each["counts"]["weighed_events"]
    assert sorted(set(wrong(verify(content, read_back(records))))) == expected


# -- the command ---------------------------------------------------------------------------------------------------


def write_run(folder: Path, *, run: str = "r1", files: int = 1) -> tuple[str, list[str]]:
    """A run's document, and its records in so many files, as workers write them."""
    records = dated(small_run())
    path = folder / "run.json"
    write_document(path, document(view_of(records, run=run, versions=VERSIONS)))
    paths = []
    for index in range(files):
        name = f"{folder}/run.jsonl.worker{index}.jsonl"
        writer = RecordWriter(name, run=run, process=f"worker{index}")
        for each in records[index::files]:
            writer.add(each)
        writer.close()
        paths.append(name)
    return str(path), paths


@pytest.mark.parametrize("files", [1, 2])
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: int) -> None:
    path, paths = write_run(tmp_path, files=files)
    assert main(["verify", path, "--records", *paths]) == 0
    printed = capsys.readouterr().out
    assert "All agree." in printed
    assert f"4 records of {files} process" in printed
    (line,) = (line.split() for line in printed.splitlines() if line.startswith("(all)  output_tokens  "))
    assert line == ["(all)", "output_tokens", "8", "8", "0", "ok"]


def test_the_command_on_a_changed_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, paths = write_run(tmp_path)
    content = json.loads(Path(path).read_text())
    scale("summary", "ttft", "percentiles", "p90", "value", by=0.5)(content)
    Path(path).write_text(json.dumps(content))
    assert main(["verify", path, "--records", *paths]) == 1
    printed = capsys.readouterr().out
    assert "1 differ." in printed
    assert [line.split()[1:3] for line in printed.splitlines() if "DIFFERS" in line] == [["ttft", "p90"]]


def test_a_file_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, paths = write_run(tmp_path, files=2)
    assert main(["verify", path, "--records", paths[0]]) == 1
    assert "counts 4 requests that ended, the records 2: is a file missing?" in capsys.readouterr().out


REFUSED = [
    ("another run", "the records of run 'r2', the document is of run 'r1'"),
    ("one twice", "both hold the records of worker0: give each once"),
    ("no document", "nothing.json: No such file"),
    ("no records", "nothing.jsonl: No such file"),
    ("no requests", "no request is in there"),
    ("something else", "run.json is not a file of records"),
    ("damaged", "run.json is damaged"),
]


@pytest.mark.parametrize(("what", "says"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, says: str) -> None:
    path, paths = write_run(tmp_path)
    if what == "another run":
        (tmp_path / "other").mkdir()
        paths = write_run(tmp_path / "other", run="r2")[1]
    elif what == "one twice":
        paths = paths * 2
    elif what == "no document":
        path = str(tmp_path / "nothing.json")
    elif what == "no records":
        paths = [str(tmp_path / "nothing.jsonl")]
    elif what == "no requests":
        paths = [f"{tmp_path}/empty.jsonl"]
        RecordWriter(paths[0], run="r1").close()
    elif what == "something else":
        paths = [path]
    elif what == "damaged":
        content = json.loads(Path(path).read_text())
        del content["marks"]["min_tokens"]
        Path(path).write_text(json.dumps(content))
    assert main(["verify", path, "--records", *paths]) == 2
    assert says in capsys.readouterr().err
