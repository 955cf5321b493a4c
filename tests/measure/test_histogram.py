"""Histogram: error bound, nearest rank, merge, travel."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.measure.histogram import Histogram

ERROR = 0.001
QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)

values = st.one_of(st.just(0.0), st.floats(1e-6, 1e9), st.integers(0, 50).map(float), st.floats(10.0, 10.5))
samples = st.lists(values, min_size=1, max_size=300)


def histogram(numbers: list[float]) -> Histogram:
    result = Histogram()
    for number in numbers:
        result.add(number)
    return result


def nearest_rank(numbers: list[float], q: float) -> float:
    """The definition itself: the smallest value v with at least q·n samples ≤ v."""
    ordered = sorted(numbers)
    for position, value in enumerate(ordered, start=1):
        if position >= q * len(ordered) * (1 - 1e-12):
            return value
    return ordered[-1]


def same(a: Histogram, b: Histogram) -> bool:
    """Equal but for the sum, whose last digits depend on the order of adding."""
    left, right = a.to_dict(), b.to_dict()
    return math.isclose(left.pop("sum"), right.pop("sum"), rel_tol=1e-9, abs_tol=1e-12) and left == right


@settings(deadline=None)
@given(samples, st.sampled_from(QUANTILES))
def test_percentile_is_the_nearest_rank_within_its_error(numbers: list[float], q: float) -> None:
    found = histogram(numbers).percentile(q)
    assert found is not None
    assert found == pytest.approx(nearest_rank(numbers, q), rel=ERROR, abs=0)
    assert min(numbers) <= found <= max(numbers)


@settings(deadline=None)
@given(samples)
def test_percentiles_rise_with_q(numbers: list[float]) -> None:
    found = [histogram(numbers).percentile(q) for q in QUANTILES]
    assert found == sorted(found, key=lambda value: -1.0 if value is None else value)


@settings(deadline=None)
@given(samples)
def test_count_sum_smallest_and_largest_are_exact(numbers: list[float]) -> None:
    found = histogram(numbers)
    assert (found.count, found.min, found.max) == (len(numbers), min(numbers), max(numbers))
    assert found.sum == pytest.approx(math.fsum(numbers), rel=1e-12)
    assert found.mean == pytest.approx(math.fsum(numbers) / len(numbers), rel=1e-12)


@settings(deadline=None)
@given(st.lists(samples, max_size=5))
def test_merging_equals_adding_everything(parts: list[list[float]]) -> None:
    everything = histogram([number for part in parts for number in part])
    assert same(Histogram.merged(histogram(part) for part in parts), everything)
    packed = Histogram()
    for part in reversed(parts):
        packed.merge_packed(msgpack.unpackb(msgpack.packb(histogram(part).pack())))
    assert same(packed, everything)


@settings(deadline=None)
@given(samples)
def test_a_histogram_survives_json(numbers: list[float]) -> None:
    whole = histogram(numbers)
    assert same(Histogram.from_dict(json.loads(json.dumps(whole.to_dict()))), whole)


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=50), st.integers(1, 4))
def test_many_at_once_equal_one_by_one(numbers: list[float], times: int) -> None:
    at_once = Histogram()
    weighted = Histogram()
    at_once.add_many(np.array(numbers * times))
    weighted.add_weighted(np.array(numbers), np.full(len(numbers), times))
    assert same(at_once, histogram(numbers * times))
    assert same(weighted, at_once)


def test_far_more_samples_than_wait_in_the_buffer() -> None:
    numbers = np.random.default_rng(7).lognormal(3, 1, 50_000)
    found = Histogram()
    for part in np.array_split(numbers, 37):
        found.add_many(part)
    ordered = np.sort(numbers)
    for q in (0.5, 0.9, 0.99, 0.999):
        assert found.percentile(q) == pytest.approx(ordered[math.ceil(q * len(ordered)) - 1], rel=ERROR)
    assert found.count == 50_000
    assert sum(count for _, count in found.buckets()) == 50_000


@pytest.mark.parametrize(
    ("numbers", "q", "expected"),
    [
        pytest.param([0.4, 0.5, 0.6, 1.5, 2.5], 0.5, 0.6, id="D67-sub-ms"),
        pytest.param([15501.0], 1.0, 15501.0, id="D67-not-above-the-largest"),
        pytest.param([10.0, 90.0], 0.5, 10.0, id="D67-two"),
        pytest.param([float(i) for i in range(1, 101)], 0.5, 50.0, id="D67-hundred-p50"),
        pytest.param([float(i) for i in range(1, 101)], 0.99, 99.0, id="D67-hundred-p99"),
        pytest.param([float(i) for i in range(1, 101)], 0.07, 7.0, id="rank-is-not-spoiled-by-the-float-0.07"),
        pytest.param([100.0] * 100 + [1000.0] * 100, 0.99, 1000.0, id="D30"),
        pytest.param([100.0] * 100 + [1000.0] * 100, 0.5, 100.0, id="D30-p50"),
        pytest.param([0.0, 0.0, 5.0], 0.5, 0.0, id="zeros-stay-zero"),
        pytest.param([-0.0, 3.0], 0.5, 0.0, id="minus-zero-is-zero"),
    ],
)
def test_known_percentiles(numbers: list[float], q: float, expected: float) -> None:
    assert histogram(numbers).percentile(q) == pytest.approx(expected, rel=ERROR, abs=0)


@pytest.mark.parametrize(
    ("good", "infinite", "q", "expected"),
    [
        pytest.param([1.0] * 11, 9, 0.5, 1.0, id="D22-inside-the-successes"),
        pytest.param([1.0] * 11, 9, 0.55, 1.0, id="D22-the-last-success"),
        pytest.param([1.0] * 11, 9, 0.6, math.inf, id="D22-among-the-failures"),
        pytest.param([], 5, 0.5, math.inf, id="all-failed"),
        pytest.param([], 0, 0.5, None, id="nothing"),
        pytest.param([1.0, 2.0], 0, 1.0, 2.0, id="no-failure"),
    ],
)
def test_failures_as_infinity(good: list[float], infinite: int, q: float, expected: float | None) -> None:
    assert histogram(good).percentile_with(infinite, q) == expected


@pytest.mark.parametrize("bad", [-1e-9, -1.0, math.nan, math.inf, -math.inf, 1.1e9])
def test_what_is_no_sample_is_refused_and_leaves_no_trace(bad: float) -> None:
    found = Histogram()
    with pytest.raises(ValueError, match="sample"):
        found.add(bad)
    with pytest.raises(ValueError, match="sample"):
        found.add_many(np.array([1.0, bad, 2.0]))
    assert found.count == 0


@pytest.mark.parametrize("read", ["min", "max", "mean", "percentile"])
def test_an_empty_histogram_has_no_values(read: str) -> None:
    found: Any = getattr(Histogram(), read)
    assert (found(0.5) if callable(found) else found) is None


@pytest.mark.parametrize(
    ("limit", "expected"), [(0.0, 4), (5.0, 3), (50.0, 2), (51.0, 1), (1000.0, 1), (1000.1, 0)], ids=str
)
def test_count_at_least(limit: float, expected: int) -> None:
    assert histogram([0.0, 5.0, 50.0, 1000.0]).count_at_least(limit) == expected


@pytest.mark.parametrize("count", [1, 8, 9, 300, 70_000])
def test_counts_of_any_width_travel(count: int) -> None:
    whole = Histogram()
    whole.add_many(np.full(count, 20.0))
    whole.add_many(np.array([0.0, 1e9, 1e-6]))
    other = Histogram()
    other.merge_packed(whole.pack())
    assert same(other, whole)
