"""Series and window: rows, folding, corrections, bounds."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest

from locust_llm.measure.record import Outcome, TokenSource
from locust_llm.measure.series import THIN_AFTER_S, Series
from locust_llm.measure.stats import RunStats
from locust_llm.measure.window import Window
from tests.measure.build import OFFSET, SECOND, T0, WALL_0, ns, record
from tests.measure.play import Play, stream


def one(_: str) -> float:
    """One token an event."""
    return 1.0


def test_a_second_without_a_row_is_zero_not_missing() -> None:
    series = Series()
    series.at(100).output_tokens += 5
    series.at(104).output_tokens += 7
    points = list(series.points(one, 105))
    assert [(point.second, point.output_tokens) for point in points] == [
        (100, 5),
        (101, 0),
        (102, 0),
        (103, 0),
        (104, 7),
        (105, 0),
    ]
    assert {point.oldest_age_s for point in points} == {None}
    assert points[1].ttft_ms == (None, None, None)
    assert [point.second for point in series.points(one, 105, since=103)] == [104, 105]


def test_in_flight_is_what_started_less_what_ended() -> None:
    series = Series()
    series.carried = 1
    series.at(100).started += 3
    series.at(101).succeeded += 1
    series.at(103).failed += 1
    series.at(103).cancelled += 2
    assert [point.in_flight for point in series.points(one, 103)] == [4, 3, 3, 0]
    assert [point.in_flight for point in series.points(one, 103, since=101)] == [3, 0]


def test_events_wait_for_their_weight_and_leave_no_trace() -> None:
    series = Series()
    row = series.at(100)
    row.add_open("a", 3)
    row.add_open("b", 1)
    weights = {"a": 4.0, "b": 1.0}
    assert [point.output_tokens for point in series.points(weights.__getitem__, 100)] == [13.0]
    assert series.open_events() == {"a": 3, "b": 1}
    row.add_open("a", -3)
    row.add_open("b", -1)
    assert series.open_events() == {}
    assert row.open == {}


def test_old_rows_are_folded_with_exact_sums() -> None:
    series = Series()
    for second in range(1003, 1000 + THIN_AFTER_S + 100):
        row = series.at(second)
        row.output_tokens += second % 7
        row.started += 2
        row.succeeded += 1
        row.gauge(second / 10, second)
        row.add_error("timeout")
    before = list(series.points(one, 1000 + THIN_AFTER_S + 99))
    series.thin(1000 + THIN_AFTER_S + 57, one)
    after = list(series.points(one, 1000 + THIN_AFTER_S + 99))
    assert [(point.second, point.span_s) for point in after[:6]] == [
        (1000, 10),
        (1010, 10),
        (1020, 10),
        (1030, 10),
        (1040, 10),
        (1050, 1),
    ]
    for key in ("output_tokens", "started", "succeeded"):
        assert sum(getattr(point, key) for point in after) == sum(getattr(point, key) for point in before)
    assert sum(point.errors["timeout"] for point in after) == len(before)
    assert after[0].in_flight == before[6].in_flight
    assert after[-1].in_flight == before[-1].in_flight
    assert (after[1].users, after[1].oldest_age_s) == (1019, 101.9)
    assert [row.peak for _, span, row in series.rows() if span == 10] == [6] * 5


def test_a_late_correction_finds_its_folded_row() -> None:
    series = Series()
    series.at(1000).add_open("a", 4)
    series.thin(1000 + THIN_AFTER_S + 10, one)
    series.at(1000).add_open("a", -4)
    series.at(1007).output_tokens += 9
    assert [(second, span, row.output_tokens) for second, span, row in series.rows()] == [(1000, 10, 9)]
    assert series.open_events() == {}


def test_a_folded_row_keeps_the_percentiles_of_its_ten_seconds() -> None:
    stats = RunStats(OFFSET)
    play = Play(stats, [stream(i * 1000.0, first=10.0 * (i + 1), gap=5, events=2) for i in range(40)])
    play.until(50)
    single = {point.second - WALL_0: point for point in stats.points()}
    stats.tick(T0 + (THIN_AFTER_S + 50) * SECOND, ())
    folded = next(point for point in stats.points() if point.second == WALL_0 + 10)
    assert folded.span_s == 10
    assert folded.ttft_ms == single[19].ttft_ms
    assert folded.ttft_ms[0] == pytest.approx(150, rel=1e-3)


def test_a_window_forgets_and_takes_nothing_of_what_is_past() -> None:
    window = Window()
    for second in range(100, 130):
        histograms = window.at(second)
        assert histograms is not None
        for _ in range(100 if second == 119 else 1):
            histograms[0].add(float(second))
    assert window.percentiles(129)[0] == (pytest.approx(124, rel=1e-3), 129.0, 129.0)
    window.forget(125)
    assert window.at(124) is None
    assert len(window.pack()) == 5
    assert window.percentiles(129)[0][0] == pytest.approx(127, rel=1e-3)


def test_a_report_that_comes_late_still_counts_but_not_in_a_window_that_is_closed() -> None:
    master, worker = RunStats(OFFSET), RunStats(OFFSET, lag_s=None)
    worker.started("chat", T0)
    worker.add(record((100, 200), n=2))
    for second in range(40):
        master.tick(T0 + second * SECOND, ())
    master.merge_delta(worker.take_delta())
    master.tick(T0 + 41 * SECOND, ())
    assert master.counts().succeeded == 1
    points = list(master.points())
    assert points[0].output_tokens == 2
    assert {point.ttft_ms for point in points} == {(None, None, None)}


@pytest.mark.parametrize("look", [lambda stats: list(stats.points()), lambda stats: stats.complete_s])
def test_nothing_before_the_first_tick(look: Callable[[RunStats], object]) -> None:
    stats = RunStats(OFFSET)
    stats.started("chat", ns(0))
    assert not look(stats)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_day_of_load_stays_small() -> None:
    """24 h of cut-off and complete answers of two names: rows are bounded and the process grows by little."""
    stats = RunStats(OFFSET)
    begin = 0
    for second in range(24 * 3600):
        at = second * 1000.0
        name = f"name {second % 2}"
        outcome = Outcome.CANCELLED if second % 10 == 0 else Outcome.SUCCESS
        source = TokenSource.CHUNKS if second % 10 == 0 else TokenSource.USAGE
        stats.started(name, ns(at))
        stats.add(record((at + 90 + second % 997, at + 2000), n=9, sent=at, name=name, outcome=outcome, source=source))
        stats.tick(T0 + second * SECOND, ())
        if second == 2 * 3600:
            begin = resident_bytes()
    assert len(list(stats.series.rows())) <= 3600 + 24 * 360 + 20
    assert resident_bytes() - begin < 40_000_000
    counts = stats.counts()
    tokens = sum(row.tokens(stats.tokens_per_event) for _, _, row in stats.series.rows())
    assert tokens == pytest.approx(counts.output_tokens + counts.partial_events * 4.5)


def resident_bytes() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
