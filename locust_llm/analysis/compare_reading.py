"""Readings: a figure of one run, and how far it is uncertain within that run, by bootstrap over its blocks of time.

Theory of operation. The requests of a run depend on each other, so blocks of time are drawn, not requests (Künsch, "The
jackknife and the bootstrap for general stationary observations", 1989): the steady part is cut into 10 to 20 batches
of at least twice the p95 residence, as for a gate's interval; as many are drawn with replacement; the figure of what
was drawn is taken; the scatter of 400 such figures is its standard error. Drawn batches scatter less than batches do,
by √((b − 1) / b), which is put right. The draws come from a fixed seed: the same document gives the same figures.

Ratios are compared on the logarithmic scale, shares (errors) as they are. A percentile that lies among the failures
counts as the longest success, a lower bound, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.compare_subject import FAILED_SHARE, GOODPUT_SHARE, Subject
from locust_llm.analysis.intervals import NoInterval
from locust_llm.analysis.run_intervals import batched, steady_edges, tokens_between
from locust_llm.measure.blocks import KEPT, Block
from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.gate import GOODPUT, OUTPUT_THROUGHPUT, REQUEST_THROUGHPUT
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import ENOUGH, infinite_samples, too_few

Floats = NDArray[np.float64]

DRAWS: Final = 400

FEWEST: Final = ENOUGH[0.5]
"""Outcomes below which a rate or share means nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure of one run. `value` is in its own unit, None when the run has none.

    `beyond`: the percentile lies among the failures, `value` is the longest success. `error`: the standard error within
    the run, of ln(value), or of a share itself; None where it cannot be told. `batches`: what it rests on. `weak`: why
    the value must not be judged.
    """

    value: float | None
    n: int
    beyond: bool = False
    error: float | None = None
    batches: int = 0
    weak: str | None = None


class RunReader:
    """Reads figures of one run.

    `steady`: the load did not change on purpose, so that its batches of time are alike; `settle_s`: but for so long
    after all users ran.
    """

    def __init__(self, stats: RunStats, *, steady: bool = True, settle_s: float = 0.0) -> None:
        self.stats = stats
        self._edges = self._cut(settle_s) if steady else None
        self._parts: dict[str | None, list[Block] | None] = {}
        self._tables: dict[tuple[str, str | None], tuple[Floats, Floats]] = {}

    def read(self, subject: Subject) -> Reading:
        """The figure."""
        return self._percentile(subject, subject.q) if subject.q is not None else self._figure(subject)

    # -- percentiles ---------------------------------------------------------------------------------------------

    def _percentile(self, subject: Subject, q: float) -> Reading:
        metric, counts = BY_KEY[subject.key], self.stats.counts(subject.name)
        whole = self.stats.histogram(subject.key, subject.name)
        if not whole.count:
            return Reading(None, 0, weak=f"no request has a {metric.title}")
        infinite = infinite_samples(counts, metric, whole.count) if metric.judged else 0
        value = whole.percentile_with(infinite, q)
        beyond = value == math.inf
        n = whole.count + infinite
        needed = f" ({ENOUGH[q]} needed)" if q in ENOUGH else ""
        weak = f"{n} samples are too few for {subject.title}{needed}" if too_few(q, n) else None
        each = whole.count / counts.succeeded if metric.pooled and counts.succeeded else float(metric.judged)
        error, batches = self._percentile_error(subject, q, each)
        return Reading(whole.max if beyond else value, n, beyond, error, batches, weak)

    def _percentile_error(self, subject: Subject, q: float, each: float) -> tuple[float | None, int]:
        parts = self._batches(subject.name)
        if parts is None or subject.key not in KEPT:
            return None, 0
        table = self._tables.get((subject.key, subject.name))
        if table is None:
            table = self._tables[subject.key, subject.name] = _table([part.histogram(subject.key) for part in parts])
        values, counts = table
        if not len(values):
            return None, 0
        drawn = _draws(len(parts)) @ counts
        infinite = _draws(len(parts)) @ np.array([each * part.failed for part in parts])
        ranks = np.maximum(1, np.ceil(q * (drawn.sum(axis=1) + infinite) - 1e-9))
        below = (np.cumsum(drawn, axis=1) < ranks[:, None]).sum(axis=1)
        return _log_error(values[np.minimum(below, len(values) - 1)], len(parts))

    # -- rates and shares ----------------------------------------------------------------------------------------

    def _figure(self, subject: Subject) -> Reading:
        value = subject.figure.of(self.stats, subject.name)
        counts = self.stats.counts(subject.name)
        n = counts.slo_judged if subject.key in (GOODPUT, GOODPUT_SHARE) else counts.outcomes
        if value is None:
            return Reading(None, n, weak=f"the run has no {subject.title.lower()}")
        weak = f"{n} outcomes are too few ({FEWEST} needed)" if n < FEWEST else None
        error, batches = self._figure_error(subject)
        if subject.is_share and n:
            error = max(error if error is not None else 0.0, _share_error(value, n))
        return Reading(float(value), n, False, error, batches, weak)

    def _figure_error(self, subject: Subject) -> tuple[float | None, int]:
        parts = self._batches(subject.name)
        if parts is None or self._edges is None:
            return None, 0
        weights = _draws(len(parts))
        if subject.key in _RATES:
            return _log_error(weights @ np.array(list(map(_RATES[subject.key], parts)), dtype=np.float64), len(parts))
        if subject.key == OUTPUT_THROUGHPUT and subject.name is None:
            return _log_error(weights @ tokens_between(self.stats, self._edges), len(parts))
        if subject.key not in _SHARES:
            return None, 0
        part, whole = (weights @ np.array(list(map(_SHARES[subject.key], parts)), dtype=np.float64)).T
        return (_scatter(part / whole, len(parts)), len(parts)) if whole.min() > 0 else (None, 0)

    # -- batches of time -----------------------------------------------------------------------------------------

    def _cut(self, settle_s: float) -> Floats | None:
        p95_ms = self.stats.histogram("residence").percentile(0.95)
        edges = steady_edges(self.stats, p95_ms / 1e3 if p95_ms is not None else None, settle_s)
        return None if isinstance(edges, NoInterval) else edges

    def _batches(self, name: str | None) -> list[Block] | None:
        if self._edges is None:
            return None
        if name not in self._parts:
            blocks = self.stats.blocks(name)
            self._parts[name] = batched(blocks, self._edges) if blocks is not None else None
        return self._parts[name]


_RATES: Final[dict[str, Callable[[Block], int]]] = {
    REQUEST_THROUGHPUT: lambda block: block.succeeded,
    GOODPUT: lambda block: block.met,
}
_SHARES: Final[dict[str, Callable[[Block], tuple[int, int]]]] = {
    FAILED_SHARE: lambda block: (block.failed, block.failed + block.succeeded),
    GOODPUT_SHARE: lambda block: (block.met, block.met + block.missed),
}


def _share_error(value: float, n: int) -> float:
    """The least error of a share of n outcomes, above 0 for none and all of them (Agresti & Coull's centre)."""
    centre = (value * n + 1) / (n + 2)
    return math.sqrt(centre * (1 - centre) / n)


@cache
def _draws(batches: int) -> Floats:
    """How often each batch is drawn, a row for each draw."""
    drawn = np.random.default_rng(batches).multinomial(batches, [1 / batches] * batches, size=DRAWS)
    return drawn.astype(np.float64)


def _table(parts: Sequence[Histogram]) -> tuple[Floats, Floats]:
    """(values, a row of counts for each part): the samples of all parts over the same buckets."""
    rows = [dict(part.buckets()) for part in parts]
    values = sorted(set().union(*rows))
    counts = np.array([[row.get(value, 0) for value in values] for row in rows], dtype=np.float64)
    return np.array(values, dtype=np.float64), counts


def _log_error(values: Floats, batches: int) -> tuple[float | None, int]:
    return (_scatter(np.log(values), batches), batches) if values.min() > 0 else (None, 0)


def _scatter(values: Floats, batches: int) -> float:
    return float(np.std(values, ddof=1)) * math.sqrt(batches / (batches - 1))
