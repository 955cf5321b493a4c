"""One run of Locust against an engine that counts, ended in one of the ways a run can end: a cell of the matrix.

Theory of operation. A cell starts an engine of its own (answers last about 1.5 s), Locust in one of its modes, ends it
on purpose while every user has a stream under way, and keeps what each side counted. `LOCUSTFILE` writes the run's own
counts and Locust's rows when Locust quits. Cells are independent, so several run at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import psutil

from tests.locust_process import LocustCluster, LocustProcess, LocustResult, start_cluster, start_locust
from tests.service import Service, clean_environment, free_port

USERS = 6
DEADLINE_S = 60.0
"""For whatever a busy machine takes long for."""

TOKENS = 30
ENGINE = ["--slots", "64", "--prefill-tps", "inf", "--decode-ms", "50", "--decode-slope-ms", "0"]
"""An answer of TOKENS tokens takes 30 x 50 ms = 1.5 s, however many users there are."""

LOCUSTFILE = """
import json
from locust import constant, events, task
from locust_llm import LLMUser
from locust_llm.plugin.session import session_of

class Asker(LLMUser):
    wait_time = constant(0)

    @task
    def ask(self):
        self.client.chat("Hello", name="ask")

@events.init.add_listener
def on_init(environment, **_):
    def on_quit(exit_code, **_):
        counts = session_of(environment).stats.counts()
        rows = {f"{type} {name}": [row.num_requests, row.num_failures]
                for (name, type), row in environment.stats.entries.items()}
        total = environment.stats.total
        told = {"exit_code": exit_code, "rows": rows, "total": [total.num_requests, total.num_failures],
                "connections": counts.connections_new + counts.connections_reused}
        told |= {name: getattr(counts, name) for name in ("started", "succeeded", "failed", "cancelled")}
        with open("told.json", "w") as file:
            json.dump(told, file)
    if not session_of(environment).is_worker:
        events.quit.add_listener(on_quit)
"""

SHAPE = """
from locust import LoadTestShape

class Flat(LoadTestShape):
    def tick(self):
        return (6, 6) if self.get_run_time() < SECONDS else None
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to run (`local`, `processes`, `cluster`), one way to end, one stop-timeout."""

    mode: str
    end: str
    stop_timeout_s: int

    @property
    def id(self) -> str:
        return f"{self.mode}-{self.end}-{self.stop_timeout_s}"

    @property
    def tokens(self) -> int:
        """Length of an answer: one that is to be cut off takes twice as long."""
        return TOKENS if self.stop_timeout_s else 2 * TOKENS


@dataclass(frozen=True, slots=True)
class Ended:
    """What a cell left. `engine` are the engine's counts after Locust's end, `told` what the run says of itself."""

    result: LocustResult
    workers: list[LocustResult]
    engine: dict[str, Any]
    told: dict[str, Any]
    lost_workers: int

    @property
    def output(self) -> str:
        return "\n".join([self.result.output, *(worker.output for worker in self.workers)])


def get_json(url: str, post: dict[str, str] | None = None) -> Any:
    """GET, or POST a form; the JSON of the answer."""
    body = "&".join(f"{name}={value}" for name, value in post.items()).encode() if post is not None else None
    with build_opener(ProxyHandler({})).open(Request(url, body), timeout=60) as answer:
        return json.load(answer)


def options(url: str, *, stop_timeout_s: int = 10, tokens: int = TOKENS) -> list[str]:
    """Locust's options for a load on the engine at `url`, of which it counts every request."""
    args = ["--host", url, "--llm-model", "sim", "--llm-no-preflight", "--llm-max-tokens", str(tokens)]
    return [*args, "--stop-timeout", str(stop_timeout_s)]


def run_cell(cell: Cell, folder: Path) -> Ended:
    """Run one cell in `folder` to its end."""
    (folder / "locustfile.py").write_text(LOCUSTFILE + (SHAPE.replace("SECONDS", "5") if cell.end == "shape" else ""))
    with running_engine(folder, *ENGINE) as engine:
        return _run(cell, folder, engine.url)


@contextmanager
def running_engine(folder: Path, *options: str) -> Iterator[Service]:
    """The embedded engine on a free port, by itself."""
    argv = [sys.executable, "-m", "locust_llm.sim", "--port", "0", *options]
    engine = Service.start("sim", argv, folder=folder, environment=clean_environment(folder))
    try:
        yield engine
    finally:
        engine.stop()


