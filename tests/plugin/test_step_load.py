"""Steps of rate on a fake runner: the schedule begins on an empty server, and all that nobody served is the backlog."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from locust_llm.analysis.backlog import BacklogRule
from locust_llm.analysis.knee import Step
from locust_llm.analysis.rate import RateStep
from locust_llm.analysis.steady import WindowRule
from locust_llm.plugin import step_load
from locust_llm.plugin.probing import Probing
from locust_llm.plugin.step_load import RateLoad, UserLoad


class Load:
    """A session with a runner, a clock, and open load that takes what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.3
        monkeypatch.setattr(step_load.time, "time", lambda: self.now_s)
        self.environment = SimpleNamespace(runner=SimpleNamespace(user_count=0, state="spawning"))
        self.open_load = self
        self.stats = self
        self.is_master = self.is_worker = False
        self.probing = Probing(self)  # type: ignore[arg-type]
        self.in_flight: dict[int, int] = {}
        self.taken_at: Counter[int] = Counter()
        self.asked: list[Any] = []

    def running(self, users: int) -> None:
        self.environment.runner = SimpleNamespace(user_count=users, state="running")

    def points(self, since: int) -> Iterator[Any]:
        return (point(second, flying) for second, flying in self.in_flight.items() if second > since)

    def retime(self, rate_rps: float, t0_wall_s: float, step: int) -> Iterator[float]:
        self.asked.append((rate_rps, t0_wall_s, step))
        return (count / rate_rps for count in itertools.count(1))

    def pause(self) -> None:
        self.asked.append("pause")

    def taken(self) -> Counter[int]:
        return self.taken_at


def point(second: int, in_flight: int, users: int | None = None) -> Any:
    return SimpleNamespace(second=second, in_flight=in_flight, output_tokens=10.0, users=users)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    return Load(monkeypatch)


def test_a_step_of_rate_begins_when_all_senders_run(load: Load) -> None:
    rates = RateLoad(load, BacklogRule(), 4)  # type: ignore[arg-type]
    assert rates.wanted(RateStep(5.0)) == (4, 4.0)
    assert rates.begin(RateStep(5.0)) is None
    load.running(4)
    window = rates.begin(RateStep(5.0))
    assert window is not None
    assert (window.rate_rps, window.begun_s) == (5.0, 1002.0)
    assert load.asked == [(5.0, 1002.0, 1)]


def test_the_next_step_waits_until_the_server_is_empty(load: Load) -> None:
    rates = RateLoad(load, BacklogRule(max_s=60.0), 4)  # type: ignore[arg-type]
    load.running(4)
    rates.begin(RateStep(5.0))
    load.now_s = 1020.4
    rates.end()
    load.in_flight = {1019: 0, 1022: 3}
    assert rates.begin(RateStep(10.0)) is None
    load.in_flight[1023] = 0
    assert rates.begin(RateStep(10.0)) is not None
    assert load.asked[1:] == ["pause", (10.0, 1022.0, 2)]


def test_a_server_that_does_not_get_empty_is_given_up(load: Load) -> None:
    rates = RateLoad(load, BacklogRule(max_s=60.0), 4)  # type: ignore[arg-type]
    load.running(4)
    rates.begin(RateStep(5.0))
    rates.end()
    load.in_flight = {1010: 2}
    assert rates.begin(RateStep(10.0)) is None
    load.now_s += 61
    assert rates.begin(RateStep(10.0)) is not None


def test_arrivals_that_nobody_took_are_backlog(load: Load) -> None:
    """Five a second are offered, three taken, two answered: in flight and waiting grow by one and two a second."""
    rates = RateLoad(load, BacklogRule(), 4)  # type: ignore[arg-type]
    load.running(4)
    window = rates.begin(RateStep(5.0))
    assert window is not None
    rates.feed(window, point(1001, 0))  # before the step
    for second in range(4):
        load.taken_at[second] = 3
        rates.feed(window, point(1002 + second, 1 + second))
    # offered by the end of second n: 5 (n + 1) - 1, since the one on the border is the next second's
    told = window.seconds.mean_in_flight(window.seconds.edges())
    assert list(told) == [1 + 1, 2 + 3, 3 + 5, 4 + 7]
    assert window.seconds.mean_users(1002.0, 1006.0) == 2.5


def test_a_step_of_users_begins_when_they_run(load: Load) -> None:
    users = UserLoad(load, WindowRule())  # type: ignore[arg-type]
    asked = Step(8, 4.0)
    assert users.wanted(asked) == (8, 2.0)  # spread over one residence
    assert users.begin(asked) is None
    load.running(7)
    assert users.begin(asked) is None
    assert users.wanted(asked) == (8, 2.0)  # as it was, though fewer are missing now
    load.running(8)
    window = users.begin(asked)
    assert window is not None
    assert (window.users, window.begun_s) == (8, 1000.3)


def test_a_probe_is_told_to_the_users_before_it_counts(load: Load) -> None:
    users, probe = UserLoad(load, WindowRule()), Step(8, 4.0, 2.0)  # type: ignore[arg-type]
    load.running(8)
    assert users.begin(probe) is None
    assert load.probing.factor == 2.0
    assert users.begin(probe) is not None
    assert users.begin(Step(4, 4.0)) is None
    load.running(4)
    assert users.begin(Step(4, 4.0)) is None
    assert load.probing.factor == 1.0
