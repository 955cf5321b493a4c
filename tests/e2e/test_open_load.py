"""Open load through real Locust: the schedule is kept, latency is told from it too, and shares make the whole."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from locust_llm.report.records import read_records
from tests.locust_process import run_locust, start_cluster
from tests.replay import DONE, STOP, C, Replay, U, stream
from tests.service import Service

LOCUSTFILE = """
from locust import task
from locust_llm import OpenLoopUser

class Open(OpenLoopUser):
    @task
    def ask(self):
        self.client.chat("hello", name="ask", max_tokens=4)
"""

SimServer = Callable[..., Service]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE)
    return tmp_path


def test_waiting_in_line_is_in_latency_from_schedule(folder: Path) -> None:
    """D08: 8 arrivals at 10 a second, 500 ms of service, one in flight: mean 1.9 s from schedule, 0.5 s from sent."""
    (folder / "times.txt").write_text("\n".join(str(0.1 * i) for i in range(8)))
    answer = stream((500, C("a") + STOP + U(4, 1) + DONE))
    with Replay(*itertools.repeat(answer, 20)) as server:
        args = ["--headless", "-u", "1", "-r", "1", "--run-time", "9s", "--host", server.url, "--llm-model", "m"]
        args += ["--llm-arrivals-file", "times.txt", "--llm-no-preflight", "--llm-records", "r.jsonl", "--only-summary"]
        result = run_locust(args, cwd=folder, timeout_s=60)
    records = list(read_records(folder / "r.jsonl"))
    assert len(records) == 8, result.output
    from_schedule = np.array([(r.event_ns[-1] - r.scheduled_ns) / 1e6 for r in records])
    ideal = np.array([500 * (i + 1) - 100 * i for i in range(8)])
    assert np.all(from_schedule >= ideal - 5)
    assert from_schedule.mean() == pytest.approx(1900, rel=0.15)
    assert np.array([r.e2e_ms for r in records]).min() >= 499
    assert np.median([r.e2e_ms for r in records]) < 800
    assert "E2E from schedule" in result.output


@pytest.mark.parametrize("arrivals", [pytest.param("constant", marks=pytest.mark.long), "poisson"])
def test_every_arrival_is_sent(folder: Path, sim_server: SimServer, arrivals: str) -> None:
    """At 40 a second for six seconds: as many as the process offers, none before its time."""
    server = sim_server("--prefill-tps", "1000000", "--decode-ms", "2", "--slots", "64")
    args = ["--headless", "-u", "60", "-r", "60", "--run-time", "7s", "--stop-timeout", "5", "--host", server.url]
    args += ["--llm-rate", "40", "--llm-arrivals", arrivals, "--llm-seed", "3", "--llm-records", "r.jsonl"]
    result = run_locust(args, cwd=folder, timeout_s=60)
    records = list(read_records(folder / "r.jsonl"))
    assert result.exit_code == 0, result.output
    scheduled = np.sort([r.scheduled_ns for r in records]) / 1e9
    assert np.all([r.started_ns >= r.scheduled_ns for r in records])
    span = scheduled[-1] - scheduled[0]
    rate = (len(scheduled) - 1) / span
    assert rate == pytest.approx(40, rel=0.01 if arrivals == "constant" else 0.25)
    assert span > 5.0


def test_workers_take_stripes_of_one_process(folder: Path, sim_server: SimServer) -> None:
    """Three workers at 30 a second together: evenly spaced as by one, none twice."""
    server = sim_server("--prefill-tps", "1000000", "--decode-ms", "2", "--slots", "64")
    args = ["--headless", "-u", "30", "-r", "30", "--run-time", "7s", "--stop-timeout", "5", "--host", server.url]
    args += ["--llm-rate", "30", "--llm-records", "r.jsonl", "--llm-json", "run.json"]
    with start_cluster("locustfile.py", args, cwd=folder, workers=3) as cluster:
        master, _ = cluster.wait()
    assert master.exit_code == 0, master.output
    walls = []
    for path in sorted(folder.glob("r.jsonl.worker*.jsonl")):
        records = list(read_records(path))
        assert len(records) > 30
        walls += [r.started_wall_s - (r.started_ns - r.scheduled_ns) / 1e9 for r in records]
    gaps = np.diff(np.sort(walls))
    assert len(gaps) > 120
    assert np.median(gaps) == pytest.approx(1 / 30, rel=0.05)
    assert gaps[:-3].max() < 1.5 / 30  # the workers stop one after the other
    told = json.loads((folder / "run.json").read_text())["open_load"]
    assert told["rate_rps"] == 30
    assert told["sent"] == len(walls)
    assert told["scheduled"] == told["sent"] + told["dropped"] + told["waiting"]
    assert told["overloaded"] is None
    assert "open load   Scheduled " in master.output


def test_open_load_without_a_rate_is_said(folder: Path, sim_server: SimServer) -> None:
    server = sim_server()
    result = run_locust(["--headless", "-u", "1", "--run-time", "1s", "--host", server.url], cwd=folder, timeout_s=60)
    assert result.exit_code == 1
    assert "open load needs --llm-rate" in result.output
    assert "Traceback" not in result.output
