"""Probe runs on the embedded engine's virtual clock, as the points that the phases are fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from random import Random

from locust_llm.measure.probe_log import ProbePoint
from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, Demand, Served


def probe(
    settings: EngineSettings,
    lengths: Sequence[int],
    max_tokens: int,
    *,
    users: Sequence[int] = (1,),
    seconds: float = 60.0,
    jitter_ms: float = 0.0,
) -> list[ProbePoint]:
    """Users who ask with prompts of these lengths in turn; each number of `users` for some seconds."""
    turn = cycle(lengths)
    noise = Random(7)

    def draw(random: Random) -> Demand:
        return Demand(next(turn), max_tokens)

    loop = ClosedLoop(Engine(settings), draw, think_s=0.02, seed=1)
    for number in users:
        loop.set_users(number, spawn_s=0.2)
        loop.run_for(seconds)
    return [point(row, noise.gauss(0.0, jitter_ms)) for row in loop.rows if row.succeeded]


def point(row: Served, late_ms: float = 0.0) -> ProbePoint:
    """One request of the engine as a client would have seen it, its first token `late_ms` late."""
    assert row.first_ns is not None
    assert row.last_ns is not None
    first_s = row.first_ns / 1e9 + late_ms / 1e3
    return ProbePoint(
        row.arrived_ns / 1e9,
        row.ended_ns / 1e9,
        first_s,
        max(first_s, row.last_ns / 1e9),
        row.prompt_tokens,
        None,
        row.tokens - 1 if row.tokens > 1 else None,
    )
