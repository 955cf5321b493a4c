"""Repeats: the interval between runs, the run in the middle, runs that found nothing."""

from __future__ import annotations

import pytest

from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.rate import RateKind, RateVerdict
from locust_llm.analysis.repeats import together
from locust_llm.analysis.verdict import Verdict, VerdictKind


def knee(users: float) -> Verdict:
    return Verdict(VerdictKind.KNEE, f"Knee at {users:g} users.", knee=users)


NONE = Verdict(VerdictKind.ABOVE, "No knee up to 64 users.")


def test_three_runs() -> None:
    """By hand: ln 8, 10, 12.5 = 2.0794, 2.3026, 2.5257; s.e. 0.1288; t(0.975, 2) = 4.303: 10 · exp(± 0.5544)."""
    verdict = together([knee(8.0), knee(12.5), knee(10.0)], 3)
    assert verdict.knee == 10.0
    assert verdict.complete
    assert verdict.repeats is not None
    assert verdict.repeats.values == (8.0, 12.5, 10.0)
    interval = verdict.repeats.interval
    assert isinstance(interval, Interval)
    assert (interval.low, interval.high) == pytest.approx((5.74, 17.41), rel=0.002)
    assert interval.label == "between runs"
    assert verdict.sentence == (
        "3 of 3 runs found a knee: 8, 12.5, 10 users; 95 % between 5.74 and 17.4, between runs: this is the"
        " uncertainty. The run in the middle: Knee at 10 users."
    )


def test_two_runs_have_no_interval() -> None:
    verdict = together([knee(8.0), knee(10.0)], 2)
    assert verdict.repeats is not None
    assert isinstance(verdict.repeats.interval, NoInterval)
    assert "an interval between runs needs 3 runs or more, not 2" in verdict.sentence


def test_a_run_that_found_nothing_is_counted() -> None:
    verdict = together([knee(8.0), NONE, knee(10.0), knee(9.0)], 5)
    assert verdict.knee == 9.0
    assert not verdict.complete
    assert verdict.sentence.startswith("3 of 4 runs found a knee: 8, 10, 9 users (1 of 5 wanted runs are missing)")


def test_no_run_found_anything() -> None:
    verdict = together([NONE, NONE, NONE], 3)
    assert (verdict.kind, verdict.knee, verdict.sentence) == (VerdictKind.ABOVE, None, NONE.sentence)
    assert verdict.repeats is not None
    assert verdict.repeats.values == (None, None, None)


def test_rates() -> None:
    found = [RateVerdict(RateKind.FOUND, f"{rate:g} requests/s are sustained.", rate) for rate in (4.0, 4.2, 4.4)]
    verdict = together(found, 3)
    assert verdict.sustained_rps == 4.2
    assert verdict.sentence.startswith("3 of 3 runs found a sustained rate: 4, 4.2, 4.4 requests/s; 95 % between")
