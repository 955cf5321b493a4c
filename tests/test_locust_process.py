"""The tests' own way of running Locust and servers: what they give back, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import psutil
import pytest

from tests.locust_process import run_locust, start_cluster, start_locust
from tests.service import Service, clean_environment, free_port

LOCUSTFILE = """
import os
from locust import User, constant, task

class Tick(User):
    wait_time = constant(0.05)

    @task
    def tick(self):
        self.environment.events.request.fire(
            request_type="TICK", name="tick", response_time=5, response_length=1, exception=None, context={}
        )
        print("seen", os.environ.get("SEEN"))
"""
HEADLESS = ["-f", "locustfile.py", "--headless", "--users", "2", "--spawn-rate", "2"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE)
    return tmp_path


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_run_to_its_end(folder: Path) -> None:
    result = run_locust([*HEADLESS, "--run-time", "2s"], cwd=folder, env={"SEEN": "yes"})
    assert result.exit_code == 0
    assert "seen yes" in result.stdout
    assert int(result.csv_row("stats", Type="TICK", Name="tick")["Request Count"]) > 0
    assert result.csv_rows("failures") == []
    with pytest.raises(AssertionError, match="0 rows with"):
        result.csv_row("stats", Name="no such row")


def test_a_run_that_is_stopped_by_a_signal(folder: Path) -> None:
    with start_locust(HEADLESS, cwd=folder) as locust:
        locust.await_output("seen")
        locust.send_signal(signal.SIGTERM)
        assert locust.wait().exit_code == 0


def test_a_run_that_is_interrupted_with_its_processes(folder: Path) -> None:
    with start_locust([*HEADLESS, "--processes", "2"], cwd=folder) as locust:
        locust.await_output("seen")
        locust.interrupt()
        result = locust.wait()
    assert result.orphans == ()
    assert result.exit_code == 0


def test_a_run_that_takes_too_long_is_killed_with_all_its_processes(folder: Path) -> None:
    with start_locust([*HEADLESS, "--processes", "2"], cwd=folder) as locust:
        locust.await_output("seen")
        family = psutil.Process(locust.pid).children(recursive=True)
        assert len(family) >= 2
        with pytest.raises(AssertionError, match=r"still ran after 0 s"):
            locust.wait(timeout_s=0.1)
    deadline_s = time.monotonic() + 10
    while any(lives(process) for process in family):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_run_that_ends_without_the_words(folder: Path) -> None:
    with start_locust(["--no-such-option"], cwd=folder) as locust:
        with pytest.raises(AssertionError, match="unrecognized arguments"):
            locust.await_output("never said")
        assert locust.wait().exit_code == 2


def test_a_cluster(folder: Path) -> None:
    args = [*HEADLESS[2:], "--run-time", "2s"]
    with start_cluster("locustfile.py", args, cwd=folder, workers=2) as cluster:
        master, workers = cluster.wait()
    assert [result.exit_code for result in (master, *workers)] == [0, 0, 0]
    assert all("seen" in worker.stdout for worker in workers)
    assert int(master.csv_row("stats", Name="tick")["Request Count"]) > 0


def test_what_steers_locust_and_us_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = ["OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "LOCUST_USERS", "HTTP_PROXY", "https_proxy", "NO_PROXY"]
    for name in dropped:
        monkeypatch.setenv(name, "x")
    environment = clean_environment(tmp_path, {"LOCUST_HOST": "http://here"})
    assert not {*dropped} & {*environment}
    assert environment["LOCUST_HOST"] == "http://here"
    assert environment["HOME"] == str(tmp_path)
    assert environment["PATH"] == os.environ["PATH"]


SERVICES = [
    ("says READY", "print('READY http://127.0.0.1:81/'); time.sleep(60)", None),
    ("ends at once", "sys.exit('no such model')", "(?s)ended with 1.*no such model"),
]


@pytest.mark.parametrize(("script", "fault"), [row[1:] for row in SERVICES], ids=[row[0] for row in SERVICES])
def test_a_service(tmp_path: Path, script: str, fault: str | None) -> None:
    def start() -> Service:
        argv = [sys.executable, "-c", f"import sys, time; {script}"]
        return Service.start("service", argv, folder=tmp_path, environment=clean_environment(tmp_path))

    if fault is not None:
        with pytest.raises(AssertionError, match=fault):
            start()
        return
    service = start()
    assert (service.url, service.port) == ("http://127.0.0.1:81", 81)
    assert service.stop() == -signal.SIGTERM
    assert service.stop() == -signal.SIGTERM
    assert not psutil.pid_exists(service.pid)


def test_the_embedded_engine_as_a_service(sim_server: Callable[..., Service]) -> None:
    first, second = sim_server("--slots", "2"), sim_server("--model", "other")
    assert first.port != second.port
    with build_opener(ProxyHandler({})).open(f"{second.url}/v1/models", timeout=10) as answer:
        assert '"other"' in answer.read().decode()


def test_free_ports_are_ports() -> None:
    assert 1024 <= free_port() < 65536
