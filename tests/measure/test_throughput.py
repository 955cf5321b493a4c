"""Throughput over its windows, and the figures that rest on it."""

from __future__ import annotations

import math

import pytest

from locust_llm.measure import figures
from locust_llm.measure.figures import FIGURES, Kind
from locust_llm.measure.record import Outcome
from locust_llm.measure.stats import RunStats
from locust_llm.measure.throughput import run_throughput, steady_throughput
from tests.measure.build import OFFSET, SECOND, T0, WALL_0, fed, ns, record, usage
from tests.measure.play import Play, Script, stream


def ramp(users: int, spawn_rate: float, until_s: int) -> list[Script]:
    """Each user runs streams of 10 s × 10 tokens a second, one after the other, from its spawn on."""
    scripts = []
    for user in range(users):
        start = user / spawn_rate * 1000
        while start < until_s * 1000:
            scripts.append(stream(start, first=100, gap=100, events=100))
            start += 10_000
    return scripts


def played(users: int, spawn_rate: float, until_s: int, all_running_s: float | None) -> RunStats:
    stats = RunStats(OFFSET)
    play = Play(stats, ramp(users, spawn_rate, until_s))
    play.until(until_s - 1)
    if all_running_s is not None:
        stats.mark_all_users_running(ns(all_running_s * 1000))
    play.cut(until_s * 1000.0 - 1)
    stats.mark_stop(ns(until_s * 1000))
    for later in range(until_s, until_s + 4):
        stats.tick(T0 + later * SECOND, ())
    return stats


def test_a_ramp_has_no_steady_window_d28() -> None:
    """D28: 128 users at 4 a second, stopped at 20 s: unfinished streams count, and there is no steady window."""
    stats = played(128, 4, 20, None)
    arrived = sum(math.ceil((20 - user / 4) * 10) - 1 for user in range(80))
    run = run_throughput(stats)
    assert run is not None
    assert run.output_tokens == arrived
    assert run.output_tokens_per_s == pytest.approx(arrived / 20)
    assert steady_throughput(stats) is None
    assert figures.steady_output_throughput(stats) is None


def test_the_steady_window_is_where_all_users_run_d28() -> None:
    """128 users at 32 a second: all run from 4 s on and make 1280 tokens a second; the whole run has the ramp in it."""
    stats = played(128, 32, 20, 4.0)
    steady, run = steady_throughput(stats), run_throughput(stats)
    assert steady is not None
    assert run is not None
    assert (steady.begin_s, steady.duration_s) == (WALL_0 + 4, 16)
    assert steady.output_tokens_per_s == pytest.approx(1280, rel=0.01)
    assert run.output_tokens_per_s == pytest.approx(1280 * (1 - 2 / 20), rel=0.02)
    assert run.peak >= steady.output_tokens_per_s


def test_requests_one_after_the_other_d29() -> None:
    """D29: 72 tokens in 0.692 s, then 2107 in 1.727 s: 900.8 tokens a second, not the 662 of the mean speed."""
    stats = fed(record((1, 692), n=72), record((693, 692 + 1727), n=2107, sent=692))
    stats.mark_stop(ns(2419) + 1)
    assert figures.output_throughput(stats) == pytest.approx(900.8, abs=0.05)
    assert stats.histogram("tps").mean == pytest.approx(662.0, abs=0.1)


def test_what_drains_after_the_stop_is_not_throughput() -> None:
    """Ten tokens before the stop and ten after it; the series has all twenty."""
    stats = RunStats(OFFSET)
    play = Play(stats, [stream(0.0, first=100, gap=100, events=20)])
    play.until(1)
    stats.mark_stop(ns(1050))
    play.until(6, begin=2)
    run = run_throughput(stats)
    assert run is not None
    assert run.output_tokens == 10
    assert run.duration_s == pytest.approx(1.05)
    assert run.requests == 0
    assert (stats.counts().drained_tokens, stats.counts().drained_events) == (10, 0)
    assert sum(point.output_tokens for point in stats.points()) == 20


def test_cut_off_streams_weigh_their_tokens_also_after_the_stop() -> None:
    stats = RunStats(OFFSET)
    play = Play(stats, [stream(0.0, first=50, gap=100, events=5, tokens=20), stream(0.0, first=50, gap=100, events=90)])
    play.until(1)
    stats.mark_stop(ns(1000))
    play.until(2, begin=2)
    play.cut(2000.0)
    run = run_throughput(stats)
    assert run is not None
    assert run.output_tokens == pytest.approx(20 + 10 * 4)
    assert sum(stats.counts(name).drained_events for name in stats.names) == 10


@pytest.mark.parametrize("length_ms", [40, 400, 1000, 1500, 2700])
def test_the_peak_is_never_below_the_mean(length_ms: int) -> None:
    stats = fed(record(tuple(range(1, length_ms, 3)), n=length_ms, sent=0.5))
    stats.mark_stop(ns(length_ms))
    run = run_throughput(stats)
    assert run is not None
    assert run.peak >= run.output_tokens_per_s


def test_while_it_runs_the_rate_is_that_of_complete_seconds() -> None:
    stats = RunStats(OFFSET)
    Play(stats, [stream(0.0, first=50, gap=100, events=90)]).until(5)
    run = run_throughput(stats)
    assert run is not None
    assert (run.duration_s, run.output_tokens_per_s) == (4.0, 10.0)
    assert run_throughput(RunStats(OFFSET)) is None


