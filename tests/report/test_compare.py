"""Comparison of documents: what is told of it, old and damaged documents, hostile texts, the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from locust_llm.analysis.compare import Rules, Verdict
from locust_llm.analysis.compare_subject import STANDARD
from locust_llm.cli import main
from locust_llm.measure.stats import RunStats
from locust_llm.report.compare import Compared, compare_files, compared, told
from locust_llm.report.compare_changes import Change, changes
from locust_llm.report.compare_html import comparison_html
from locust_llm.report.compare_json import comparison_dict
from locust_llm.report.compare_markdown import comparison_markdown
from locust_llm.report.compare_text import comparison_text
from locust_llm.report.document import DocumentError, document
from locust_llm.report.run import RunView
from tests.analysis.compare_runs import virtual_run

HOSTILE = '<script>alert("x")</script>&`|*\n\x1b[31m'


@cache
def played(seed: int, decode: float, failed_share: float) -> RunStats:
    """A run, made only once."""
    return virtual_run(100 * seed, decode=decode, failed_share=failed_share).stats


def content(seed: int, at: int = 0, *, decode: float = 1.0, failed_share: float = 0.0, **more: Any) -> dict[str, Any]:
    """A run's document, as it is read from its file."""
    stats = played(seed, decode, failed_share)
    set_up: dict[str, Any] = {"models": ("tiny",), "target": "http://gpu:8000/v1", "versions": {"locust": "2.47.0"}}
    view = RunView(stats, run=f"r{seed}", state="stopped", started_wall_s=100.0 * at, **(set_up | more))
    read: dict[str, Any] = json.loads(json.dumps(document(view), allow_nan=False))
    return read


