"""The truth of a profile: its throughput at every number of users, from long runs on the virtual clock.

    python -m tests.analysis.truth [NAME …]

prints the knee and zone of the named profiles: the loads with the highest power, and within 5 % of it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, Work
from tests.analysis.profiles import PROFILES, Profile

S = 1_000_000_000
OUTCOMES = 4000
SETTLE = 3
"""Outcomes a user before counting begins."""


def rate(settings: EngineSettings, work: Work, users: int, outcomes: int = OUTCOMES, seed: int = 7) -> float:
    """Output tokens per second of successful requests in the steady state of `users`."""
    load = ClosedLoop(Engine(replace(settings, seed=seed)), work, spawn_s=5.0, seed=seed + users)
    load.set_users(users)
    _run(load, SETTLE * users)
    begin_ns = load.engine.now_ns
    load.ticks.clear()
    _run(load, outcomes)
    end_ns = load.engine.now_ns
    return load.tokens_between(begin_ns, end_ns) * S / (end_ns - begin_ns)


def _run(load: ClosedLoop, outcomes: int) -> None:
    """Plays on until so many requests more have succeeded."""
    seen = 0
    while seen < outcomes:
        load.run_for(10.0)
        seen += sum(row.succeeded for row in load.rows)
        load.rows.clear()


def knee_and_zone(profile: Profile, outcomes: int = OUTCOMES) -> tuple[int, tuple[int, int]]:
    """The truth, from loads between a third and twice the knee that the table holds."""
    loads = np.arange(max(1, profile.knee // 3), 2 * profile.knee + 2)
    power = np.array([rate(profile.settings, profile.work, int(users), outcomes) ** 2 / users for users in loads])
    inside = loads[power >= 0.95 * power.max()]
    return int(loads[np.argmax(power)]), (int(inside[0]), int(inside[-1]))


if __name__ == "__main__":
    for profile in PROFILES:
        if len(sys.argv) == 1 or profile.name in sys.argv[1:]:
            print(profile.name, *knee_and_zone(profile), flush=True)
