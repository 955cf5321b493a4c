"""Knee, probe, repeats and SLO capacity through real Locust (`benchmarks/knee_live.py` runs whole searches)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking import CLOSED
from tests.locust_process import run_locust, start_cluster
from tests.service import Service

pytestmark = pytest.mark.long

ARGS = (
    "--headless --stop-timeout 10 --only-summary --llm-json run.json --llm-input-tokens 50 --llm-max-tokens 20"
    " --llm-ignore-eos --llm-seed 1"
).split()
SERVER = ("--decode-ms", "10", "--prefill-tps", "100000")

SimServer = Callable[..., Service]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(CLOSED)
    return tmp_path


def run(folder: Path, url: str, *options: str, workers: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """(rows, verdict, output)."""
    args = [*ARGS, "--host", url, *options]
    if workers:
        with start_cluster("locustfile.py", args, cwd=folder, workers=workers) as cluster:
            result, _ = cluster.wait(150)
    else:
        result = run_locust(args, cwd=folder, timeout_s=150)
    assert result.exit_code == 0, result.output
    steps = json.loads((folder / "run.json").read_text())["steps"]
    return steps["rows"], steps["verdict"], result.output


@pytest.mark.parametrize("workers", [0, 3], ids=["alone", "3 workers"])
def test_a_sweep_finds_the_slots(folder: Path, sim_server: SimServer, workers: int) -> None:
    """Five slots: the knee lies at 5, alone as with workers, and the server's own figures say why."""
    server = sim_server("--slots", "5", "--kv-tokens", "20000", *SERVER)
    options = ["--llm-shape", "sweep", "--llm-steps", "2,5,15", "--llm-server-metrics", "/metrics"]
    rows, verdict, output = run(folder, server.url, *options, "--llm-step-time", "25", workers=workers)
    assert [row["load"] for row in rows] == [2, 5, 15]
    assert [row["running"] for row in rows] == pytest.approx([2, 5, 15], rel=0.05)
    assert (verdict["kind"], verdict["bracket"]) == ("knee", [2, 15]), output
    assert 3.5 < verdict["knee"] < 7, output
    assert rows[2]["server_running"] == pytest.approx(5, rel=0.1)
    assert rows[2]["server_waiting"] == pytest.approx(10, rel=0.2)
    assert verdict["cause"]["kind"] == "slots", output
    assert "the server's KV cache was only" in output


def test_a_search_probes_what_it_cannot_tell_from_outside(folder: Path, sim_server: SimServer) -> None:
    """One slot: one user is the most; answers twice as long decode one at a time, too, so it is no KV capacity."""
    server = sim_server("--slots", "1", *SERVER)
    options = ["--llm-shape", "knee", "--llm-max-users", "4", "--llm-step-time", "20"]
    rows, verdict, output = run(folder, server.url, *options)
    assert [(row["load"], row["output_factor"]) for row in rows] == [(1, 1), (2, 1), (2, 2)], output
    once, twice = (row["output_tps"] / row["req_per_s"] for row in rows[1:])
    assert twice == pytest.approx(2 * once, rel=0.1)
    assert verdict["cause"]["kind"] == "slots", output
    assert "with answers 2 times as long 1" in verdict["sentence"].replace("0.99", "1").replace("1.0", "1"), output
    assert "probe: answers × 2" in output


def test_repeats_and_the_slo_capacity(folder: Path, sim_server: SimServer) -> None:
    server = sim_server("--slots", "2", *SERVER)
    options = ["--llm-shape", "sweep", "--llm-steps", "2,8", "--llm-step-time", "14", "--llm-repeat", "2"]
    rows, verdict, output = run(folder, server.url, *options, "--llm-slo", "ttft<400ms", "--llm-slo-target", "0.9")
    assert [(row["repeat"], row["load"]) for row in rows] == [(1, 2), (1, 8), (2, 2), (2, 8)]
    assert [row["attainment"] for row in rows] == pytest.approx([1, 0, 1, 0], abs=0.1)
    assert (verdict["slo_capacity"], verdict["slo_target"]) == (2, 0.9), output
    assert len(verdict["repeats"]["values"]) == 2
    assert "SLO capacity: up to 2 users 90 % of the requests meet the SLOs" in output
