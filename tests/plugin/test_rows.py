"""Locust's own rows: metric rows stand apart from Aggregated (D14), and a folded row is the row of fired events.

These tests fail when Locust changes what `rows` touches of its statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from locust import stats as locust_stats
from locust.env import Environment
from locust.stats import RequestStats, StatsEntry

from locust_llm.plugin import rows

HALVES_MS = st.integers(0, 300).map(lambda n: n / 2)
TIMES_MS = st.one_of(st.floats(0, 1), st.floats(0, 120), st.floats(90, 110), st.floats(0, 100_000), HALVES_MS)
BOOKKEEPING = ("use_response_times_cache", "stats", "response_times_cache", "start_time", "last_request_timestamp")


class Clock:
    """Stands still, so that both rows see the same time."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def time(self) -> float:
        return self.now_s


@contextmanager
def at(clock: Clock) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locust_stats.time, "time", clock.time)
        yield


def row_of(stats: RequestStats) -> StatsEntry:
    return stats.entries["ask", rows.ITL]


def everything(entry: StatsEntry) -> dict[str, Any]:
    """All that an entry holds, but for what differs by the instant it was made."""
    held = {name: value for name, value in vars(entry).items() if name not in BOOKKEEPING}
    for name in ("response_times", "num_reqs_per_sec", "num_fail_per_sec"):
        held[name] = dict(held[name])
    held["total_response_time"] = pytest.approx(held["total_response_time"], rel=1e-9)
    return held


@pytest.mark.parametrize("cached", [True, False], ids=["master", "worker"])
@given(answers=st.lists(st.lists(TIMES_MS, min_size=1, max_size=40), min_size=1, max_size=4))
def test_folded_rows_are_fired_rows(cached: bool, answers: list[list[float]]) -> None:
    folded, fired = RequestStats(cached), RequestStats(cached)
    clock = Clock(1_700_000_000.5)
    with at(clock):
        for answer in answers:
            rows.fold(folded, "ask", np.array(answer))
            for value in answer:
                fired.entries["ask", rows.ITL].log(value, 0)
            clock.now_s += 1.5
    assert everything(row_of(folded)) == everything(row_of(fired))
    assert row_of(folded).last_request_timestamp == row_of(fired).last_request_timestamp
    assert [*(row_of(folded).response_times_cache or {})] == [*(row_of(fired).response_times_cache or {})]
    reports = [row_of(stats).get_stripped_report() for stats in (folded, fired)]
    assert reports[0] == reports[1] | {"total_response_time": pytest.approx(reports[1]["total_response_time"])}


@given(answer=st.lists(TIMES_MS, min_size=1, max_size=40))
def test_folding_heeds_a_replaced_bucket_rule(answer: list[float]) -> None:
    """`bucket_response_time` is Locust's public hook."""

    def to_quarters(response_time: float) -> float:
        return round(response_time * 4) / 4

    folded, fired = RequestStats(False), RequestStats(False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locust_stats, "bucket_response_time", to_quarters)
        rows.fold(folded, "ask", np.array(answer))
        for value in answer:
            fired.entries["ask", rows.ITL].log(value, 0)
    assert dict(row_of(folded).response_times) == dict(row_of(fired).response_times)


def test_an_entry_has_no_field_that_folding_does_not_know() -> None:
    """A field that Locust adds to its rows would stay behind when intervals are folded."""
    known = {
        "name", "method", "num_requests", "num_none_requests", "num_failures", "total_response_time",
        "min_response_time", "max_response_time", "num_reqs_per_sec", "num_fail_per_sec", "response_times",
        "total_content_length",
    }  # fmt: skip
    assert set(vars(StatsEntry(RequestStats(), "ask", rows.ITL))) == known | set(BOOKKEEPING)


def fire(environment: Environment, kind: str, response_time: float | None, exception: Exception | None = None) -> None:
    environment.events.request.fire(
        request_type=kind,
        name="ask",
        response_time=response_time,
        response_length=0,
        exception=exception,
        context={},
    )


def test_d14_metric_rows_are_no_requests() -> None:
    """10 completions of 4000 ms, one of them failed, each with a TTFT and 100 ITLs: 10 requests, 10 % failed."""
    environment = Environment()
    environment.create_local_runner()
    rows.keep_metrics_apart(environment.stats)
    rows.keep_metrics_apart(environment.stats)
    for number in range(10):
        fire(environment, rows.TTFT, 200)
        for _ in range(100):
            fire(environment, rows.ITL, 20)
        fire(environment, rows.TPOT, 20)
        fire(environment, rows.E2E, *((4000, None) if number else (None, ValueError("no"))))
    total = environment.stats.total
    assert (total.num_requests, total.num_failures, total.fail_ratio) == (10, 1, 0.1)
    assert total.get_response_time_percentile(0.95) == 4000
    assert environment.stats.entries["ask", rows.ITL].num_requests == 1000
    assert environment.stats.entries["ask", rows.TTFT].num_requests == 10
    assert len(environment.stats.errors) == 1


def test_a_metric_row_has_no_errors() -> None:
    environment = Environment()
    environment.create_local_runner()
    rows.keep_metrics_apart(environment.stats)
    fire(environment, rows.ITL, 1, ValueError("a listener's idea"))
    assert environment.stats.errors == {}
    assert environment.stats.total.num_failures == 0


def test_resets_and_clears_keep_the_rule() -> None:
    environment = Environment()
    environment.create_local_runner()
    rows.keep_metrics_apart(environment.stats)
    for begin in (environment.stats.reset_all, environment.stats.clear_all):
        begin()
        fire(environment, rows.ITL, 1)
        fire(environment, rows.E2E, 1)
        assert environment.stats.total.num_requests == 1


LISTENERS = [
    ("nobody but Locust", [], False),
    ("a function", [lambda **_: None], True),
    ("something without a module", [type("Heard", (), {"__call__": lambda self, **_: None})()], True),
]


@pytest.mark.parametrize(("listeners", "heard"), [row[1:] for row in LISTENERS], ids=[row[0] for row in LISTENERS])
@pytest.mark.parametrize("runner", [True, False], ids=["with a runner", "without"])
def test_who_listens(runner: bool, listeners: list[Any], heard: bool) -> None:
    environment = Environment()
    if runner:
        environment.create_local_runner()
    for listener in listeners:
        environment.events.request.add_listener(listener)
    assert rows.somebody_listens(environment.events.request) is heard
