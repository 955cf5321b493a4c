"""Arrival processes: rates, spread, stripes, ramps and files."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from locust_llm.workload.arrivals import ArrivalsError, arrivals, from_file, ramped, stripe


def first(count: int, offsets: itertools.chain[float] | object) -> np.ndarray:
    return np.array(list(itertools.islice(offsets, count)))  # type: ignore[call-overload]


def test_constant_arrivals_do_not_drift() -> None:
    offsets = first(100_000, arrivals("constant", 3.0))
    assert offsets[-1] == pytest.approx(100_000 / 3, abs=1e-9)
    assert np.diff(offsets) == pytest.approx(1 / 3, abs=1e-8)


@pytest.mark.parametrize(
    ("kind", "burstiness", "squared_variation"), [("poisson", 1.0, 1.0), ("gamma", 0.25, 4.0), ("gamma", 4.0, 0.25)]
)
def test_random_gaps_have_the_mean_and_spread_asked_for(kind: str, burstiness: float, squared_variation: float) -> None:
    gaps = np.diff(first(200_000, arrivals(kind, 50.0, burstiness=burstiness, seed=1)))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(squared_variation, rel=0.05)


def test_poisson_gaps_pass_a_kolmogorov_smirnov_test() -> None:
    gaps = np.sort(np.diff(first(20_000, arrivals("poisson", 8.0, seed="ks"))))
    cumulative = 1 - np.exp(-8.0 * gaps)
    ranks = np.arange(1, len(gaps) + 1) / len(gaps)
    distance = max(np.max(ranks - cumulative), np.max(cumulative - ranks + 1 / len(gaps)))
    assert distance < 1.63 / math.sqrt(len(gaps))  # the 1 % critical value


@pytest.mark.parametrize("kind", ["constant", "poisson", "gamma"])
@pytest.mark.parametrize("workers", [1, 3, 7])
def test_stripes_of_all_workers_are_the_whole_process(kind: str, workers: int) -> None:
    whole = first(700, arrivals(kind, 10.0, seed="run"))
    shares = [first(700 // workers, stripe(arrivals(kind, 10.0, seed="run"), k, workers)) for k in range(workers)]
    assert np.sort(np.concatenate(shares)) == pytest.approx(whole[: 700 // workers * workers])


def test_another_seed_is_another_process() -> None:
    assert first(5, arrivals("poisson", 1.0, seed="a")) != pytest.approx(first(5, arrivals("poisson", 1.0, seed="b")))


@pytest.mark.parametrize(
    ("begin", "end", "counts"), [(0.0, 100.0, (125, 375)), (50.0, 50.0, (250, 250)), (100.0, 0.001, (375, 125))]
)
def test_a_ramp_has_the_area_under_its_rate(begin: float, end: float, counts: tuple[int, int]) -> None:
    """From 0 to 100 per second in 10 s: 125 arrivals in the first half, 375 in the second."""
    offsets = np.array(
        list(itertools.takewhile(lambda at: at < 10, ramped(arrivals("constant", 1.0), begin, end, 10.0)))
    )
    found = (np.count_nonzero(offsets < 5), np.count_nonzero(offsets >= 5))
    assert found == pytest.approx(counts, abs=1)
    assert np.all(np.diff(offsets) > 0)


def test_after_a_ramp_the_rate_stays() -> None:
    offsets = first(3000, ramped(arrivals("constant", 1.0), 10.0, 100.0, 10.0))
    assert np.diff(offsets[offsets > 10.1]) == pytest.approx(0.01, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "rate", "burstiness", "says"),
    [
        ("constant", 0.0, 1.0, "must be above 0 requests per second"),
        ("poisson", -1.0, 1.0, "must be above 0 requests per second"),
        ("constant", math.inf, 1.0, "must be above 0 requests per second"),
        ("gamma", 1.0, 0.0, "burstiness must be above 0"),
        ("weibull", 1.0, 1.0, "arrivals are constant, poisson, gamma, not 'weibull'"),
    ],
)
def test_what_cannot_be_made_is_said(kind: str, rate: float, burstiness: float, says: str) -> None:
    with pytest.raises(ArrivalsError, match=says):
        next(arrivals(kind, rate, burstiness=burstiness))


def test_a_file_of_times_starts_at_zero_and_is_sorted(tmp_path: Path) -> None:
    path = tmp_path / "times.txt"
    path.write_text("# a trace\n12.5\n10\n\n11.25 # late\n")
    assert from_file(str(path)) == [0.0, 1.25, 2.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [("1\ntwo\n", "line 2: 'two' is not a number"), ("# nothing\n", "holds no time"), ("nan\n", "line 1: 'nan'")],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "times.txt"
    path.write_text(text)
    with pytest.raises(ArrivalsError, match=says):
        from_file(str(path))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArrivalsError, match="No such file"):
        from_file(str(tmp_path / "none.txt"))
