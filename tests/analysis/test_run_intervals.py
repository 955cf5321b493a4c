"""Intervals of a run's percentiles cover the truth as often as they claim, or are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.run_intervals import batched, percentile_interval, share_interval, whole_blocks
from locust_llm.measure.blocks import Blocks
from locust_llm.measure.histogram import Histogram
from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, Served, Work

S = 1_000_000_000
RUNS = 600
ROUNDING = 1.001  # of the histogram


def histogram(values: np.ndarray) -> Histogram:
    result = Histogram()
    result.add_many(values)
    return result


def covers(interval: Interval | NoInterval, truth: float) -> bool:
    return isinstance(interval, Interval) and interval.low / ROUNDING <= truth <= interval.high * ROUNDING


@pytest.mark.parametrize(("q", "samples", "failed"), [(0.5, 6, 0), (0.95, 12, 0), (0.99, 60, 0), (0.9, 20, 0.05)])
def test_independent_samples(q: float, samples: int, failed: float) -> None:
    """Log-normal samples, about `samples` in each of 12 batches; a share of all requests fails."""
    random = np.random.default_rng(7)
    truth = math.exp(0.5 * {0.5: 0.0, 0.95: 1.644854, 0.99: 2.326348, 0.9: 1.621056}[q])  # 0.9/0.95 of the successes
    hits = 0
    for _ in range(RUNS):
        numbers = [max(1, int(n)) for n in random.poisson(samples, 12)]
        failures = [int(random.binomial(n, failed)) for n in numbers]
        parts = [np.exp(0.5 * random.standard_normal(n - lost)) for n, lost in zip(numbers, failures, strict=True)]
        whole = histogram(np.concatenate(parts))
        found = percentile_interval(q, whole, sum(failures), [histogram(part) for part in parts], failures)
        hits += covers(found, truth)
    assert hits / RUNS >= 0.935


def served(users: int, seconds: int, seed: int) -> list[Served]:
    engine = Engine(EngineSettings(slots=8, prefill_tps=4000, decode_ms=20, decode_slope_ms=0.3))
    load = ClosedLoop(engine, Work(400, 60, 0.3), seed=seed, spawn_s=5.0)
    load.set_users(users)
    load.run_until((SKIP_S + seconds) * S)
    return [row for row in load.rows if row.succeeded and row.ended_ns > SKIP_S * S]


SKIP_S = 60


def ttft_ms(row: Served) -> float:
    assert row.first_ns is not None
    return (row.first_ns - row.arrived_ns) / 1e6


def interval_of(rows: list[Served], seconds: int, q: float) -> Interval | NoInterval:
    blocks, whole = Blocks(), Histogram()
    for row in rows:
        blocks.at(row.ended_ns // S).histogram("ttft").add(ttft_ms(row))
        whole.add(ttft_ms(row))
    p95_s = float(np.quantile([(row.ended_ns - row.arrived_ns) / S for row in rows], 0.95))
    edges = whole_blocks(blocks.span_s, SKIP_S, SKIP_S + seconds, p95_s)
    if isinstance(edges, NoInterval):
        return edges
    parts = [part.histogram("ttft") for part in batched(blocks, edges)]
    return percentile_interval(q, whole, 0, parts, [0] * len(parts))


@pytest.mark.parametrize(
    ("users", "seconds", "least"),  # least: the share of runs that get an interval
    [
        (4, 60, 1.0),
        pytest.param(8, 60, 1.0, marks=pytest.mark.long),
        pytest.param(12, 150, 1.0, marks=pytest.mark.long),
        pytest.param(24, 150, 0.0, marks=pytest.mark.long),
        pytest.param(24, 180, 0.9, marks=pytest.mark.long),
    ],
)
def test_the_engine_below_at_and_past_its_knee(users: int, seconds: int, least: float) -> None:
    """Eight slots; the truth is that of four long runs: one alone is off by a quarter of an interval."""
    long = [ttft_ms(row) for seed in range(900, 904) for row in served(users, 4000, seed)]
    truth = {q: float(np.quantile(long, q, method="inverted_cdf")) for q in (0.5, 0.95)}
    runs = [served(users, seconds, seed) for seed in range(60)]
    for q, value in truth.items():
        found = [interval_of(rows, seconds, q) for rows in runs]
        told = [interval for interval in found if isinstance(interval, Interval)]
        assert sum(covers(interval, value) for interval in told) >= 0.9 * len(told)
        assert len(told) >= least * len(found)


def test_shares() -> None:
    assert share_interval([0] * 10, [30] * 10) == Interval(0, pytest.approx(0.01), 10)
    assert share_interval([30] * 10, [30] * 10) == Interval(pytest.approx(0.99), 1, 10)
    found = share_interval([3, 4] * 5, [30] * 10)
    assert isinstance(found, Interval)
    assert found.low < 35 / 300 < found.high
    assert isinstance(share_interval([0] * 10, [0] * 10), NoInterval)


def test_too_few_samples_beyond_the_percentile_get_no_interval() -> None:
    parts = [histogram(np.arange(1.0, 9.0)) for _ in range(12)]
    found = percentile_interval(0.95, Histogram.merged(parts), 0, parts, [0] * 12)
    assert isinstance(found, NoInterval)
    assert found.reason == "96 samples in the steady part are too few for an interval of p95"