def sides(n: int = 3, *, decode: float = 1.3, **more: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Runs in turns; `more` is of the second side."""
    base = [content(i, 2 * i) for i in range(n)]
    return base, [content(50 + i, 2 * i + 1, decode=decode, **more) for i in range(n)]


def of(base: Sequence[dict[str, Any]], run: Sequence[dict[str, Any]], **rules: Any) -> Compared:
    both = [[told(f"{side}{i}.json", each) for i, each in enumerate(runs)] for side, runs in (("b", base), ("r", run))]
    return compared(both[0], both[1], None, Rules(**rules))


@pytest.fixture(scope="module")
def slower() -> Compared:
    return of(*sides(models=("tiny-q4",)))


@cache
def texts() -> dict[str, str]:
    """The files of two sides of three runs each."""
    return {
        f"{side}{i}.json": json.dumps(each)
        for side, runs in zip(("base", "run"), sides(), strict=True)
        for i, each in enumerate(runs)
    }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """base0.json …, run0.json …, and the working directory that holds them."""
    monkeypatch.chdir(tmp_path)
    for name, text in texts().items():
        (tmp_path / name).write_text(text)
    return tmp_path


BASE, RUN = ["base0.json", "base1.json", "base2.json"], ["run0.json", "run1.json", "run2.json"]


# -- what is told --------------------------------------------------------------------------------------------------


def test_the_console(slower: Compared) -> None:
    text = comparison_text(slower)
    assert re.search(r"^run +3 runs: r0.json, r1.json, r2.json · made in turns$", text, re.M)
    assert re.search(r"^changed +one variable changed: model\n +model: tiny → tiny-q4$", text, re.M)
    assert re.search(r"^verdict +Worse: tpot:p50 \(\+2\d\.\d %\), output_throughput \(−1\d\.\d %\)\.$", text, re.M)
    assert re.search(
        r"^  TPOT p50 \(ms\) +22\.\d +2\d\.\d +\+2\d\.\d % +\+\S+ to \+\S+ +4\d\d / 3\d\d   WORSE$", text, re.M
    )
    assert re.search(r"^  Failed \(%\) +0 +0 +0 pp .*   no difference shown$", text, re.M)
    assert max(map(len, text.splitlines())) <= 120


def test_json_says_the_same(slower: Compared) -> None:
    plain = json.loads(json.dumps(comparison_dict(slower), allow_nan=False))
    assert (plain["schema"], plain["verdict"]) == ("locust_llm.comparison/1", "worse")
    assert plain["changes"]["between"] == [{"variable": "model", "base": "tiny", "run": "tiny-q4"}]
    figures = {figure["figure"]: figure for figure in plain["figures"]}
    assert [key for key, figure in figures.items() if figure["verdict"] is not None] == [str(each) for each in STANDARD]
    tpot = figures["tpot:p50"]
    assert tpot["low"] < tpot["change"] < tpot["high"]
    assert tpot["change"] == pytest.approx(tpot["run"] / tpot["base"] - 1)
    assert tpot["interval"] == "between runs"
    assert {"request_throughput", "e2e:p99", "residence:p95"} <= figures.keys()


def test_markdown_and_html_hold_the_verdicts(slower: Compared) -> None:
    markdown, page = comparison_markdown(slower), comparison_html(slower)
    assert "❌ **Worse: tpot:p50" in markdown
    assert "| TPOT p50 (ms) |" in markdown
    assert page.count("<svg") == 4  # no gaps in these runs
    assert page.count('<polyline class="base"') == page.count('<polyline class="run"') == 12
    assert 'class="verdict worse">worse<' in page
    assert not re.search(r"<script|https?://|@import|url\(", page)


def test_hostile_texts_stay_texts() -> None:
    base, run = [content(0, 0, models=(HOSTILE,))], [content(50, 1, options={"llm_temperature": HOSTILE})]
    found = compared([told(f"{HOSTILE}.json", base[0])], [told("r.json", run[0])])
    page, markdown = comparison_html(found), comparison_markdown(found)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?<!\\)<script", markdown)
    assert "\x1b" not in comparison_text(found)
    comparison_html(compared([told("\ud800", base[0])], [told("r.json", run[0])])).encode("utf-8", "backslashreplace")


def test_simulated_and_failures_are_marked() -> None:
    found = of([content(0, simulated=True)], [content(50, failed_share=0.1)])
    assert comparison_text(found).startswith("LLM comparison · SIMULATED\n")
    assert re.search(r"TTFT p95 \(ms\) +\d+ +>\d+ ", comparison_text(found))
    assert "lies among the failures" in comparison_text(found)
    assert "run-to-run noise unknown: 1 against 1" in comparison_text(found)


def test_the_gates_of_the_documents_say_what_is_judged() -> None:
    base, run = [content(0)], [content(50)]
    base[0]["gates"] = {"results": [{"gate": "e2e:p90<4s"}, {"gate": "from a newer version"}]}
    run[0]["gates"] = {"results": [{"gate": "chat/errors<1%"}]}
    assert [str(row.subject) for row in of(base, run).comparison.judged] == ["e2e:p90", "chat/errors"]


@pytest.mark.parametrize(
    ("id_", "change", "reason"),
    [
        ("lost worker", {"run": {"incomplete": True, "state": "stopped"}}, "r0.json is incomplete"),
        ("running", {"run": {"state": "running"}}, "r0.json was written while its test still ran"),
        (
            "client",
            {"findings": [{"key": "client_busy", "sentence": "The client was busy."}]},
            "r0.json: The client was busy",
        ),
        ("drift", {"gates": {"reason": "the run drifted", "results": []}}, "r0.json: the run drifted"),
    ],
)
def test_runs_that_mean_too_little(id_: str, change: dict[str, Any], reason: str) -> None:
    found = of([content(0)], [content(50) | change]).comparison
    assert found.verdict is Verdict.UNKNOWN
    assert str(found.unproven).startswith(reason)


# -- changes -------------------------------------------------------------------------------------------------------


def set_up(target: str = "http://gpu/v1", models: Sequence[str] = ("m",), **more: Any) -> dict[str, Any]:
    configuration = {"target": target, "models": list(models), "options": {}, "locust": {"num_users": 4}} | more
    return {
        "configuration": configuration,
        "versions": {"locust": "2.47.0"},
        "machine": {"cpus": 2},
        "run": {"simulated": False},
        "definitions": {"version": 1},
        "clock": "kernel",
        "origin": {"files": [{"option": "--locustfile", "sha256": "abc"}], "user_classes": ["Chat"]},
    }


NOTHING = "nothing changed in the configuration"
SIM = ["python", "-m", "locust_llm.sim", "--port", "0", "--decode-ms", "20", "--end-with-stdin"]


@pytest.mark.parametrize(
    ("id_", "base", "run", "sentence"),
    [
        ("nothing", set_up(), set_up(), NOTHING),
        ("model", set_up(), set_up(models=["n"]), "one variable changed: model"),
        ("target", set_up(), set_up("http://cpu/v1"), "one variable changed: target"),
        ("option", set_up(), set_up(options={"llm_max_tokens": 9}), "one variable changed: --llm-max-tokens"),
        ("users", set_up(), set_up(locust={"num_users": 8}), "one variable changed: --num-users"),
        ("version", set_up(), set_up() | {"versions": {"locust": "2.48.0"}}, "one variable changed: version of locust"),
        ("machine", set_up(), set_up() | {"machine": {"cpus": 4}}, "one variable changed: machine"),
        ("simulated", set_up(), set_up() | {"run": {"simulated": True}}, "one variable changed: simulated"),
        ("outputs", set_up(), set_up(options={"llm_json": "x", "llm_gate": ["errors<1%"]}), NOTHING),
        ("a default that is told", set_up(), set_up(options={"llm_shape": "", "llm_seed": None}), NOTHING),
        (
            "a free port",
            set_up("http://127.0.0.1:1/v1", engine_command=SIM),
            set_up("http://127.0.0.1:2/v1", engine_command=SIM),
            NOTHING,
        ),
        (
            "engine",
            set_up(engine_command=SIM),
            set_up(engine_command=[*SIM[:-2], "22", *SIM[-1:]]),
            "one variable changed: engine --decode-ms",
        ),
        ("two", set_up(), set_up("http://cpu/v1", ["n"]), "2 variables changed: not attributable"),
        ("clock", set_up(), set_up() | {"clock": "read"}, "one variable changed: clock of the stamps"),
        (
            "locustfile",
            set_up(),
            set_up() | {"origin": {"files": [{"option": "--locustfile", "sha256": "def"}], "user_classes": ["Chat"]}},
            "one variable changed: contents of --locustfile",
        ),
        (
            "data set",
            set_up(workload={"dataset": {"sha256": "abc"}}),
            set_up(workload={"dataset": {"sha256": "def"}}),
            "one variable changed: contents of the data set",
        ),
        ("an old document", {}, set_up(), "nothing changed in what all documents tell"),
    ],
)
def test_changes(id_: str, base: dict[str, Any], run: dict[str, Any], sentence: str) -> None:
    assert changes([base], [run]).sentence == sentence
    assert changes([run], [base]).sentence == sentence


def test_an_option_that_an_older_document_does_not_know_has_its_default() -> None:
    old, new, other = (set_up(options=options) for options in ({}, {"llm_turns": "4"}, {"llm_turns": "8"}))
    assert changes([old], [new], {"llm_turns": "4"}).between == ()
    assert changes([old], [other], {"llm_turns": "4"}).between == (Change("--llm-turns", "4", "8"),)


def test_parts_that_a_document_does_not_have_are_named() -> None:
    old = set_up()
    del old["origin"], old["clock"]
    assert changes([old], [set_up(models=["n"])]).untold == ("origin", "clock")
    assert changes([old], [set_up(models=["n"])]).sentence == "one variable changed: model"


def test_runs_of_a_side_that_differ_among_themselves() -> None:
    found = changes([set_up(), set_up(models=["n"])], [set_up(), set_up()])
    assert found.within == ("model",)
    assert found.between == (Change("model", "m; n", "m"),)


# -- documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["configuration", "versions", "machine", "findings", "gates", "steps", "clock", "lag"])
def test_an_older_document_without_a_part(part: str) -> None:
    old = content(0)
    del old[part]
    found = of([old], [content(50)])
    assert comparison_text(found)
    assert {row.subject for row in found.comparison.judged} == set(STANDARD)


def test_older_documents_without_blocks_series_and_times() -> None:
    old = content(0)
    del old["series"]["peak_tokens"], old["run"], old["marks"]
    for name in old["names"]:
        name.pop("blocks"), name.pop("untouched", None)
    rows = {str(row.subject): row for row in of([old], [content(50)]).comparison.rows}
    assert rows["output_throughput"].difference.base is None
    assert rows["ttft:p50"].difference.base == pytest.approx(313, abs=10)
    assert rows["ttft:p50"].difference.change is not None
    assert rows["ttft:p50"].difference.low is None


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda c: c.pop("names"), "KeyError at 'names'"),
        (lambda c: c.update(names=[1]), "TypeError"),
        (lambda c: c["names"][0]["histograms"]["ttft"].pop("counts"), "KeyError at 'counts'"),
    ],
)
def test_a_damaged_document_is_one_sentence(damage: Any, reason: str) -> None:
    broken = content(0)
    damage(broken)
    with pytest.raises(DocumentError, match=rf"^r\.json is damaged: {reason}.*\.$"):
        told("r.json", broken)


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_writes_what_is_asked_for(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["--json", "c.json", "--markdown", "c.md", "--html", "c.html"]
    assert main(["compare", *BASE, *outputs, "--", *RUN, "--fail-on", "worse"]) == 1
    assert capsys.readouterr().out.rstrip("\n") == comparison_text(compare_files(BASE, RUN))
    assert json.loads((files / "c.json").read_text())["verdict"] == "worse"
    assert (files / "c.md").read_text().startswith("### LLM comparison")
    assert (files / "c.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("id_", "arguments", "code"),
    [
        ("worse, told only", [*BASE, "--", *RUN], 0),
        ("worse", [*BASE, "--fail-on", "worse", "--", *RUN], 1),
        ("better", [*RUN, "--", *BASE, "--fail-on", "worse", "--fail-on", "cannot-say"], 0),
        ("options between the files", ["base0.json", "--fail-on", "worse", *BASE[1:], "--", *RUN], 1),
        ("two documents", ["base0.json", "run0.json", "--fail-on", "worse"], 0),
        ("two documents, cannot say", ["base0.json", "--", "run0.json", "--fail-on", "cannot-say"], 3),
        ("a stored baseline", [*BASE, *"--baseline-spread --metric tpot:p50 --fail-on worse -- run0.json".split()], 1),
        ("one figure", [*BASE, "--", *RUN, "--metric", "errors", "--fail-on", "worse"], 0),
        ("a large least effect", [*BASE, "--", *RUN, "--min-effect", "50%", "--fail-on", "worse"], 0),
    ],
)
def test_exit_codes(id_: str, arguments: list[str], code: int, files: Path) -> None:
    assert main(["compare", *arguments]) == code


@pytest.mark.parametrize(
    ("id_", "arguments", "sentence"),
    [
        ("missing", ["none.json", "run0.json"], "none.json: No such file or directory."),
        ("not JSON", ["not.json", "run0.json"], "not.json is not JSON; give the file that --llm-json wrote."),
        ("no document", ["other.json", "run0.json"], "other.json is not a run document; give the file"),
        ("newer", ["newer.json", "run0.json"], "newer.json is a run document of version 99, this locust_llm"),
        ("twice", ["base0.json", "base0.json", "--", "run0.json"], "base0.json is the same run as base0.json: a run"),
        ("no place", [*BASE, "--", *RUN, "--html", "no/where.html"], "no/where.html: No such file or directory."),
    ],
)
def test_mistakes_in_files_are_one_sentence(
    id_: str, arguments: list[str], sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "not.json").write_text("{")
    (files / "other.json").write_text("{}")
    (files / "newer.json").write_text('{"schema": "locust_llm.run/99"}')
    assert main(["compare", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"locust-llm compare: {sentence}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("id_", "arguments", "sentence"),
    [
        ("nothing", [], "two documents are needed"),
        ("one", ["base0.json"], "two documents are needed"),
        ("three without a border", BASE, "3 documents: write -- between"),
        ("no run", [*BASE, "--"], "no document of the run"),
        ("no base", ["--", *RUN], "no document of the base"),
        ("two borders", [*BASE, "--", "run0.json", "--", "run1.json"], "-- stands there twice"),
        ("a metric", [*BASE, "--", *RUN, "--metric", "ttft"], "which percentile? Say ttft:p95"),
        ("an effect", [*BASE, "--", *RUN, "--min-effect", "5"], "a percentage is expected"),
    ],
)
def test_mistakes_in_the_command_line(
    id_: str, arguments: list[str], sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", *arguments])
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_json_and_markdown_instead_of_the_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "base0.json", "run0.json", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "cannot say"
    assert main(["compare", "base0.json", "run0.json", "--markdown", "-"]) == 0
    assert capsys.readouterr().out.startswith("### LLM comparison")