def _run(cell: Cell, folder: Path, url: str) -> Ended:
    args = [
        *options(url, stop_timeout_s=cell.stop_timeout_s, tokens=cell.tokens),
        "--llm-json",
        "run.json",
        "--html",
        "report.html",
    ]
    web_port = free_port()
    if cell.end == "web stop":
        args += ["--web-port", str(web_port), "--web-host", "127.0.0.1"]
    else:
        args += ["--headless"]
    if cell.end not in ("shape", "web stop"):
        args += ["--users", str(USERS), "--spawn-rate", str(USERS)]
    if cell.end in ("run time", "kill -9"):
        args += ["--run-time", "5s" if cell.end == "run time" else "8s"]
    with _start(cell.mode, args, folder) as running:
        master, workers = (running.master, running.workers) if isinstance(running, LocustCluster) else (running, [])
        if cell.end == "web stop":
            await_page(master, web_port)
            _end_by_web(f"http://127.0.0.1:{web_port}", url)
            master.send_signal(signal.SIGINT)
        elif cell.end not in ("run time", "shape"):
            await_requests(url, at_least=2 * USERS)
            ENDS[cell.end](master, workers)
        result = master.wait()
        others = [worker.wait() for worker in workers]
    return Ended(result, others, settled_counts(url), told_by(folder), lost_workers=int(cell.end == "kill -9"))


def told_by(folder: Path) -> dict[str, Any]:
    """What LOCUSTFILE wrote when Locust quit; empty if it did not."""
    file = folder / "told.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _start(mode: str, args: list[str], folder: Path) -> LocustProcess | LocustCluster:
    if mode == "cluster":
        if "--headless" not in args:
            args = [*args, "--expect-workers", "2"]
        return start_cluster("locustfile.py", args, cwd=folder)
    extra = ["--processes", "2"] if mode == "processes" else []
    return start_locust(["-f", "locustfile.py", *args, *extra], cwd=folder)


def await_requests(url: str, *, at_least: int) -> None:
    """Return when the engine has got that many requests: the second ones of all users are then under way."""
    deadline = time.monotonic() + DEADLINE_S
    while get_json(f"{url}/sim/counts")["received"] < at_least:
        assert time.monotonic() < deadline, "no load arrives at the engine"
        time.sleep(0.05)
    time.sleep(0.3)


def settled_counts(url: str) -> dict[str, Any]:
    """The engine's counts once it has seen that nobody is left."""
    deadline = time.monotonic() + 5
    while (counts := get_json(f"{url}/sim/counts"))["in_flight"] and time.monotonic() < deadline:
        time.sleep(0.05)
    return dict(counts)


# -- the ends ------------------------------------------------------------------------------------------------------


def family(process: LocustProcess) -> list[psutil.Process]:
    """The processes that a Locust with --processes has forked."""
    return psutil.Process(process.pid).children()


def _everywhere(signum: int) -> Callable[[LocustProcess, list[LocustProcess]], None]:
    def send(master: LocustProcess, workers: list[LocustProcess]) -> None:
        for process in (master, *workers):
            os.killpg(process.pid, signum)

    return send


def _to_master(signum: int) -> Callable[[LocustProcess, list[LocustProcess]], None]:
    return lambda master, workers: master.send_signal(signum)


def _kill_a_worker(master: LocustProcess, workers: list[LocustProcess]) -> None:
    os.kill(workers[0].pid if workers else family(master)[0].pid, signal.SIGKILL)


ENDS = {
    "ctrl-c": _everywhere(signal.SIGINT),
    "sigint": _to_master(signal.SIGINT),
    "sigterm": _to_master(signal.SIGTERM),
    "sigterm everywhere": _everywhere(signal.SIGTERM),
    "kill -9": _kill_a_worker,
}


def await_page(master: LocustProcess, port: int, *, workers: int = 2) -> None:
    """Return when the web UI answers and a master has its workers."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            stats = get_json(f"http://127.0.0.1:{port}/stats/requests")
            if "workers" not in stats or len(stats["workers"]) == workers:
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, master.stdout() + master.stderr()
        time.sleep(0.1)


def _end_by_web(page: str, url: str) -> None:
    """Start and stop a test as the web UI does."""
    started = get_json(f"{page}/swarm", {"user_count": str(USERS), "spawn_rate": str(USERS), "host": url})
    assert started["success"], started
    await_requests(url, at_least=2 * USERS)
    assert get_json(f"{page}/stop", {})["success"]
