"""The figures of a window: arrays in, StepResult out."""

from __future__ import annotations

import numpy as np
import pytest

from locust_llm.analysis.intervals import NoInterval
from locust_llm.analysis.outcomes import Ended, Fate, Outcomes
from locust_llm.analysis.seconds import Seconds
from locust_llm.analysis.step import Asked, Status, StepResult
from locust_llm.analysis.window import nearest_rank, step_result, throughput
from tests.analysis.build import NAN, done, failed, step


def steady(seconds: int, users: int = 2, tokens_s: float = 100.0, in_flight: float | None = None) -> Seconds:
    told = Seconds()
    for at in range(seconds):
        told.add(float(at), tokens_s, in_flight if in_flight is not None else float(users), float(users))
    return told


def table(*rows: Ended) -> Outcomes:
    outcomes = Outcomes()
    outcomes.extend(rows)
    return outcomes


def two_users(seconds: int, **more: object) -> list[Ended]:
    """Each has a request of 50 tokens every second."""
    return [done(user, at, at + 1.0, tokens=50.0, **more) for at in range(seconds) for user in (0, 1)]  # type: ignore[arg-type]


def measured(rows: list[Ended], told: Seconds, begin_s: float, end_s: float) -> StepResult:
    return step_result(Asked(2.0), table(*rows), told, begin_s, end_s)


def test_a_plain_window() -> None:
    result = measured(two_users(20), steady(20), 4.0, 20.0)
    assert result.throughput is not None
    assert result.in_flight is not None
    assert result.tpot_ms is not None
    assert result.decoding is not None
    assert (result.throughput.value, result.throughput.error, result.unit) == (100.0, 0.0, "tok/s")
    assert (result.users, result.outcomes, result.succeeded, result.requests_per_s) == (2.0, 32, 32, 2.0)
    assert result.in_flight.value == 2.0
    assert result.little == pytest.approx(1.0)
    assert result.little_holds
    assert result.tpot_ms.value == pytest.approx(950 / 49)
    assert result.decoding.value == pytest.approx(100 * 0.95 / 49)
    assert (result.residence_s, result.p95_residence_s) == (1.0, 1.0)
    assert (result.ttft.p50, result.ttft.p99, result.ttft.n) == (50.0, 50.0, 32)
    assert result.ttft.few(0.99)
    assert not result.ttft.few(0.5)
    assert result.power == 5000.0
    assert result.seconds_per_unit == 0.02
    assert len(result.batches) == 16


def test_what_ends_outside_does_not_count() -> None:
    rows = [*two_users(20), failed(0, 0.0, 4.0), failed(0, 3.0, 20.5)]
    assert measured(rows, steady(21), 4.0, 20.0).failed == 0
    assert measured(rows, steady(21), 3.9, 20.0).failed == 1


def test_tokens_of_failed_requests_are_not_throughput() -> None:
    """A third user's request breaks off after 40 tokens between 5 s and 9 s; 20 of them lie in the window."""
    broken = failed(2, 4.5, 9.0, first_s=5.0, last_s=9.0, tokens=40.0)
    told = Seconds()
    for at in range(20):
        told.add(float(at), 110.0 if 5 <= at < 9 else 100.0, 2.0, 3.0)
    result = measured([*two_users(20), broken], told, 7.0, 20.0)
    assert result.throughput is not None
    assert result.throughput.value == pytest.approx(100.0)
    assert result.failed == 1


def test_without_streams_requests_are_the_unit() -> None:
    rows = two_users(20, decode_ms=NAN, decode_tokens=NAN, tpot_ms=NAN, ttft_ms=50.0)
    result = measured(rows, steady(20, tokens_s=0.0), 4.0, 20.0)
    assert result.throughput is not None
    assert (result.throughput.value, result.unit, result.decoding, result.tpot_ms) == (2.0, "req/s", None, None)


def test_refusals_failures_and_cancellations_are_told_apart() -> None:
    rows = [
        *two_users(10),
        *[failed(0, 5.0, 5.01, Fate.REFUSED, "HTTP 429")] * 3,
        failed(0, 5.0, 6.0, error="timeout"),
        failed(0, 5.0, 6.0, Fate.CANCELLED),
    ]
    result = measured(rows, steady(10), 0.0, 10.0)
    assert (result.outcomes, result.succeeded, result.failed, result.refused, result.cancelled) == (24, 20, 4, 3, 1)
    assert result.errors == {"HTTP 429": 3, "timeout": 1}
    assert result.refused_share == 0.125
    assert result.residence_s == 1.0, "the residence of refusals says nothing of a batch's length"


