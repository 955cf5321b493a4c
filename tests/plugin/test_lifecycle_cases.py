"""The end of a run where it is not plain: amid spawning, interrupted twice, with workers that come, go or sleep."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.locust_process import LocustProcess, start_cluster, start_locust
from tests.plugin.endings import (
    ENGINE,
    LOCUSTFILE,
    USERS,
    await_page,
    await_requests,
    family,
    get_json,
    options,
    running_engine,
    settled_counts,
    told_by,
)  # fmt: skip
from tests.service import Service, free_port
from tests.side_by_side import side_by_side

HEADLESS = ["--headless", "--users", str(USERS), "--spawn-rate", str(USERS)]


def start_engine(folder: Path, stack: ExitStack, *settings: str) -> Service:
    """The locustfile in `folder`, and an engine until `stack` is closed."""
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    return stack.enter_context(running_engine(folder, *(settings or ENGINE)))


def processes(count: int = 2) -> list[str]:
    """The options of a Locust with forked workers."""
    return ["--processes", str(count)]


def check_whole(told: dict[str, Any], engine: dict[str, Any]) -> None:
    assert told["started"] == told["succeeded"] + told["failed"] + told["cancelled"] == engine["received"]
    assert told["rows"].get("E2E ask", [0, 0]) == told["total"] == [told["succeeded"], 0]
    assert engine["in_flight"] == told["failed"] == 0


# -- interrupted twice ---------------------------------------------------------------------------------------------

LONG_TOKENS = 600  # half a minute


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes", pytest.param("cluster", marks=pytest.mark.long)])
def test_a_second_ctrl_c_cuts_off_what_still_runs(folder: Path, stack: ExitStack, mode: str) -> None:
    engine = start_engine(folder, stack)
    args = [*HEADLESS, *options(engine.url, stop_timeout_s=60, tokens=LONG_TOKENS)]
    if mode == "cluster":
        cluster = start_cluster("locustfile.py", args, cwd=folder)
        master, all_of_them = cluster.master, [cluster.master, *cluster.workers]
    else:
        extra = processes() if mode == "processes" else []
        master = start_locust(["-f", "locustfile.py", *args, *extra], cwd=folder)
        all_of_them = [master]
    try:
        await_requests(engine.url, at_least=USERS)
        for _ in range(2):
            if mode == "cluster":
                master.send_signal(signal.SIGINT)
            else:
                master.interrupt()
            time.sleep(1.5)
        results = [process.wait(15) for process in all_of_them]
    finally:
        for process in all_of_them:
            process.kill()
    told = told_by(folder)
    check_whole(told, settled_counts(engine.url))
    assert told["cancelled"] == told["started"] == USERS
    assert "Interrupted again" in results[0].output
    assert [result.orphans for result in results] == [()] * len(results)
    assert results[0].exit_code == 1  # nothing was completed


# -- in the middle of spawning -------------------------------------------------------------------------------------

SLOWLY = ["--headless", "--users", "40", "--spawn-rate", "3", "--run-time", "4s"]


@side_by_side
@pytest.mark.parametrize(
    ("mode", "stop_timeout_s"),
    [
        pytest.param("local", 0, marks=pytest.mark.long),
        pytest.param("local", 10, marks=pytest.mark.long),
        ("processes", 0),
        ("processes", 10),
    ],
)
def test_the_end_comes_while_users_are_spawned(folder: Path, stack: ExitStack, mode: str, stop_timeout_s: int) -> None:
    """The master goes on spawning while its workers finish: they must not take new users then."""
    engine = start_engine(folder, stack)
    extra = processes() if mode == "processes" else []
    args = ["-f", "locustfile.py", *SLOWLY, *options(engine.url, stop_timeout_s=stop_timeout_s), *extra]
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    told = told_by(folder)
    check_whole(told, settled_counts(engine.url))
    assert result.exit_code == 0, result.output
    assert told["cancelled"] == 0 if stop_timeout_s else told["cancelled"] > 0


# -- workers that come and go --------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.long
def test_a_worker_that_comes_late_and_one_that_leaves(folder: Path, stack: ExitStack) -> None:
    """Nothing of either is lost; neither makes the run incomplete."""
    engine = start_engine(folder, stack)
    args = [*HEADLESS, *options(engine.url), "--run-time", "9s"]
    with start_cluster("locustfile.py", args, cwd=folder, workers=1) as cluster:
        await_requests(engine.url, at_least=USERS)
        port = cluster.master.process.args[cluster.master.process.args.index("--master-bind-port") + 1]
        late_args = ["-f", "locustfile.py", "--worker", "--master-host", "127.0.0.1", "--master-port", port]
        late = start_locust(late_args, cwd=folder, name="late")
        try:
            cluster.master.await_output("2 workers connected")
            time.sleep(2)
            cluster.workers[0].send_signal(signal.SIGTERM)
            master, others = cluster.wait()
            last = late.wait()
        finally:
            late.kill()
    told = told_by(folder)
    check_whole(told, settled_counts(engine.url))
    assert [master.exit_code, others[0].exit_code, last.exit_code] == [0, 0, 0], master.output + last.output
    assert told["cancelled"] == 0


@side_by_side
@pytest.mark.long
def test_a_worker_that_slept_is_not_lost(folder: Path, stack: ExitStack) -> None:
    """D73: it missed its heartbeats, came back, and told all."""
    engine = start_engine(folder, stack)
    args = ["-f", "locustfile.py", *HEADLESS, *options(engine.url), "--run-time", "12s", *processes()]
    with start_locust(args, cwd=folder) as locust:
        await_requests(engine.url, at_least=USERS)
        sleeper = family(locust)[0]
        sleeper.suspend()
        try:
            locust.await_output("was lost: the figures of this run are incomplete")
        finally:
            sleeper.resume()
        locust.await_output("is back")
        result = locust.wait()
    check_whole(told_by(folder), settled_counts(engine.url))
    assert result.exit_code == 0, result.output


@side_by_side
@pytest.mark.long
def test_all_workers_are_killed(folder: Path, stack: ExitStack) -> None:
    engine = start_engine(folder, stack)
    args = ["-f", "locustfile.py", *HEADLESS, *options(engine.url), "--run-time", "9s", *processes()]
    with start_locust(args, cwd=folder) as locust:
        await_requests(engine.url, at_least=USERS)
        for child in family(locust):
            child.kill()
        result = locust.wait()
    told = told_by(folder)
    assert result.exit_code == told["exit_code"] == 1
    assert result.output.count("was lost: the figures of this run are incomplete") == 2
    assert told["started"] <= settled_counts(engine.url)["received"]


# -- ends that Locust knows besides ---------------------------------------------------------------------------------

QUITTER = LOCUSTFILE.replace(
    'self.client.chat("Hello", name="ask")',
    """self.client.chat("Hello", name="ask")
        self.asked = getattr(self, "asked", 0) + 1
        if self.asked == 2:
            self.environment.runner.quit()""",
)


@side_by_side
@pytest.mark.long
@pytest.mark.parametrize("mode", ["local", "processes"])
@pytest.mark.parametrize("end", ["a user quits the runner", "autoquit"])
def test_other_ends(folder: Path, stack: ExitStack, mode: str, end: str) -> None:
    engine = start_engine(folder, stack)
    if end == "autoquit":
        web_port = ["--web-host", "127.0.0.1", "--web-port", str(free_port())]
        args = [*HEADLESS[1:], "--autostart", "--autoquit", "1", "--run-time", "4s", *web_port]
    else:
        (folder / "locustfile.py").write_text(QUITTER)
        args = HEADLESS
    extra = processes() if mode == "processes" else []
    with start_locust(["-f", "locustfile.py", *args, *options(engine.url), *extra], cwd=folder) as locust:
        result = locust.wait()
    told = told_by(folder)
    check_whole(told, settled_counts(engine.url))
    assert (result.exit_code, result.orphans, told["cancelled"]) == (0, (), 0), result.output


# -- before any load -----------------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_the_wait_for_workers_can_be_ended(folder: Path, stack: ExitStack, signum: int) -> None:
    """One of two workers is there: it is sent home."""
    args = [*HEADLESS, *options(start_engine(folder, stack).url), "--expect-workers", "2"]
    with start_cluster("locustfile.py", args, cwd=folder, workers=1) as cluster:
        cluster.master.await_output("1 workers connected")
        cluster.master.send_signal(signum)
        master, workers = cluster.wait(10)
    assert master.exit_code == 1, master.output
    assert "Traceback" not in master.output
    assert workers[0].exit_code == 0, workers[0].output


@side_by_side
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_the_preflight_can_be_ended(folder: Path, stack: ExitStack, signum: int) -> None:
    engine = start_engine(folder, stack, "--fault", "slow:1:30")
    args = ["-f", "locustfile.py", *HEADLESS, "--host", engine.url]
    with start_locust(args, cwd=folder) as locust:
        await_requests(engine.url, at_least=1)
        locust.send_signal(signum)
        result = locust.wait(10)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert settled_counts(engine.url)["in_flight"] == 0


@side_by_side
def test_a_worker_without_the_key_stops_the_run_before_it_starts(folder: Path, stack: ExitStack) -> None:
    engine = start_engine(folder, stack, "--api-key", "sk-master-only")
    args = ["--headless", "--users", "2", "--host", engine.url, "--llm-api-key-env", "THE_KEY"]
    port = str(free_port())
    master_args = ["-f", "locustfile.py", "--master", "--master-bind-port", port, "--expect-workers", "1", *args]
    worker_args = ["-f", "locustfile.py", "--worker", "--master-port", port]
    with (
        start_locust(master_args, cwd=folder, env={"THE_KEY": "sk-master-only"}, name="master") as master,
        start_locust(worker_args, cwd=folder, name="worker") as worker,
    ):
        ended, others = master.wait(30), worker.wait(30)
    assert ended.exit_code == 1
    assert "THE_KEY, which is not set" in ended.output
    assert f"worker {os.uname().nodename}" in ended.output
    assert settled_counts(engine.url)["received"] == 1  # the master's preflight
    assert others.exit_code == 0
    assert "sk-master-only" not in ended.output + others.output


# -- the web UI ----------------------------------------------------------------------------------------------------


def web(mode: str, folder: Path, url: str) -> tuple[LocustProcess, str]:
    port = free_port()
    args = ["-f", "locustfile.py", *options(url, stop_timeout_s=10), "--web-host", "127.0.0.1", "--web-port", str(port)]
    locust = start_locust([*args, *(processes() if mode == "processes" else [])], cwd=folder)
    await_page(locust, port)
    return locust, f"http://127.0.0.1:{port}"


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes"])
def test_a_second_test_right_after_the_first(folder: Path, stack: ExitStack, mode: str) -> None:
    """The first is stopped while it spawns. What is told at the end is of the second alone."""
    engine = start_engine(folder, stack)
    locust, page = web(mode, folder, engine.url)
    with locust:
        get_json(f"{page}/swarm", {"user_count": "40", "spawn_rate": "3", "host": engine.url})
        await_requests(engine.url, at_least=9)
        assert get_json(f"{page}/stop", {})["success"]
        first = settled_counts(engine.url)["received"]
        if mode == "processes":
            await_ready(page)
        get_json(f"{page}/swarm", {"user_count": str(USERS), "spawn_rate": str(USERS), "host": engine.url})
        await_requests(engine.url, at_least=first + 2 * USERS)
        assert get_json(f"{page}/stop", {})["success"]
        locust.send_signal(signal.SIGTERM)
        result = locust.wait(30)
    told, counts = told_by(folder), settled_counts(engine.url)
    check_whole(told, counts | {"received": counts["received"] - first})
    assert told["cancelled"] == 0
    assert (result.exit_code, result.orphans) == (0, ()), result.output
    assert first >= 9


def await_ready(page: str) -> None:
    """The workers are ready for the next test as soon as the last one has stopped, not a stop-timeout later."""
    deadline = time.monotonic() + 5
    while [worker["state"] for worker in get_json(f"{page}/stats/requests")["workers"]] != ["ready"] * 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@side_by_side
def test_an_aborted_test_leaves_the_ui_and_the_files_of_the_one_before(folder: Path, stack: ExitStack) -> None:
    engine = start_engine(folder, stack)
    locust, page = web("local", folder, engine.url)
    with locust:
        get_json(f"{page}/swarm", {"user_count": "2", "spawn_rate": "2", "host": engine.url})
        await_requests(engine.url, at_least=4)
        get_json(f"{page}/stop", {})
        before = (folder / "run_llm_stats.csv").read_text()
        get_json(f"{page}/swarm", {"user_count": "2", "spawn_rate": "2", "host": "http://u:secret@h/v1"})
        deadline = time.monotonic() + 10
        while not (exceptions := get_json(f"{page}/exceptions")["exceptions"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "holds a user name or password" in exceptions[0]["msg"]
        assert (folder / "run_llm_stats.csv").read_text() == before
        assert get_json(f"{page}/stats/requests")["state"] == "stopped"
        locust.send_signal(signal.SIGTERM)
        result = locust.wait(30)
    assert "secret" not in result.output
    assert "Traceback" not in result.output


# -- the embedded engine -------------------------------------------------------------------------------------------


@side_by_side
def test_the_embedded_engine_and_workers(folder: Path) -> None:
    """The master starts one, after it has forked; all workers use it."""
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    args = ["-f", "locustfile.py", "--headless", "--users", "4", "--spawn-rate", "4", "--run-time", "3s"]
    args += ["--stop-timeout", "10", "--llm-max-tokens", "5", *processes()]
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    told = told_by(folder)
    assert (result.exit_code, result.orphans) == (0, ()), result.output
    assert told["started"] == told["succeeded"] > 0
    assert told["rows"]["E2E ask (SIMULATED)"] == told["total"] == [told["succeeded"], 0]
    assert result.output.count("All figures are SIMULATED") == 1


@side_by_side
def test_the_embedded_engine_ends_with_locust_however_that_ends(folder: Path) -> None:
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    args = ["-f", "locustfile.py", "--headless", "--users", "2", "--host", "sim"]
    with start_locust(args, cwd=folder) as locust:
        locust.await_output("All users spawned")
        engine = next(child for child in psutil.Process(locust.pid).children() if "locust_llm.sim" in child.cmdline())
        locust.send_signal(signal.SIGKILL)
        locust.wait()
        engine.wait(10)
