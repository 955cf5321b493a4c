"""Runs of the simulated engine on its virtual clock as statistics, many and short, for sides to compare.

The statistics are put together from their parts, as from a document: records would cost more than the engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from locust_llm.analysis.compare import Run
from locust_llm.measure.blocks import Blocks
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.stats import RunStats
from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, Served, Work

SETTINGS = EngineSettings(slots=8, prefill_tps=10_000, decode_ms=20, decode_slope_ms=0.3, entry_ms=250)
WORK = Work(300, 32, 0.4)
"""A first token takes the entry and a prefill, so that decoding is hardly seen in TTFT."""

SECONDS = 40
USERS = 4
SPAWN_S = 2
S = 1_000_000_000


def virtual_run(
    seed: int,
    *,
    decode: float = 1.0,
    seconds: int = SECONDS,
    failed_share: float = 0.0,
    started_s: float | None = None,
) -> Run:
    """Users in closed loop. `decode` makes a step's decoding so much longer; every nth request fails."""
    slower = replace(SETTINGS, seed=seed, decode_ms=20 * decode, decode_slope_ms=0.3 * decode)
    load = ClosedLoop(Engine(slower), WORK, seed=seed, spawn_s=SPAWN_S)
    load.set_users(USERS)
    load.run_until(seconds * S)
    every = round(1 / failed_share) if failed_share else 0
    failed = {number for number in range(len(load.rows)) if every and number % every == 0}
    return Run(stats_of(load.rows, failed, seconds), started_s=started_s)


def stats_of(rows: Sequence[Served], failed: set[int], seconds: int) -> RunStats:
    """The statistics of a run that was stopped after so many seconds; these rows failed and gave nothing."""
    stats, blocks = RunStats(0, min_tokens=1, lag_s=0), Blocks()
    histograms = {key: Histogram() for key in ("ttft", "tpot", "e2e", "residence")}
    for number, row in enumerate(rows):
        second = row.ended_ns // S
        block, tick = blocks.at(second), stats.series.at(second)
        histograms["residence"].add((row.ended_ns - row.arrived_ns) / 1e6)
        if number in failed:
            block.failed += 1
            tick.failed += 1
            continue
        block.succeeded += 1
        tick.succeeded += 1
        tick.output_tokens += row.tokens
        for key, value in _timings(row).items():
            histograms[key].add(value)
            block.histogram(key).add(value)
    succeeded = len(rows) - len(failed)
    tokens = sum(row.tokens for number, row in enumerate(rows) if number not in failed)
    counts = {"started": len(rows), "succeeded": succeeded, "failed": len(failed), "output_tokens": tokens}
    stats.add_name("chat", counts, ({key: each.pack() for key, each in histograms.items()}, {}))
    stats.add_blocks(None, blocks)
    stats.first_sent_s, stats.all_running_s, stats.stopped_s = 0.0, float(SPAWN_S), float(seconds)
    stats.now_s = seconds
    return stats


def _timings(row: Served) -> dict[str, float]:
    assert row.first_ns is not None
    assert row.last_ns is not None
    spent = {"ttft": row.first_ns - row.arrived_ns, "e2e": row.last_ns - row.arrived_ns}
    if row.tokens > 1:
        spent["tpot"] = (row.last_ns - row.first_ns) / (row.tokens - 1)
    return {key: value / 1e6 for key, value in spent.items()}


def in_turns(base: Sequence[Run], run: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The same runs, made base, run, base, run …"""
    return (
        [replace(each, started_s=100.0 * (2 * i)) for i, each in enumerate(base)],
        [replace(each, started_s=100.0 * (2 * i + 1)) for i, each in enumerate(run)],
    )
