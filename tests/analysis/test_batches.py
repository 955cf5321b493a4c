"""Batches: borders, sums, estimates with their errors, Student's t."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_llm.analysis.batches import Estimate, batch_edges, estimate, ratio_estimate, student_t, sums

# p, degrees of freedom, value of the printed tables
TABLE = [
    (0.975, 1, 12.706),
    (0.975, 2, 4.3027),
    (0.975, 3, 3.1824),
    (0.975, 5, 2.5706),
    (0.975, 7, 2.3646),
    (0.975, 15, 2.1314),
    (0.95, 9, 1.8331),
    (0.95, 19, 1.7291),
]


@pytest.mark.parametrize(("p", "dof", "expected"), TABLE)
def test_students_t(p: float, dof: int, expected: float) -> None:
    assert student_t(p, dof) == pytest.approx(expected, rel=2e-3)


# id, begin, end, least length, most, edges
EDGES = [
    ("as many as fit", 0.0, 10.0, 2.5, 16, [0.0, 2.5, 5.0, 7.5, 10.0]),
    ("a remainder stretches them", 0.0, 11.0, 2.5, 16, [0.0, 2.75, 5.5, 8.25, 11.0]),
    ("no more than the most", 0.0, 8.0, 0.1, 4, [0.0, 2.0, 4.0, 6.0, 8.0]),
    ("at least one", 3.0, 4.0, 9.0, 4, [3.0, 4.0]),
    ("no least length", 0.0, 4.0, 0.0, 2, [0.0, 2.0, 4.0]),
]


@pytest.mark.parametrize(
    ("begin", "end", "least", "most", "expected"), [c[1:] for c in EDGES], ids=[c[0] for c in EDGES]
)
def test_edges(begin: float, end: float, least: float, most: int, expected: list[float]) -> None:
    assert batch_edges(begin, end, least, most).tolist() == expected


def test_a_value_on_a_border_belongs_to_the_batch_it_ends() -> None:
    at_s = np.array([0.0, 1.0, 1.5, 2.0, 2.5])
    assert sums(at_s, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0.0, 1.0, 2.0])).tolist() == [2.0, 12.0]


def test_an_estimate_needs_two_batches() -> None:
    assert estimate(np.array([5.0])) is None
    assert estimate(np.array([4.0, 6.0])) == Estimate(5.0, 1.0)
    assert Estimate(5.0, 1.0).ln_error == 0.2
    assert Estimate(0.0, 0.0).ln_error == 0.0


def test_a_ratio_weighs_batches_by_their_size() -> None:
    found = ratio_estimate(np.array([10.0, 30.0]), np.array([1.0, 3.0]))
    assert found == Estimate(10.0, 0.0)
    assert ratio_estimate(np.array([1.0, 1.0]), np.array([0.0, 0.0])) is None


def test_the_standard_error_of_a_ratio_is_right() -> None:
    """Against the scatter of 400 repeats of 12 batches with a random number of samples each."""
    random = np.random.default_rng(3)
    values, errors = [], []
    for _ in range(400):
        counts = random.poisson(20, 12).astype(np.float64)
        found = ratio_estimate(np.array([random.normal(5.0, 2.0, int(n)).sum() for n in counts]), counts)
        assert found is not None
        values.append(found.value)
        errors.append(found.error)
    assert float(np.mean(values)) == pytest.approx(5.0, abs=0.02)
    assert math.sqrt(float(np.mean(np.square(errors)))) == pytest.approx(float(np.std(values)), rel=0.1)
