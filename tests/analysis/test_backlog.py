"""Open-loop steps: a backlog that grows is "overloaded", one that does not is "steady"."""

from __future__ import annotations

import numpy as np
import pytest

from locust_llm.analysis.backlog import BacklogRule, BacklogWindow, backlog_slope
from locust_llm.analysis.steady import Phase
from locust_llm.analysis.step import Asked, Status, StepResult
from locust_llm.sim.engine import Engine
from locust_llm.sim.virtual import ClosedLoop
from tests.analysis.build import done
from tests.analysis.profiles import PROFILES, Profile
from tests.analysis.virtual import open_step

BY_NAME = {profile.name: profile for profile in PROFILES}


def test_the_slope_is_that_of_a_line() -> None:
    found = backlog_slope(3.0 + 0.5 * np.arange(100), 2.0)
    assert found is not None
    assert found.value == pytest.approx(0.25)
    assert found.error == pytest.approx(0.0, abs=0.02)
    assert backlog_slope(np.array([1.0, 2.0]), 1.0) is None


def test_the_error_of_the_slope_is_that_of_a_random_walk() -> None:
    random = np.random.default_rng(2)
    found = [backlog_slope(np.cumsum(random.normal(0.0, 1.0, 400)), 1.0) for _ in range(400)]
    slopes = [slope.value for slope in found if slope is not None]
    errors = [slope.error for slope in found if slope is not None]
    assert float(np.sqrt(np.mean(np.square(errors)))) == pytest.approx(float(np.std(slopes)), rel=0.15)


def test_a_queue_with_room_is_known_better_than_the_error_says() -> None:
    random = np.random.default_rng(2)
    walks = []
    for _ in range(200):
        level, walk = 0.0, []
        for kick in random.normal(0.0, 1.0, 400):
            level = 0.9 * level + kick
            walk.append(level)
        walks.append(backlog_slope(np.array(walk), 1.0))
    slopes = [slope.value for slope in walks if slope is not None]
    errors = [slope.error for slope in walks if slope is not None]
    assert float(np.std(slopes)) < float(np.mean(errors))


def constant(rate: int, growth: float, rule: BacklogRule) -> tuple[BacklogWindow, int]:
    """`rate` arrivals a second that stay 2 s; the backlog grows by `growth` a second. (The window, when it closed.)"""
    window = BacklogWindow(float(rate), 0.0, rule)
    for second in range(2000):
        if window.state(float(second)).phase is Phase.DONE:
            return window, second
        window.add([done(0, second - 1.0 + i / rate, second + 1.0 + i / rate - 1e-6) for i in range(rate)])
        in_flight = 2.0 * rate + growth * second
        window.add_second(float(second), 100.0, in_flight, in_flight)
    raise AssertionError("it does not close")


# id, growth a second at 10 requests a second, status
GROWTHS = [("none", 0.0, Status.STEADY), ("a tenth", 1.1, Status.OVERLOADED), ("it drains", -1.0, Status.STEADY)]


@pytest.mark.parametrize(("growth", "status"), [case[1:] for case in GROWTHS], ids=[case[0] for case in GROWTHS])
def test_a_plain_backlog(growth: float, status: Status) -> None:
    window, closed_s = constant(10, growth, BacklogRule())
    result = window.result(Asked(10.0))
    assert (result.status, result.open_loop) == (status, True)
    assert result.backlog_per_s is not None
    assert result.backlog_per_s.value == pytest.approx(growth, abs=0.01)
    assert 16 <= closed_s <= 40, "three residences to settle, eight to judge"
    if status is Status.OVERLOADED:
        assert "requests in flight grow by 1.1" in (result.why or "")


def test_a_queue_that_only_fills_to_its_level_is_no_overload() -> None:
    window = BacklogWindow(10.0, 0.0)
    for second in range(400):
        if window.state(float(second)).phase is Phase.DONE:
            break
        window.add([done(0, second - 1.0 + i / 10, second + 1.0 + i / 10 - 1e-6) for i in range(10)])
        in_flight = 60.0 * (1 - np.exp(-second / 6))
        window.add_second(float(second), 100.0, in_flight, in_flight)
    assert window.result(Asked(10.0)).status is Status.STEADY


def test_nothing_ends_in_time() -> None:
    window = BacklogWindow(10.0, 0.0, BacklogRule(max_s=30.0))
    for second in range(30):
        window.add_second(float(second), 0.0, 10.0 * second, 10.0 * second)
    assert window.state(29.0).phase is Phase.OPENING
    assert window.state(30.0).status is Status.TOO_SHORT
    assert window.result(Asked(10.0)).status is Status.TOO_SHORT


def test_undecided_when_the_time_is_up() -> None:
    """Where the backlog rises and falls by six times the arrivals, a twentieth of them cannot be seen."""
    window = BacklogWindow(10.0, 0.0, BacklogRule(max_s=60.0))
    for second in range(60):
        window.add([done(0, second - 1.0 + i / 10, second + 1.0 + i / 10 - 1e-6) for i in range(10)])
        in_flight = 20.0 + 6.0 * abs(second % 20 - 10)
        window.add_second(float(second), 100.0, in_flight, in_flight)
        window.state(second + 1.0)
    assert window.state(60.0).status is Status.NOISY


def test_the_callers_status_wins() -> None:
    window, _ = constant(10, 0.0, BacklogRule())
    result = window.result(Asked(10.0, Status.OVERLOADED, "12 arrivals were dropped"))
    assert (result.status, result.why) == (Status.OVERLOADED, "12 arrivals were dropped")


def capacity_rps(profile: Profile) -> float:
    """Requests a second that the server serves when it is full."""
    load = ClosedLoop(Engine(profile.settings), profile.work, spawn_s=20.0, seed=5)
    load.set_users(6 * profile.knee)
    load.run_for(400.0)
    load.rows.clear()
    load.run_for(600.0)
    return len(load.rows) / 600.0


def statuses(name: str, share: float, seeds: int) -> list[StepResult]:
    profile = BY_NAME[name]
    rate_rps = share * capacity_rps(profile)
    return [open_step(profile.settings, profile.work, rate_rps, seed=seed) for seed in range(seeds)]


# profile, share of its capacity, status
LOADS = [
    ("slots-11", 0.7, Status.STEADY),
    ("slots-11", 0.95, Status.STEADY),
    ("slots-11", 1.2, Status.OVERLOADED),
    ("slots-11", 3.0, Status.OVERLOADED),
    ("linear", 0.7, Status.STEADY),
    ("linear", 0.9, Status.STEADY),
    ("linear", 1.2, Status.OVERLOADED),
    ("kv", 0.7, Status.STEADY),
    ("kv", 0.95, Status.STEADY),
    ("kv", 1.2, Status.OVERLOADED),
]


@pytest.mark.parametrize(("name", "share", "status"), LOADS)
def test_poisson_arrivals(name: str, share: float, status: Status) -> None:
    assert [result.status for result in statuses(name, share, 1)] == [status]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "share", "status"), LOADS)
def test_poisson_arrivals_of_twenty_seeds(name: str, share: float, status: Status) -> None:
    results = statuses(name, share, 20)
    assert [result.status for result in results].count(status) >= 19
    if status is Status.OVERLOADED and name != "linear":  # there a longer backlog is served faster
        served = float(np.mean([result.requests_per_s / result.load for result in results]))
        assert served == pytest.approx(1 / share, rel=0.15), "what is served then is the capacity"
