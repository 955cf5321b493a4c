"""The fitted law: it finds its own parameters again, and the maximum of power where it is."""

from __future__ import annotations

import numpy as np
import pytest

from locust_llm.analysis.curve import Curve, fit, grid, peak

LOADS = np.array([1.0, 2.0, 4.0, 8.0, 11.0, 13.0, 16.0, 23.0, 32.0, 64.0])

# id, law, users at the maximum of power
LAWS = [
    ("slots: no contention, a kink", Curve(0.02, 1e-9, 800.0, 16.0, 0.0), 16.0),
    ("contention alone", Curve(0.012, 0.0005, 1e9, 4.0, 0.0), 24.0),
    ("a gentle bend", Curve(0.02, 1e-9, 600.0, 2.0, 0.0), 12.0),
    ("contention, then full", Curve(0.015, 0.0002, 900.0, 8.0, 0.0), 15.1),
]


@pytest.mark.parametrize(("law", "knee"), [case[1:] for case in LAWS], ids=[case[0] for case in LAWS])
def test_it_finds_the_law_again(law: Curve, knee: float) -> None:
    found = fit(LOADS, law.throughput(LOADS), np.full(len(LOADS), 0.01))
    assert found is not None
    assert found.misfit < 0.01
    assert found.throughput(LOADS) == pytest.approx(law.throughput(LOADS), rel=0.01)
    place = grid(1.0, 64.0)
    low, top, high = peak(place, found.power(place), 0.95)
    assert top == pytest.approx(knee, rel=0.05)
    assert low < top < high


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_the_knee_little(seed: int) -> None:
    law = LAWS[0][1]
    noise = np.random.default_rng(seed).normal(0.0, 0.01, len(LOADS))
    found = fit(LOADS, law.throughput(LOADS) * np.exp(noise), np.full(len(LOADS), 0.01))
    assert found is not None
    place = grid(1.0, 64.0)
    assert peak(place, found.power(place), 0.95)[1] == pytest.approx(16.0, rel=0.08)
    assert 2.0 <= found.p <= 16.0


def test_without_bound_nothing_is_full() -> None:
    found = fit(LOADS, LOADS * 50.0, np.full(len(LOADS), 0.01))
    assert found is not None
    assert found.throughput(np.array([64.0]))[0] == pytest.approx(3200.0, rel=0.01)


def test_it_needs_four_steps() -> None:
    assert fit(LOADS[:3], LOADS[:3], np.full(3, 0.01)) is None


def test_the_zone_is_the_stretch_around_the_maximum() -> None:
    users = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    power = np.array([9.8, 5.0, 9.7, 10.0, 9.6, 1.0])
    assert peak(users, power, 0.95) == (3.0, 4.0, 5.0)
    assert peak(users, users, 0.95) == (6.0, 6.0, 6.0)
