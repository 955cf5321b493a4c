"""RateSearch: the highest rate that is sustained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.rate import RateKind, RateSearch, RateStep, RateVerdict
from locust_llm.analysis.step import Status, StepResult
from tests.analysis.build import step
from tests.analysis.profiles import PROFILES
from tests.analysis.test_backlog import capacity_rps
from tests.analysis.virtual import search_rate

Make = Callable[[float], StepResult]


def judged(rate_rps: float, status: Status, served_rps: float, why: str | None = None) -> StepResult:
    return step(rate_rps, 100.0, status=status, requests_per_s=served_rps, open_loop=True, why=why)


def server(capacity: float) -> Make:
    return lambda rate: judged(rate, Status.STEADY if rate <= capacity else Status.OVERLOADED, min(rate, capacity))


def run(search: RateSearch, make: Make) -> tuple[RateVerdict, list[float]]:
    results: list[StepResult] = []
    for _ in range(50):
        asked = search.next(results)
        if isinstance(asked, RateVerdict):
            return asked, [result.load for result in results]
        results.append(make(asked.rate_rps))
    raise AssertionError([result.load for result in results])


# id, capacity, search, first rates
SEARCHES = [
    ("doubling", 12.0, RateSearch(100.0), [1.0, 2.0, 4.0, 8.0, 16.0, 11.31]),
    ("halving", 0.3, RateSearch(100.0), [1.0, 0.5, 0.25, 0.3536]),
    ("from a rate of one's own", 12.0, RateSearch(100.0, first_rps=10.0), [10.0, 20.0, 14.14]),
    ("fine", 12.0, RateSearch(100.0, gap=1.02), [1.0, 2.0, 4.0, 8.0, 16.0]),
]


@pytest.mark.parametrize(("capacity", "search", "first"), [c[1:] for c in SEARCHES], ids=[c[0] for c in SEARCHES])
def test_a_search(capacity: float, search: RateSearch, first: list[float]) -> None:
    verdict, rates = run(search, server(capacity))
    assert rates[: len(first)] == first
    assert (verdict.kind, verdict.complete) == (RateKind.FOUND, True)
    assert verdict.sustained_rps is not None
    assert verdict.overloaded_rps is not None
    assert verdict.sustained_rps <= capacity < verdict.overloaded_rps <= search.gap * verdict.sustained_rps * 1.001
    assert verdict.served_rps == capacity
    assert f"{verdict.sustained_rps:.4g} requests/s are sustained; overloaded at" in verdict.sentence


def test_sustained_up_to_the_limit() -> None:
    verdict, rates = run(RateSearch(20.0), server(100.0))
    assert (verdict.kind, verdict.sustained_rps, rates[-1]) == (RateKind.ABOVE, 20.0, 20.0)


def test_overloaded_at_every_rate() -> None:
    verdict, rates = run(RateSearch(20.0), server(0.0))
    assert (verdict.kind, verdict.sustained_rps) == (RateKind.BELOW, None)
    assert len(rates) == 11


# id, status of the third step, why, kind
SPOILT = [
    ("client", Status.CLIENT_LIMITED, "97 % of a core", RateKind.CLIENT_LIMITED),
    ("short", Status.TOO_SHORT, "nothing ended", RateKind.UNKNOWN),
]


@pytest.mark.parametrize(("status", "why", "kind"), [case[1:] for case in SPOILT], ids=[case[0] for case in SPOILT])
def test_a_spoilt_step_ends_the_search(status: Status, why: str, kind: RateKind) -> None:
    verdict, rates = run(
        RateSearch(20.0), lambda rate: judged(rate, Status.STEADY, rate) if rate < 4 else judged(rate, status, 3.0, why)
    )
    assert (verdict.kind, verdict.sustained_rps, verdict.complete) == (kind, 2.0, False)
    assert rates == [1.0, 2.0, 4.0]
    assert why in verdict.sentence


def test_an_undecided_step_counts_as_sustained_and_says_so() -> None:
    """At low rates time is up before it can be told; the search goes on to where it can be."""

    def make(rate: float) -> StepResult:
        status = Status.NOISY if rate < 3 else Status.STEADY if rate < 5 else Status.OVERLOADED
        return judged(rate, status, rate, "0.2 ± 0.1" if rate < 3 else None)

    verdict, rates = run(RateSearch(20.0), make)
    assert rates[:4] == [1.0, 2.0, 4.0, 8.0]
    assert verdict.sustained_rps is not None
    assert 4 < verdict.sustained_rps < 5
    assert [note[:20] for note in verdict.notes] == ["At 1 requests/s it s", "At 2 requests/s it s"]
    assert "stayed open whether the backlog grows (0.2 ± 0.1): it was not shown to" in verdict.notes[0]


def test_an_undecided_step_that_likely_grows_counts_as_overloaded() -> None:
    """Its slope is above 0 by two standard errors, not by the three that would have decided it."""
    fine = judged(4.0, Status.STEADY, 4.0)
    grows, stays = (
        replace(judged(4.3, Status.NOISY, 4.1, "it grows a little"), backlog_per_s=Estimate(slope, 0.07))
        for slope in (0.19, 0.07)
    )
    search = RateSearch(20.0)
    assert (search.verdict([fine, grows]).sustained_rps, search.verdict([fine, grows]).overloaded_rps) == (4.0, 4.3)
    assert "it likely does, so it counts as overloaded" in search.verdict([fine, grows]).notes[0]
    assert (search.verdict([fine, stays]).sustained_rps, search.verdict([fine, stays]).overloaded_rps) == (4.3, None)


def test_a_cut_off_search_says_what_it_has() -> None:
    assert RateSearch(20.0).verdict([]).kind is RateKind.UNKNOWN
    verdict = RateSearch(20.0).verdict([judged(1.0, Status.STEADY, 1.0)])
    assert (verdict.kind, verdict.complete, verdict.sustained_rps) == (RateKind.UNKNOWN, False, 1.0)
    assert RateSearch(20.0).next([judged(1.0, Status.STEADY, 1.0)]) == RateStep(2.0)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["slots-11", "linear", "kv"])
def test_the_rate_that_a_simulated_server_sustains(name: str) -> None:
    """Below the server's capacity by a step of the search (10 %), above it by a window's resolution (5 %) at most."""
    profile = next(profile for profile in PROFILES if profile.name == name)
    capacity = capacity_rps(profile)
    for seed in range(5):
        verdict, _ = search_rate(profile.settings, profile.work, RateSearch(100.0), seed)
        assert verdict.kind is RateKind.FOUND
        assert verdict.sustained_rps is not None
        assert 0.82 * capacity <= verdict.sustained_rps <= 1.07 * capacity
