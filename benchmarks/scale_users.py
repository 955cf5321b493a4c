"""The users of benchmarks/scale.py, and in the process that leads them: its own CPU, its workers' and the server's."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import gevent
import psutil
from locust import constant, events, task
from locust.rpc import zmqrpc
from plan import PROMPT, Plan

from locust_llm import LLMUser
from locust_llm.plugin.session import session_of

PLAN = Plan.given()
_starts = random.Random(1)
_spent_s = {"ours": 0.0, "locust": 0.0, "unpack": 0.0, "tick": 0.0}


class Scaled(LLMUser):
    """One chat after the other."""

    wait_time = constant(0)

    def on_start(self) -> None:
        gevent.sleep(_starts.random() * PLAN.ramp_s)

    @task
    def chat(self) -> None:
        self.client.chat(PROMPT, max_tokens=PLAN.tokens)


def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, its CPU counted; none of these waits for anything."""

    def counted(*arguments: Any, **named: Any) -> Any:
        begin = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            _spent_s[part] += time.process_time() - begin

    return counted


def watch_master(environment: Any) -> None:
    """Count what the parts of the master cost."""
    listener = session_of(environment).listener
    listener.merge = timed("ours", listener.merge)
    listener.tick = timed("tick", listener.tick)
    handlers = environment.events.worker_report._handlers
    handlers[:] = [timed("locust", each) if each.__module__ == "locust.stats" else each for each in handlers]
    zmqrpc.Message.unserialize = timed("unpack", zmqrpc.Message.unserialize)


@events.init.add_listener
def _init(environment: Any, runner: Any, **_: Any) -> None:
    if type(runner).__name__ == "WorkerRunner":
        return
    begun: list[Any] = []
    if type(runner).__name__ == "MasterRunner":
        watch_master(environment)

    def begin(**_: Any) -> None:
        if not begun:
            begun.append(gevent.spawn(_measure, runner))

    environment.events.spawning_complete.add_listener(begin)


def _measure(runner: Any) -> None:
    gevent.sleep(PLAN.ramp_s + PLAN.warm_s)
    me = psutil.Process()
    workers = me.children()
    before, spent = _reading(me, workers), dict(_spent_s)
    gevent.sleep(PLAN.window_s)
    after = _reading(me, workers)
    length_s = after["at_s"] - before["at_s"]
    PLAN.report(
        {
            "tokens_per_s": (after["tokens"] - before["tokens"]) / length_s,
            "master": (after["me"] - before["me"]) / length_s,
            "server": (after["server"] - before["server"]) / length_s,
            "workers": [(b - a) / length_s for a, b in zip(before["workers"], after["workers"], strict=True)],
            "master_parts": {part: (_spent_s[part] - spent[part]) / length_s for part in spent},
        }
    )
    runner.quit()


def _reading(me: psutil.Process, workers: list[psutil.Process]) -> dict[str, Any]:
    with urlopen(f"{PLAN.url}/stats", timeout=10) as answer:
        stats = json.load(answer)
    server = next(process for process in me.parent().children() if process.name() == "truth_server")
    return {
        "at_s": time.monotonic(),
        "tokens": stats["tokens"],
        "me": _cpu_s(me),
        "workers": [_cpu_s(worker) for worker in workers],
        "server": _cpu_s(server),
    }


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)
