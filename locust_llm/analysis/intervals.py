"""Confidence intervals within one run: from time batches, or not at all.

An interval needs at least 10 batches, each at least twice the p95 residence long; otherwise there is none, and the
reason is told. It covers the scatter within this run only: the next run may differ by more (caches, clocks,
neighbours), which only repeats show: `between_runs`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import batch_edges, estimate, student_t

Floats = NDArray[np.float64]

MIN_BATCHES: Final = 10
MAX_BATCHES: Final = 20
RESIDENCES: Final = 2.0
"""A batch's least length in p95 residences."""

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval. `batches`: what it rests on, time batches or runs. `label` says what it covers."""

    low: float
    high: float
    batches: int
    label: str = "within this run"


@dataclass(frozen=True, slots=True)
class NoInterval:
    """Why there is no interval, as a sentence."""

    reason: str


def interval_edges(begin_s: float, end_s: float, p95_residence_s: float | None) -> Floats | NoInterval:
    """The batches of a window that an interval may rest on."""
    if p95_residence_s is None:
        return NoInterval("no request ended in the window")
    least_s = RESIDENCES * p95_residence_s
    edges = batch_edges(begin_s, end_s, least_s, MAX_BATCHES)
    if len(edges) - 1 < MIN_BATCHES:
        needed_s = MIN_BATCHES * least_s
        return NoInterval(
            f"an interval needs {MIN_BATCHES} batches of twice the p95 residence: {needed_s:.3g} s of steady load, "
            f"not {end_s - begin_s:.3g} s"
        )
    return edges


def mean_interval(means: Floats) -> Interval | NoInterval:
    """Interval of a mean from its batch means, by Student's t."""
    if len(means) < MIN_BATCHES:
        return NoInterval(f"an interval needs {MIN_BATCHES} batches, not {len(means)}")
    mean = estimate(means)
    assert mean is not None
    half = student_t((1 + CONFIDENCE) / 2, len(means) - 1) * mean.error
    return Interval(mean.value - half, mean.value + half, len(means))


def between_runs(values: Sequence[float]) -> Interval | NoInterval:
    """Interval of a positive figure (a knee, a rate) from repeated runs, on the logarithmic scale: *the* uncertainty.

    Three runs or more; runs that found none must not be left out silently by the caller.
    """
    if len(values) < 3:
        return NoInterval(f"an interval between runs needs 3 runs or more, not {len(values)}")
    logs = estimate(np.log(np.array(values, dtype=np.float64)))
    assert logs is not None
    half = student_t((1 + CONFIDENCE) / 2, len(values) - 1) * logs.error
    return Interval(math.exp(logs.value - half), math.exp(logs.value + half), len(values), "between runs")
