"""Steps of rate through real Locust: a growing backlog is "overloaded", a rate that is served is sustained."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking import OPEN
from tests.locust_process import run_locust, start_cluster
from tests.service import Service

SimServer = Callable[..., Service]
CAPACITY_RPS = 4 / 0.109
"""Four slots, 20 tokens of 5.4 ms each and the prefill."""

SERVER = ("--slots", "4", "--decode-ms", "5", "--prefill-tps", "100000")
ARGS = (
    "--headless --stop-timeout 5 --only-summary --llm-json run.json --llm-input-tokens 50 --llm-max-tokens 20"
    " --llm-ignore-eos --llm-log log.csv --llm-seed 1"
).split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(OPEN)
    return tmp_path


def steps_of(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(rows, verdict) of the run document."""
    steps = json.loads((folder / "run.json").read_text())["steps"]
    return steps["rows"], steps["verdict"]


@pytest.mark.long
def test_a_growing_backlog_is_called_overloaded(folder: Path, sim_server: SimServer) -> None:
    """Also with fewer senders than that: the arrivals that wait for one count as well."""
    server = sim_server(*SERVER)
    args = [
        *ARGS,
        "--host",
        server.url,
        "--llm-shape",
        "sweep",
        "--llm-steps",
        "80",
        "--llm-step-time",
        "12",
        "-u",
        "8",
    ]
    result = run_locust(args, cwd=folder, timeout_s=60)
    assert result.exit_code == 0, result.output
    (row,), verdict = steps_of(folder)
    assert (row["load"], row["status"]) == (80, "overloaded"), result.output
    assert row["running"] <= 8
    assert row["in_flight"] > 20
    assert row["backlog_per_s"] == pytest.approx(80 - row["req_per_s"], rel=0.25)
    assert verdict["overloaded_rps"] == 80
    assert "Overloaded at 80: the backlog grows" in result.output
    (logged,) = csv.DictReader((folder / "log.csv").read_text().splitlines())
    assert (logged["users or rate"], logged["notes"]) == ("80", "overloaded")
    (told,) = csv.DictReader((folder / "run_llm_steps.csv").read_text().splitlines())
    assert (told["rate (req/s)"], told["step"]) == ("80", "overloaded")


@pytest.mark.long
@pytest.mark.parametrize("workers", [3], ids=["3 workers"])
def test_a_sweep_of_rates(folder: Path, sim_server: SimServer, workers: int) -> None:
    server = sim_server(*SERVER)
    args = [*ARGS, "--host", server.url, "--llm-shape", "sweep", "--llm-steps", "20,60", "-u", "60"]
    if workers:
        with start_cluster("locustfile.py", args, cwd=folder, workers=workers) as cluster:
            result, _ = cluster.wait(120)
    else:
        result = run_locust(args, cwd=folder, timeout_s=120)
    assert result.exit_code == 0, result.output
    (fine, too_much), verdict = steps_of(folder)
    assert [fine["status"], too_much["status"]] == ["steady", "overloaded"], result.output
    assert fine["req_per_s"] == pytest.approx(20, rel=0.05)
    assert too_much["req_per_s"] == pytest.approx(CAPACITY_RPS, rel=0.15)
    assert (verdict["kind"], verdict["sustained_rps"], verdict["overloaded_rps"]) == ("found", 20, 60)


REFUSED = [
    ("a ramp", ["--llm-rate-ramp", "5"], "steps of rate set the arrivals: leave out"),
    ("no rates", ["--llm-steps", "2,x"], "--llm-steps takes rates of requests per second"),
    ("a first above the last", ["--llm-shape", "knee", "--llm-rate", "9", "--llm-max-rate", "8"], "is above --llm-max"),
]


@pytest.mark.parametrize(("options", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_makes_no_sense_is_refused(folder: Path, options: list[str], sentence: str) -> None:
    result = run_locust([*ARGS, "--host", "sim", "--llm-shape", "sweep", *options], cwd=folder, timeout_s=60)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output
