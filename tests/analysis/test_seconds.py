"""Seconds: sums and means over any stretch of time."""

from __future__ import annotations

import numpy as np
import pytest

from locust_llm.analysis.seconds import Seconds


def told() -> Seconds:
    seconds = Seconds()
    for at, (tokens, in_flight, users) in enumerate([(10.0, 1.0, 2.0), (20.0, 3.0, 2.0), (40.0, 3.0, 4.0)]):
        seconds.add(100.0 + at, tokens, in_flight, users)
    return seconds


# edges, tokens between them: within a second they arrive evenly, outside nothing came
STRETCHES = [
    ([100.0, 101.0, 103.0], [10.0, 60.0]),
    ([100.5, 101.5], [15.0]),
    ([101.0, 101.25, 101.5], [5.0, 5.0]),
    ([102.5, 110.0], [20.0]),
]


@pytest.mark.parametrize(("edges", "expected"), STRETCHES)
def test_tokens_between(edges: list[float], expected: list[float]) -> None:
    assert told().tokens(np.array(edges)).tolist() == pytest.approx(expected)


def test_means() -> None:
    seconds = told()
    assert seconds.mean_in_flight(np.array([100.0, 102.0, 103.0])).tolist() == [2.0, 3.0]
    assert seconds.mean_users(101.0, 103.0) == 3.0
    assert (seconds.begin_s, seconds.end_s, len(seconds)) == (100.0, 103.0, 3)


def test_nothing_told() -> None:
    assert (Seconds().begin_s, Seconds().end_s, len(Seconds())) == (None, None, 0)


@pytest.mark.parametrize("begin_s", [102.0, 104.0, 0.0])
def test_a_second_that_does_not_follow_is_refused(begin_s: float) -> None:
    with pytest.raises(ValueError, match="missing or came twice"):
        told().add(begin_s, 0.0, 0.0, 0.0)
