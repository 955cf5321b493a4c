"""Summary: the rows that tables, files and reports show, one per distribution of the catalogue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from locust_llm.measure.catalogue import DISTRIBUTIONS, Distribution

if TYPE_CHECKING:
    from locust_llm.measure.counts import Counts
    from locust_llm.measure.stats import RunStats

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)

ENOUGH: Final = {0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
"""Samples below which a percentile is marked as resting on too few.

Where they come from: with n independent samples the largest one lies above the true percentile with probability
1 - q^n; these are the smallest n for which that is at least 97.5 %. With fewer, the percentile may lie above all seen.
"""


@dataclass(frozen=True, slots=True)
class Quantile:
    """One percentile. `q` in 0 … 1.

    `with_failures` is the same with failed requests as +∞; None and `beyond` when that rank falls among the failures,
    so that all that can be said is "above every success". `few`: it rests on too few samples to be trusted.
    """

    q: float
    value: float | None
    with_failures: float | None
    beyond: bool
    few: bool


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One distribution of one request name (None: of all). All values are None when there are no samples."""

    name: str | None
    metric: Distribution
    n: int
    mean: float | None
    min: float | None
    max: float | None
    quantiles: tuple[Quantile, ...]

    def at(self, q: float) -> Quantile:
        """The quantile `q`, one of QUANTILES; raises KeyError for another."""
        for quantile in self.quantiles:
            if quantile.q == q:
                return quantile
        raise KeyError(q)


def too_few(q: float, n: int) -> bool:
    """Whether n samples are too few for the percentile q (0 … 1) to mean something."""
    return n < ENOUGH.get(q, math.ceil(math.log(0.025) / math.log(max(q, 1 - q)) - 1e-9))


def summary(stats: RunStats, name: str | None = None) -> list[SummaryRow]:
    """A row for each distribution, in the catalogue's order, of one name or of all requests."""
    counts = stats.counts(name)
    return [_row(stats, metric, name, counts) for metric in DISTRIBUTIONS]


def summary_row(stats: RunStats, metric: Distribution, name: str | None = None) -> SummaryRow:
    """The row of one distribution."""
    return _row(stats, metric, name, stats.counts(name))


def _row(stats: RunStats, metric: Distribution, name: str | None, counts: Counts) -> SummaryRow:
    histogram = stats.histogram(metric.key, name)
    infinite = infinite_samples(counts, metric, histogram.count)
    quantiles = []
    for q in QUANTILES:
        value = histogram.percentile(q)
        worst = (histogram.percentile_with(infinite, q) if infinite else value) if metric.judged else None
        beyond = worst == math.inf
        quantiles.append(Quantile(q, value, None if beyond else worst, beyond, too_few(q, histogram.count)))
    return SummaryRow(name, metric, histogram.count, histogram.mean, histogram.min, histogram.max, tuple(quantiles))


def infinite_samples(counts: Counts, metric: Distribution, samples: int) -> int:
    """How many samples of +∞ the failed requests are worth: one each, or a success's usual number when pooled."""
    if not metric.pooled or counts.succeeded == 0:
        return counts.failed
    return round(counts.failed * samples / counts.succeeded)