def test_a_run_that_begins_within_a_second_has_that_second() -> None:
    stats = fed(record((700, 900, 1400), n=3, sent=600, usage=usage(3, 50)))
    stats.mark_stop(ns(1600))
    run = run_throughput(stats)
    assert run is not None
    assert (run.begin_s, run.duration_s) == (pytest.approx(WALL_0 + 0.6), pytest.approx(1.0))
    assert (run.output_tokens, run.input_tokens, run.requests) == (3, 50, 1)


def test_what_begins_after_the_stop_is_not_counted_either() -> None:
    stats = RunStats(OFFSET)
    stats.mark_stop(ns(1500))
    stats.started("chat", T0)
    stats.add(record((1600, 1700), n=2, usage=usage(2, 50)))
    stats.started("chat", T0)
    stats.add(record((), n=9, streamed=False, ended=1800, usage=usage(9, 70)))
    run = run_throughput(stats)
    assert run is not None
    assert (run.output_tokens, run.input_tokens, run.requests) == (0, 0, 0)
    assert stats.counts().output_tokens == 11


def test_the_steady_window_has_whole_seconds_only() -> None:
    stats = fed(*(record((1000.0 * second + 500,), n=10, sent=100) for second in range(10)))
    stats.mark_all_users_running(ns(2300))
    stats.mark_stop(ns(7600))
    steady = steady_throughput(stats)
    assert steady is not None
    assert (steady.begin_s, steady.duration_s, steady.output_tokens) == (WALL_0 + 3, 4, 40)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_window_of_several_workers_reaches_from_the_first_sent_to_the_last_stop(order: tuple[int, int]) -> None:
    workers = [RunStats(OFFSET, lag_s=None) for _ in range(2)]
    for number, worker in enumerate(workers):
        worker.started("chat", T0)
        worker.add(record((500,), n=1, sent=100 + number))
        worker.mark_all_users_running(ns(600 + number))
        worker.mark_stop(ns(2000 + number))
    deltas = [worker.take_delta() for worker in workers]
    master = RunStats(OFFSET)
    for number in order:
        master.merge_delta(deltas[number])
    assert master.first_sent_s == pytest.approx(WALL_0 + 0.1)
    assert master.all_running_s == pytest.approx(WALL_0 + 0.601)
    assert master.stopped_s == pytest.approx(WALL_0 + 2.001)


def test_names_share_the_throughput() -> None:
    stats = fed(record((100, 900), n=30, name="a"), record((100, 900), n=10, name="b"))
    stats.mark_stop(ns(1000))
    assert figures.output_throughput(stats) == pytest.approx(40)
    assert figures.output_throughput(stats, "a") == pytest.approx(30)
    assert figures.request_throughput(stats, "b") == pytest.approx(1)


def test_old_seconds_are_folded_and_the_windows_still_hold() -> None:
    """A run of more than an hour: the steady window begins at the next whole row, its rate is exact."""
    stats = RunStats(OFFSET)
    for second in range(4000):
        begun = second * 1000.0
        stats.started("chat", ns(begun))
        stats.add(record((begun + 100, begun + 900), n=50 + second % 10, sent=begun))
        if second % 50 == 0:
            stats.tick(T0 + second * SECOND, ())
        if second == 12:
            stats.mark_all_users_running(ns(12_345))
    stats.mark_stop(ns(4_000_000))
    steady, run = steady_throughput(stats), run_throughput(stats)
    assert steady is not None
    assert run is not None
    assert steady.begin_s == WALL_0 + 20
    assert steady.output_tokens_per_s == pytest.approx(54.5)
    assert run.output_tokens_per_s == pytest.approx(54.5)
    assert run.peak == 59


EVERYTHING = fed(
    record(tuple(range(100, 2100, 100)), n=20, usage=usage(20, 100, cached_tokens=40), max_tokens=20),
    record((100, 200), n=2, usage=usage(2, 100), max_tokens=20),
    record((), outcome=Outcome.FAILED, error="HTTP 500"),
    record((100,), outcome=Outcome.CANCELLED),
)
EVERYTHING.mark_stop(ns(2200))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("output_throughput", 23 / 2.2),
        ("input_throughput", 200 / 2.2),
        ("request_throughput", 2 / 2.2),
        ("output_speed", 20 / 2.0),
        ("weighted_tpot", 2000 / 20),
        ("tokens_per_event", 1.0),
        ("failed_share", 1 / 3),
        ("cancelled_share", 1 / 4),
        ("cached_share", 0.4),
        ("coalesced_share", 0.0),
        ("started", 4),
        ("in_flight", 0),
        ("short", 1),
        ("tpot_left_out", 1),
        ("steady_output_throughput", None),
    ],
)
def test_figures(key: str, expected: float | None) -> None:
    found = {figure.key: figure for figure in FIGURES}[key].of(EVERYTHING, None)
    assert found == (pytest.approx(expected) if expected is not None else None)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_every_figure_reads_an_empty_run(figure: figures.Figure) -> None:
    empty = figure.of(RunStats(OFFSET), None)
    assert empty == 0 if figure.kind is Kind.COUNT else empty is None
    assert figure.help.endswith(".")
