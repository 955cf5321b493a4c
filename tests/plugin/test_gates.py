"""Every exit code of a gated run, end to end; D75."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.locust_process import start_cluster
from tests.plugin.endings import await_requests, running_engine
from tests.plugin.gated import ENGINE, FAILING, GATED, SIM, USERS, gates, processes, run, start
from tests.side_by_side import side_by_side

TIME = ["--run-time", "4s"]
NEVER = "ttft:p50<1us"
ALWAYS = "ttft:p50<60s"

BUSY = f"{GATED}\nclient.HUB_LAG_LIMIT_MS = -1\n"

SLOS = ["--llm-slo", "ttft<60s", "--llm-slo", "itl<60s"]
HARD_SLOS = ["--llm-slo-preset", "llama2-70b", "--llm-slo", "e2e<1us"]

CASES = [
    # (id, locustfile, arguments, exit code, what the output says)
    ("met", GATED, gates(ALWAYS, "errors<1%", "request_throughput>0.1req/s"), 0, "All 3 gates are met."),
    ("breached", GATED, gates(ALWAYS, NEVER, "tpot:p99.9<60s"), 1, f"Breached: {NEVER}."),
    ("failures within the limit", FAILING, gates("errors<50%"), 0, "The gate is met."),
    ("failures beyond the limit", FAILING, gates("errors<2%"), 1, "Breached: errors<2%."),
    ("too few samples", GATED, gates(ALWAYS, "ttft:p99.9<60s"), 3, "samples are too few for TTFT p99.9 (3688 needed)"),
    ("no such name", GATED, gates("chat/errors<1%"), 3, "no request is named 'chat'; there are: ask"),
    (
        "nothing succeeded", GATED, [*gates("errors<101%"), "--llm-no-preflight", "--llm-model", "other"], 3,
        "requests succeeded.",
    ),
    ("client-limited", BUSY, gates(ALWAYS), 3, "The run could not be judged: The client was the bottleneck"),
    ("goodput", GATED, [*gates("goodput>=99%"), *SLOS], 0, "The gate is met."),
    ("no goodput", GATED, [*gates("goodput>=1%"), *HARD_SLOS], 1, "Breached: goodput>=1%."),
]  # fmt: skip


LONG = {"failures beyond the limit", "no such name", "no goodput", "no preset"}
"""The cases of the long tests; another of the same kind runs with the quick ones."""


def parameters(cases: list[Any]) -> list[Any]:
    return [pytest.param(*values, id=case, marks=pytest.mark.long if case in LONG else ()) for case, *values in cases]


@side_by_side
@pytest.mark.parametrize(("locustfile", "args", "code", "said"), parameters(CASES))
def test_the_exit_code(folder: Path, locustfile: str, args: list[str], code: int, said: str) -> None:
    result = run(folder, locustfile, *SIM, *USERS, *TIME, *args, "--llm-json", "run.json")
    assert said in result.output.replace("\n            ", " ")
    assert "SIMULATED" in result.output
    assert result.exit_code == code, result.output
    told = json.loads((folder / "run.json").read_text())["gates"]
    assert told["exit_code"] == code
    assert len(told["results"]) == args.count("--llm-gate")


REFUSED = [
    ("no host", gates(ALWAYS), 3, "a gate needs a host: give --host URL."),
    ("goodput of nothing", [*gates("goodput>=1%"), "--host", "sim"], 3, "give --llm-slo or --llm-slo-preset"),
    ("no gate for JUnit", ["--llm-junit", "x.xml", "--host", "sim"], 1, "--llm-junit tells what became of the gates"),
    ("no server", [*gates(ALWAYS), "--host", "http://127.0.0.1:9"], 3, "127.0.0.1:9"),
    ("no grammar", gates("ttft:95<5ms"), 2, "a percentile is expected, such as p95, at character 6"),
    ("no preset", [*gates(ALWAYS), "--llm-slo-preset", "gpt-9"], 2, "llama3.1-8b-interactive"),
]


@side_by_side
@pytest.mark.parametrize(("args", "code", "said"), parameters(REFUSED))
def test_what_is_refused_at_once(folder: Path, args: list[str], code: int, said: str) -> None:
    result = run(folder, GATED, *USERS, *TIME, *args)
    assert said in result.output
    assert result.exit_code == code, result.output
    assert "Ramping to" not in result.output
    assert "SIMULATED" not in result.output


def documented(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


@side_by_side
def test_killed_by_sigterm_at_half_time_it_leaves_whole_files_and_is_not_judged(folder: Path) -> None:
    files = ["--llm-json", "run.json", "--llm-html", "run.html", "--llm-junit", "j.xml", "--llm-markdown", "m.md"]
    args = [*SIM, *USERS, "--run-time", "60s", *gates(ALWAYS, NEVER), *files, "--llm-records", "r.jsonl"]
    with start(folder, GATED, *args) as locust:
        locust.await_output("All users spawned", timeout_s=60)
        wait_for_records(folder / "r.jsonl", 10)
        locust.send_signal(signal.SIGTERM)
        result = locust.wait()
    assert result.exit_code == 3, result.output
    assert "The run could not be judged: it was ended by SIGTERM." in result.output
    content = documented(folder)
    (total,) = (each for each in content["names"] if each["name"] is None)
    counts = total["counts"]
    assert counts["succeeded"] >= 10
    assert counts["started"] == counts["succeeded"] + counts.get("cancelled", 0)
    assert {each["status"] for each in content["gates"]["results"]} == {"not judged"}
    assert len((folder / "r.jsonl").read_text().splitlines()) >= counts["succeeded"]
    assert "llm-run" in (folder / "run.html").read_text()
    assert "it was ended by SIGTERM" in (folder / "m.md").read_text()
    assert len(list(ElementTree.parse(folder / "j.xml").iter("error"))) == 2
    rows = list(csv.DictReader((folder / "run_llm_stats.csv").read_text().splitlines()))
    assert int(rows[-1]["Request Count"]) == counts["succeeded"]


def wait_for_records(path: Path, least: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or len(path.read_text().splitlines()) < least:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@side_by_side
@pytest.mark.parametrize(
    ("run_time", "code"),
    [
        pytest.param(["--run-time", "60s"], 3, id="before its time", marks=pytest.mark.long),
        pytest.param([], 0, id="endless"),
    ],
)
def test_ctrl_c(folder: Path, run_time: list[str], code: int) -> None:
    """It cuts a run short that has a run time; else it is how a run ends."""
    with start(folder, GATED, *SIM, *USERS, *run_time, *gates(ALWAYS), "--llm-records", "r.jsonl") as locust:
        wait_for_records(folder / "r.jsonl", 20)
        locust.send_signal(signal.SIGINT)
        result = locust.wait()
    assert result.exit_code == code, result.output
    assert ("it was interrupted before its run time was over" in result.output) == (code == 3)


SECRET = "sk-hunter2"


@side_by_side
def test_what_a_pipeline_reads(folder: Path) -> None:
    """Job summary, annotations, JUnit and Markdown; the key is in none of them. The gates come from a file."""
    (folder / "summary.md").write_text("before\n")
    (folder / "ci.conf").write_text(f"llm-gate = [{ALWAYS}, {NEVER}]\nheadless = true\n")
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "OPENAI_API_KEY": SECRET,
    }
    files = ["--llm-json", "run.json", "--llm-junit", "j.xml", "--llm-markdown", "m.md"]
    args = [*SIM, *TIME, "--users", "2", "--spawn-rate", "50", "--llm-header", f"X-Token: {SECRET}", *files]
    result = run(folder, GATED, "--config", "ci.conf", *args, env=env)
    assert result.exit_code == 1, result.output
    commands = [line for line in result.stdout.splitlines() if line.startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith(f"::error title=LLM gate SIMULATED breached::{NEVER}: ")
    markdown = (folder / "m.md").read_text()
    assert (folder / "summary.md").read_text() == f"before\n{markdown}"
    assert "❌ **Breached: ttft:p50\\<1us.**" in markdown
    cases = list(ElementTree.parse(folder / "j.xml").iter("testcase"))
    assert [(case.get("name"), case.find("failure") is not None) for case in cases] == [(ALWAYS, False), (NEVER, True)]
    for file in folder.rglob("*"):
        if file.is_file():
            assert SECRET not in file.read_text(errors="replace"), file


@side_by_side
def test_workers_report_goodput_and_are_judged_together(folder: Path) -> None:
    slos = ["--llm-slo", "e2e<60s", "--llm-json", "run.json"]
    args = [*SIM, *USERS, *TIME, *processes(), *gates("goodput>50%", NEVER), *slos]
    result = run(folder, FAILING, *args)
    assert result.exit_code == 1, result.output
    content = documented(folder)
    (total,) = (each for each in content["names"] if each["name"] is None)
    counts, figures = total["counts"], total["figures"]
    assert counts["slo_met"] == counts["succeeded"]
    assert counts["slo_missed"] == counts["failed"]
    assert figures["goodput_share"] == pytest.approx(counts["succeeded"] / (counts["succeeded"] + counts["failed"]))
    assert [each["status"] for each in content["gates"]["results"]] == ["met", "breached"]
    assert sum(total["blocks"]["succeeded"]) == counts["succeeded"]


@side_by_side
def test_a_lost_worker_leaves_nothing_to_judge(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder, *ENGINE.split()))
    (folder / "locustfile.py").write_text(GATED)
    args = ["--host", engine.url, "--llm-max-tokens", "6", "--stop-timeout", "20", *USERS, "--run-time", "12s"]
    cluster = stack.enter_context(start_cluster("locustfile.py", [*args, *gates(ALWAYS)], cwd=folder))
    await_requests(engine.url, at_least=10)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    result, _ = cluster.wait()
    assert result.exit_code == 3, result.output
    assert "The run could not be judged: incomplete, since it lost " in result.output


# -- these need an interval, and so time ---------------------------------------------------------------------------

PACED = FAILING.replace("constant(0.05)", "constant_pacing(0.16)").replace("import constant", "import constant_pacing")


@side_by_side
@pytest.mark.parametrize(("strict", "code"), [([], 3), (["--llm-strict"], 1)], ids=["not proven", "strict"])
@pytest.mark.long
def test_a_breach_within_the_interval(folder: Path, strict: list[str], code: int) -> None:
    """Exactly 20 % of 250 requests fail, in some batches more and in some less; the limit is below 20 %."""
    args = [*SIM, *USERS, "--llm-max-requests", "250", *gates("errors<20%"), *strict, "--llm-json", "run.json"]
    result = run(folder, PACED, *args)
    (told,) = documented(folder)["gates"]["results"]
    assert (told["value"], told["n"]) == (0.2, 250)
    assert told["low"] < 0.2 < told["high"], told
    assert result.exit_code == code, result.output
    assert ("not proven" in result.output) == (code == 3)


DRIFTING = (
    GATED.replace("wait_time = constant(0.05)", "begun = time.monotonic()").replace(
        "import json", "import json\nimport time"
    )
    + """
def wait(self):
    return 0.05 if time.monotonic() < self.begun + 12 else 0.6

Asker.wait_time = wait
"""
)


@side_by_side
@pytest.mark.long
def test_a_run_that_drifts_is_not_judged(folder: Path) -> None:
    result = run(folder, DRIFTING, *SIM, *USERS, "--run-time", "24s", *gates(ALWAYS))
    assert result.exit_code == 3, result.output
    assert "The run could not be judged: the run drifted: " in result.output


OPEN = GATED.replace("LLMUser", "OpenLoopUser").replace("wait_time = constant(0.05)\n", "pass\n")


@side_by_side
@pytest.mark.long
def test_open_load_beyond_what_the_service_takes_is_a_breach(folder: Path) -> None:
    slow = ["--host", "sim", "--llm-sim", "--slots 2 --decode-ms 50", "--llm-max-tokens", "10"]
    args = [*slow, *USERS, "--stop-timeout", "20", "--run-time", "8s", "--llm-rate", "20", *gates(ALWAYS)]
    result = run(folder, OPEN, *args)
    assert result.exit_code == 1, result.output
    assert "Overloaded: of " in result.output