def test_nothing_ended() -> None:
    result = measured([], steady(5, tokens_s=0.0), 0.0, 5.0)
    assert (result.outcomes, result.residence_s, result.ttft.p50, result.little) == (0, None, None, None)
    assert (result.power, result.seconds_per_unit, result.attainment) == (0.0, None, None)
    assert isinstance(result.interval, NoInterval)


def test_littles_check_sees_requests_that_are_not_told() -> None:
    result = measured(two_users(40)[::2], steady(40), 4.0, 40.0)
    assert result.little == pytest.approx(2.0)
    assert result.little_holds is False
    assert measured(two_users(20)[::2], steady(20), 4.0, 20.0).little_holds is None, "too few to tell"


def test_an_interval_needs_ten_batches_of_twice_the_p95_residence() -> None:
    random = np.random.default_rng(1)
    told = Seconds()
    for at in range(40):
        told.add(float(at), float(100 + random.normal(0, 5)), 2.0, 2.0)
    short, long = (measured(two_users(40), told, 0.0, end_s).interval for end_s in (19.0, 40.0))
    assert isinstance(short, NoInterval)
    assert "20 s of steady load, not 19 s" in short.reason
    assert not isinstance(long, NoInterval)
    assert long.low < 100 < long.high
    assert (long.batches, long.label) == (20, "within this run")


# id, how many of 80 requests meet the SLOs, share, lower bound at most
ATTAINED = [
    ("all", 80, 1.0, 1 - 3 / 80),
    ("most", 76, 0.95, 0.95),
    ("none", 0, 0.0, 0.0),
]


@pytest.mark.parametrize(("meeting", "share", "most"), [c[1:] for c in ATTAINED], ids=[c[0] for c in ATTAINED])
def test_attainment(meeting: int, share: float, most: float) -> None:
    rows = [row._replace(met=int(i < meeting)) for i, row in enumerate(two_users(40))]
    found = measured(rows, steady(40), 0.0, 40.0).attainment
    assert found is not None
    assert found.low is not None
    assert found.share == share
    assert 0 <= found.low <= most


def test_attainment_without_enough_batches_has_no_bound() -> None:
    rows = [row._replace(met=1) for row in two_users(10)]
    found = measured(rows, steady(10), 0.0, 10.0).attainment
    assert found is not None
    assert (found.share, found.low) == (1.0, None)
    assert "needs 10 batches" in (found.why or "")


def test_a_cancelled_request_counts_only_when_it_had_missed() -> None:
    rows = [row._replace(met=1) for row in two_users(10)]
    rows += [failed(0, 1.0, 2.0, Fate.CANCELLED, met=1), failed(0, 1.0, 2.0, Fate.CANCELLED, met=0)]
    found = measured(rows, steady(10), 0.0, 10.0).attainment
    assert found is not None
    assert found.share == pytest.approx(20 / 21)


def test_the_status_and_why_are_the_callers() -> None:
    asked = Asked(8.0, Status.CLIENT_LIMITED, "97 % of a core", output_factor=2.0)
    result = step_result(asked, table(*two_users(10)), steady(10), 0.0, 10.0)
    assert (result.load, result.status, result.why, result.output_factor) == (8.0, asked.status, asked.why, 2.0)


def test_throughput_is_never_negative() -> None:
    broken = failed(0, 0.0, 4.0, first_s=0.0, last_s=4.0, tokens=400.0)
    rates, _ = throughput(table(broken).rows, steady(4, tokens_s=10.0), np.array([0.0, 2.0, 4.0]))
    assert rates.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("q", "expected"), [(0.5, 2.0), (0.75, 3.0), (0.76, 4.0), (0.99, 4.0)])
def test_nearest_rank(q: float, expected: float) -> None:
    assert nearest_rank(np.array([4.0, NAN, 1.0, 3.0, 2.0]), q) == expected
    assert nearest_rank(np.array([NAN]), q) is None


def test_one_look_between_two_requests_does_not_break_little_s_law() -> None:
    """One user, eight looks, one of them at nothing: L is 0.88. Of a hundred users it would be a finding."""
    told = {"little": 0.88, "end_s": 8.0, "p95_residence_s": 0.1, "outcomes": 80}
    assert step(1.0, 200.0, in_flight=0.88, **told).little_holds
    assert step(100.0, 200.0, in_flight=88.0, **told).little_holds is False
