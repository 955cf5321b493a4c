"""Summary rows and the catalogue they follow."""

from __future__ import annotations

import pytest

from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS
from locust_llm.measure.record import Outcome
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import QUANTILES, summary, summary_row, too_few
from tests.measure.build import OFFSET, fed, record


@pytest.mark.parametrize(
    ("q", "enough"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688), (0.98, 183), (0.1, 36)]
)
def test_too_few(q: float, enough: int) -> None:
    assert too_few(q, enough - 1)
    assert not too_few(q, enough)


def test_a_row_for_every_distribution_also_of_an_empty_run() -> None:
    rows = summary(RunStats(OFFSET))
    assert [row.metric.key for row in rows] == [metric.key for metric in DISTRIBUTIONS]
    for row in rows:
        assert (row.n, row.mean, row.min, row.max) == (0, None, None, None)
        assert [quantile.value for quantile in row.quantiles] == [None] * len(QUANTILES)
        assert [quantile.with_failures for quantile in row.quantiles] == [None] * len(QUANTILES)


def test_half_the_load_refused_shows_beside_the_success_percentile() -> None:
    """A server that rejects half its load must not pass: from p50 on, percentiles with failures are beyond."""
    stats = fed(
        *(record((100, 120), n=2) for _ in range(100)),
        *(record((), outcome=Outcome.FAILED, error="HTTP 503") for _ in range(101)),
    )
    for key, value in (("ttft", 100.0), ("itl", 20.0)):
        row = summary_row(stats, BY_KEY[key])
        for q in QUANTILES:
            assert row.at(q).value == pytest.approx(value)
            assert row.at(q).with_failures is None
            assert row.at(q).beyond


def test_gaps_of_failed_requests_count_as_many_as_a_success_has() -> None:
    """90 successes of 10 gaps and 10 failures: 10 % of the mass is +∞, not 1 %."""
    stats = fed(
        *(record(tuple(range(100, 320, 20)), n=11) for _ in range(90)),
        *(record((), outcome=Outcome.FAILED) for _ in range(10)),
    )
    row = summary_row(stats, BY_KEY["itl"])
    assert row.n == 900
    assert not row.at(0.9).beyond
    assert row.at(0.95).beyond


def test_where_high_is_good_failures_are_not_infinite() -> None:
    stats = fed(record((100, 200), n=2), record((), outcome=Outcome.FAILED))
    assert summary_row(stats, BY_KEY["tps"]).at(0.99).with_failures is None
    assert not summary_row(stats, BY_KEY["tps"]).at(0.99).beyond


def test_cancelled_requests_are_neither_successes_nor_failures() -> None:
    stats = fed(record((100,), n=1), *(record((50,), outcome=Outcome.CANCELLED) for _ in range(9)))
    row = summary_row(stats, BY_KEY["ttft"])
    assert (row.n, row.at(0.99).with_failures) == (1, pytest.approx(100))


def test_an_unknown_quantile_is_an_error() -> None:
    with pytest.raises(KeyError):
        summary_row(RunStats(OFFSET), BY_KEY["ttft"]).at(0.42)


def test_the_catalogue_is_complete() -> None:
    assert len(BY_KEY) == len(DISTRIBUTIONS)
    for metric in DISTRIBUTIONS:
        assert metric.help.endswith(".")
        assert metric.title
        assert metric.unit
