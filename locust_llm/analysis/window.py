"""The figures of a window of steady load, from the rows of requests and the seconds: arrays in, StepResult out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import Estimate, batch_edges, estimate, ratio_estimate, student_t, sums
from locust_llm.analysis.intervals import Interval, NoInterval, interval_edges, mean_interval
from locust_llm.analysis.outcomes import Fate, Outcomes
from locust_llm.analysis.seconds import Seconds
from locust_llm.analysis.step import Asked, Attainment, Quantiles, StepResult

Floats = NDArray[np.float64]

MAX_BATCHES: Final = 16
"""Batches grow longer when there would be more: long ones are less dependent on each other."""


def step_result(asked: Asked, outcomes: Outcomes, seconds: Seconds, begin_s: float, end_s: float) -> StepResult:
    """The figures of the window (begin, end]: requests that ended in it, tokens that arrived in it."""
    rows = within(outcomes.rows, begin_s, end_s)
    success = rows[rows["fate"] == Fate.SUCCESS]
    counts = np.bincount(rows["fate"], minlength=len(Fate))
    residence_s = residences(success if len(success) else rows)
    median_s, p95_s = nearest_rank(residence_s, 0.5), nearest_rank(residence_s, 0.95)
    edges = batch_edges(begin_s, end_s, median_s if median_s is not None else 0.0, MAX_BATCHES)
    rates, unit = throughput(outcomes.rows, seconds, edges)
    in_flight = estimate(seconds.mean_in_flight(edges))
    tpot_ms, decoding = _decoding(success, rates if unit == "tok/s" else None, edges)
    return StepResult(
        load=asked.load,
        users=seconds.mean_users(begin_s, end_s),
        status=asked.status,
        begin_s=begin_s,
        end_s=end_s,
        throughput=estimate(rates),
        unit=unit,
        requests_per_s=len(success) / (end_s - begin_s),
        in_flight=in_flight,
        decoding=decoding,
        tpot_ms=tpot_ms,
        residence_s=median_s,
        p95_residence_s=p95_s,
        ttft=quantiles(success["ttft_ms"]),
        tpot=quantiles(success["tpot_ms"]),
        e2e=quantiles(success["e2e_ms"]),
        outcomes=int(len(rows) - counts[Fate.CANCELLED]),
        succeeded=int(counts[Fate.SUCCESS]),
        failed=int(counts[Fate.FAILED] + counts[Fate.REFUSED]),
        cancelled=int(counts[Fate.CANCELLED]),
        refused=int(counts[Fate.REFUSED]),
        errors=outcomes.errors(rows),
        batches=tuple(float(rate) for rate in rates),
        interval=_interval(outcomes.rows, seconds, begin_s, end_s, p95_s),
        little=_little(rows, in_flight, end_s - begin_s),
        attainment=_attainment(rows, begin_s, end_s, p95_s),
        server=asked.server,
        output_factor=asked.output_factor,
        open_loop=asked.open_loop,
        why=asked.why,
    )


def within(rows: NDArray[Any], begin_s: float, end_s: float) -> NDArray[Any]:
    """The rows of requests that ended in (begin, end]."""
    return rows[(rows["ended_s"] > begin_s) & (rows["ended_s"] <= end_s)]


def residences(rows: NDArray[Any]) -> Floats:
    """Stream end - started of each row, seconds."""
    spans: Floats = rows["ended_s"] - rows["started_s"]
    return spans


def nearest_rank(values: Floats, q: float) -> float | None:
    """The smallest value with at least q · n values at or below it; None when there is none. NaN is left out."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, q, method="inverted_cdf")) if len(known) else None


def quantiles(values: Floats) -> Quantiles:
    """p50, p95 and p99 of the values that are not absent."""
    known = values[~np.isnan(values)]
    return Quantiles(nearest_rank(known, 0.5), nearest_rank(known, 0.95), nearest_rank(known, 0.99), len(known))


def throughput(rows: NDArray[Any], seconds: Seconds, edges: Floats) -> tuple[Floats, str]:
    """X in each batch and its unit.

    What arrived in the seconds, less the tokens of requests that failed (taken to have come evenly from their first to
    their last event); without any token, the requests that succeeded.
    """
    arrived = seconds.tokens(edges)
    length_s = np.diff(edges)
    if not np.any(arrived > 0):
        success = rows[rows["fate"] == Fate.SUCCESS]
        return sums(success["ended_s"], np.ones(len(success)), edges) / length_s, "req/s"
    lost = rows[(rows["fate"] != Fate.SUCCESS) & (rows["tokens"] > 0) & ~np.isnan(rows["first_s"])]
    for row in lost:
        first_s, span_s = row["first_s"], max(row["last_s"] - row["first_s"], 1e-6)
        shares = np.clip((edges - first_s) / span_s, 0.0, 1.0)
        arrived = arrived - row["tokens"] * np.diff(shares)
    return np.maximum(arrived, 0.0) / length_s, "tok/s"


def _decoding(success: NDArray[Any], rates: Floats | None, edges: Floats) -> tuple[Estimate | None, Estimate | None]:
    """(TPOT in ms, D) from batch sums; (None, None) when no answer tells its TPOT."""
    known = success[~np.isnan(success["decode_tokens"])]
    time_ms = sums(known["ended_s"], known["decode_ms"], edges)
    tokens = sums(known["ended_s"], known["decode_tokens"], edges)
    tpot_ms = ratio_estimate(time_ms, tokens)
    x = estimate(rates) if rates is not None else None
    if tpot_ms is None or x is None:
        return tpot_ms, None
    value = x.value * tpot_ms.value / 1e3
    # Where throughput and TPOT vary together (they do, in one engine) this is too large rather than too small.
    return tpot_ms, Estimate(value, value * (x.ln_error + tpot_ms.ln_error))


def _interval(
    rows: NDArray[Any], seconds: Seconds, begin_s: float, end_s: float, p95_s: float | None
) -> Interval | NoInterval:
    edges = interval_edges(begin_s, end_s, p95_s)
    return edges if isinstance(edges, NoInterval) else mean_interval(throughput(rows, seconds, edges)[0])


def _little(rows: NDArray[Any], in_flight: Estimate | None, length_s: float) -> float | None:
    """L / (ends per second · mean residence) over all outcomes."""
    product = float(np.sum(residences(rows))) / length_s
    return in_flight.value / product if in_flight is not None and product > 0 else None


def _attainment(rows: NDArray[Any], begin_s: float, end_s: float, p95_s: float | None) -> Attainment | None:
    """SLO attainment; None when no row was judged. A cancelled one counts only if it had already missed."""
    judged = rows[(rows["met"] >= 0) & ((rows["fate"] != Fate.CANCELLED) | (rows["met"] == 0))]
    if not len(judged):
        return None
    share = float(np.mean(judged["met"]))
    edges = interval_edges(begin_s, end_s, p95_s)
    if isinstance(edges, NoInterval):
        return Attainment(share, None, edges.reason)
    met = sums(judged["ended_s"], judged["met"].astype(np.float64), edges)
    mean = ratio_estimate(met, sums(judged["ended_s"], np.ones(len(judged)), edges))
    assert mean is not None
    low = share - student_t(0.95, len(edges) - 2) * mean.error
    if share == 1.0:  # no miss among n says only that misses are rarer than 3 / n (the rule of three)
        low = 1.0 - 3.0 / len(judged)
    return Attainment(share, max(0.0, low))
