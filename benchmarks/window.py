"""The measured window of a Locust process: what its users append to is read at the end of the run."""

from __future__ import annotations

import random
import time
from typing import Any

import gevent
from locust import events
from plan import Plan, cpu_s
from stamps import Answer, figures, spread

PLAN = Plan.given()

answers: list[Answer] = []
failures: list[str] = []
clocks: dict[str, int] = {}
lags_ms: list[float] = []
_marks: dict[str, float] = {}
_starts = random.Random(1)


def spread_start() -> None:
    """Start this user somewhere in the ramp."""
    gevent.sleep(_starts.random() * PLAN.ramp_s)


@events.init.add_listener
def _init(environment: Any, **_: Any) -> None:
    environment.events.spawning_complete.add_listener(
        lambda user_count, **_: gevent.spawn(_measure, environment.runner)
    )


def _measure(runner: Any) -> None:
    gevent.sleep(PLAN.ramp_s + PLAN.warm_s)
    _marks["from_cpu_s"], _marks["from_ns"] = cpu_s(), time.monotonic_ns()
    gevent.sleep(PLAN.window_s)
    _marks["to_cpu_s"], _marks["to_ns"] = cpu_s(), time.monotonic_ns()
    runner.quit()


@events.quit.add_listener
def _report(**_: Any) -> None:
    used_s = _marks["to_cpu_s"] - _marks["from_cpu_s"]
    PLAN.report(
        {
            **figures(answers, int(_marks["from_ns"]), int(_marks["to_ns"]), used_s),
            "requests": len(answers),
            "failed": len(failures),
            "failures": sorted(set(failures))[:5],
            "clocks": clocks,
            "lag_ms": spread(lags_ms),
        }
    )
