"""The figures of whole runs: one process and four workers agree, a stall shows, resets happen when Locust's do."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import run_locust, start_cluster, start_locust
from tests.service import Service

SimServer = Callable[..., Service]

THREE_EACH = """
from locust import task
from locust.exception import StopUser
from locust_llm import LLMUser

class Three(LLMUser):
    left = 3

    @task
    def ask(self):
        self.client.chat(self.prompt(), name="ask", max_tokens=24)
        self.left -= 1
        if not self.left:
            raise StopUser
"""

FOREVER = """
from locust import constant, task
from locust_llm import LLMUser

class Always(LLMUser):
    wait_time = constant(0)

    @task
    def ask(self):
        self.client.chat("hello", name="ask", max_tokens=50)
"""


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def name_of(content: dict[str, Any], name: str | None) -> dict[str, Any]:
    return next(entry for entry in content["names"] if entry["name"] == name)


def counts_of(content: dict[str, Any]) -> Counter[str]:
    """Counts of zero are not written."""
    return Counter({key: value for key, value in name_of(content, "ask")["counts"].items() if isinstance(value, int)})


def percentile(content: dict[str, Any], metric: str, p: str) -> float:
    value: float = name_of(content, "ask")["summary"][metric]["percentiles"][p]["value"]
    return value


@pytest.mark.long
def test_one_process_and_four_workers_tell_the_same(tmp_path: Path, sim_server: SimServer) -> None:
    """200 users of three requests each: equal counts, and percentiles within the noise of two runs."""
    told = []
    for workers in (0, 4):
        folder = tmp_path / str(workers)
        folder.mkdir()
        (folder / "locustfile.py").write_text(THREE_EACH)
        server = sim_server(
            "--slots", "256", "--prefill-tps", "10000000", "--decode-ms", "50", "--decode-slope-ms", "0"
        )
        args = [
            "--headless",
            "-u",
            "200",
            "-r",
            "100",
            "--run-time",
            "10s",
            "--stop-timeout",
            "10",
            "--host",
            server.url,
        ]
        args += ["--llm-input-tokens", "20", "--llm-json", "run.json", "--only-summary"]
        if workers:
            with start_cluster("locustfile.py", args, cwd=folder, workers=workers) as cluster:
                result, _ = cluster.wait(90)
        else:
            result = run_locust(args, cwd=folder, timeout_s=90)
        assert result.exit_code == 0, result.output
        told.append(document(folder))
        counts = counts_of(told[-1])
        assert (counts["started"], counts["succeeded"], counts["output_tokens"]) == (600, 600, 14_400), result.output
        assert sum(told[-1]["series"]["output_tokens"]) == pytest.approx(14_400)
    one, four = told
    for metric, p in (("itl", "p50"), ("tpot", "p50"), ("e2e", "p50"), ("e2e", "p90")):
        assert percentile(one, metric, p) == pytest.approx(percentile(four, metric, p), rel=0.10), (metric, p)


@pytest.mark.long
@pytest.mark.parametrize("stall_s", [20])
def test_a_stall_shows_in_the_series(tmp_path: Path, sim_server: SimServer, stall_s: int) -> None:
    """D17: the engine is stopped in the middle of a run: rates fall to 0, the oldest ages, the late replies appear."""
    (tmp_path / "locustfile.py").write_text(FOREVER)
    server = sim_server("--slots", "8", "--decode-ms", "20")
    args = ["-f", "locustfile.py", "--headless", "-u", "4", "-r", "4", "--run-time", f"{stall_s + 11}s"]
    args += ["--stop-timeout", "10", "--host", server.url, "--csv-full-history", "--llm-json", "run.json"]
    with start_locust(args, cwd=tmp_path) as locust:
        locust.await_output("All users spawned")
        time.sleep(5)
        stopped_s = time.time()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            time.sleep(stall_s)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        result = locust.wait(90)
    assert result.exit_code == 0, result.output
    content = document(tmp_path)
    series = content["series"]
    seconds = series["second"]
    quiet = [i for i, second in enumerate(seconds) if stopped_s + 1 <= second < stopped_s + stall_s - 1]
    assert len(quiet) >= stall_s - 3
    assert {series["output_tokens"][i] for i in quiet} == {0}
    assert {series["in_flight"][i] for i in quiet} == {4}
    ages = [series["oldest_age_s"][i] for i in quiet]
    assert ages == sorted(ages)
    assert ages[-1] - ages[0] == pytest.approx(len(quiet) - 1, abs=1.1)
    late_ms = percentile(content, "e2e", "p99.9")
    assert late_ms > 1e3 * (stall_s - 0.1)
    before = [i for i, second in enumerate(seconds) if stopped_s - 3 <= second < stopped_s - 1]
    assert min(series["output_tokens"][i] for i in before) > 0


@pytest.mark.long
def test_reset_stats_resets_both_and_keeps_requests_in_flight(tmp_path: Path, sim_server: SimServer) -> None:
    """D20: with --reset-stats our figures begin anew when Locust's do, on two workers too, and still add up."""
    (tmp_path / "locustfile.py").write_text(FOREVER)
    server = sim_server("--slots", "16", "--decode-ms", "10")
    args = ["--headless", "-u", "8", "-r", "2", "--run-time", "9s", "--stop-timeout", "10", "--host", server.url]
    args += ["--reset-stats", "--llm-json", "run.json"]
    with start_cluster("locustfile.py", args, cwd=tmp_path, workers=2) as cluster:
        master, _ = cluster.wait(90)
    assert master.exit_code == 0, master.output
    counts = counts_of(document(tmp_path))
    assert counts["started"] == counts["succeeded"] + counts["failed"] + counts["cancelled"]
    row = master.csv_row("stats", Type="E2E")
    assert counts["succeeded"] < 8 * 9 / 0.5
    assert abs(counts["succeeded"] - int(row["Request Count"])) <= 16  # what was under way at Locust's own reset
