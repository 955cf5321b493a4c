"""What a knee search costs: requests it sends on simulated servers, against sweeps of ten steps from 1 to 256 users.

    python benchmarks/knee.py [--seeds 3] [--slots 3 5 8 …]

Everything runs on the embedded engine's virtual clock: minutes of load in seconds. Search and sweeps use the same rule
for when a step has seen enough, so that requests can be compared. Two sweeps: ten loads evenly from 1 to 256, as step
shapes and `start:end:step` options make them (28 users apart), and ten evenly on the logarithmic scale (a factor 1.85
apart). The search ends with gaps of at most 1.21 beside its best step.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from sys import path as import_path

import numpy as np

import_path.insert(0, str(Path(__file__).resolve().parent.parent))

from locust_llm.analysis.knee import KneeSearch
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import Work
from tests.analysis.virtual import Bench, search

LIMIT = 256
WORK = Work(300, 150, 0.5)
SLOTS = [3, 5, 8, 11, 16, 23, 32, 45, 64, 90, 128, 180, 230, 300]
EVEN = [round(load) for load in np.linspace(1, LIMIT, 10)]
LOGARITHMIC = [round(load) for load in np.geomspace(1, LIMIT, 10)]
TENTH = LIMIT / 10


def server(slots: int) -> EngineSettings:
    """A server whose knee is its number of slots."""
    return EngineSettings(slots=slots, decode_ms=20.0, decode_slope_ms=0.02, prefill_tps=40_000.0)


def sweep(settings: EngineSettings, loads: list[int], seed: int) -> int:
    """Requests that the steps of a sweep send."""
    bench, spread_s = Bench(settings, WORK, seed=seed), None
    for load in loads:
        spread_s = bench.step(load, spread_s).residence_s
    return bench.sent


def rows(slots: list[int], seeds: int) -> Iterator[tuple[int, str, float, float, float, float]]:
    """(slots, verdict, steps and requests of the search, requests of both sweeps), means over the seeds."""
    for count in slots:
        settings, costs, verdict = server(count), [], ""
        for seed in range(seeds):
            bench = Bench(settings, WORK, seed=seed)
            found, results = search(bench, KneeSearch(LIMIT))
            low, high = found.bracket
            verdict = f"{low:g}-{high:g}" if low is not None and high is not None else found.kind.value
            costs.append([len(results), bench.sent, *(sweep(settings, loads, seed) for loads in (EVEN, LOGARITHMIC))])
        yield (count, verdict, *(float(mean) for mean in np.mean(costs, axis=0)))  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--slots", type=int, nargs="+", default=SLOTS)
    options = parser.parse_args()
    print(f"even sweep {EVEN}\nlogarithmic sweep {LOGARITHMIC}")
    print(f"{'knee':>5} {'bracket':>16} {'steps':>6} {'search':>8} {'even':>8} {'share':>6} {'log':>8} {'share':>6}")
    within = True
    for knee, verdict, steps, sent, even, logarithmic in rows(options.slots, options.seeds):
        share = sent / even
        within &= share <= (0.5 if knee < TENTH else 1.0)
        print(
            f"{knee:>5} {verdict:>16} {steps:>6.1f} {sent:>8.0f} {even:>8.0f} {share:>6.2f} "
            f"{logarithmic:>8.0f} {sent / logarithmic:>6.2f}",
            flush=True,
        )
    print(f"against the even sweep: {'within' if within else 'NOT within'} a half below {TENTH:.0f} users, else one")


if __name__ == "__main__":
    main()
