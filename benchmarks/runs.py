"""Runs of one stack against one server, each process on a core of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import servers
from plan import Plan

from locust_llm.report.calibration_store import cpu_model

SERVER_CORE, CLIENT_CORE = 0, 1
DEADLINE_S = 90.0
STACKS = {
    "ours": "LLMUser in a locust process",
    "plain": "httpx.Client.stream + sseclient + json in a locust process",
    "aiohttp": "aiohttp + uvloop in an asyncio process",
    "C": "epoll and recvmsg in C: the limit of this machine",
}


def server(name: str) -> AbstractContextManager[str]:
    """`sim`: the embedded engine; `even`, `bursts`: truth_server.c."""
    if name == "sim":
        return servers.embedded_engine(SERVER_CORE)
    return servers.truth_server(SERVER_CORE, bursts=name == "bursts")


def run(stack: str, streams: int, server_name: str, *, tokens: int, ramp_s: float, window_s: float) -> dict[str, Any]:
    """One stack at one number of streams, against a fresh server; its figures, and the server's own in `truth`."""
    with server(server_name) as url, tempfile.TemporaryDirectory() as folder:
        plan = Plan(stack, url, str(Path(folder) / "result.json"), streams, tokens, ramp_s, window_s)
        result = run_c(plan, Path(folder)) if stack == "C" else run_python(plan)
        truth = servers.truth_stats(url) if server_name != "sim" else None
    return {"stack": stack, "streams": streams, "server": server_name, **result, "truth": truth}


def run_python(plan: Plan) -> dict[str, Any]:
    """The stacks in Python: a Locust process, or one of asyncio."""
    command = locust_command(plan) if plan.stack != "aiohttp" else [str(servers.HERE / "asyncio_users.py")]
    done = subprocess.run(
        servers.pinned(CLIENT_CORE, [sys.executable, *command]),
        env=plan.environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    out = Path(plan.out)
    if not out.exists():
        said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        raise SystemExit(f"{plan.stack} with {plan.streams} streams gave no result:\n{said}")
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def locust_command(plan: Plan) -> list[str]:
    """`locust`, headless, all users at once; they spread their starts themselves."""
    users, file = str(plan.streams), str(servers.HERE / f"{plan.stack}_users.py")
    command = [
        "-m", "locust", "-f", file, "--headless", "--host", plan.url, "-u", users,
        "-r", users, "--stop-timeout", "10", "--only-summary", "--loglevel", "WARNING", "--exit-code-on-error", "0",
    ]  # fmt: skip
    if plan.stack == "ours":
        command += ["--llm-model", "m", *(["--llm-ca-cert", plan.trusted] if plan.trusted else [])]
    return command


def run_c(plan: Plan, folder: Path) -> dict[str, Any]:
    """truth_client.c."""
    program = servers.build("truth_client", folder)
    port = plan.url.rsplit(":", 1)[1]
    options = {"-n": plan.streams, "-t": plan.tokens, "-r": plan.ramp_s * 1000, "-w": plan.window_s * 1000}
    command = [str(program), "-p", port, *(str(part) for flag, value in options.items() for part in (flag, int(value)))]
    done = subprocess.run(
        servers.pinned(CLIENT_CORE, command), capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    return {
        "date": subprocess.run(["date", "-I"], capture_output=True, text=True).stdout.strip(),
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "cpu": cpu_model(),
    }
