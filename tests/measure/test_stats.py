"""RunStats on the cases that it exists for."""

from __future__ import annotations

import pytest

from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit
from locust_llm.measure.series import Point
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import summary_row
from tests.measure.build import OFFSET, SECOND, T0, WALL_0, fed, ns, record, running, usage
from tests.measure.play import Play, Script, stream


def by_second(stats: RunStats) -> dict[int, Point]:
    """The series by second of the run."""
    return {point.second - WALL_0: point for point in stats.points()}


def test_failures_do_not_pollute_latency_d09() -> None:
    """D09: 40 successes of 4000 ms and 60 answers 429 in 3 ms."""
    stats = fed(
        *(record((2000, 4000), n=30) for _ in range(40)),
        *(record((), ended=3, outcome=Outcome.FAILED, error="HTTP 429") for _ in range(60)),
    )
    assert stats.histogram("e2e").percentile(0.5) == pytest.approx(4000, rel=1e-3)
    assert stats.histogram("ttft").count == 40
    assert (stats.counts().failed, stats.counts().errors) == (60, {"HTTP 429": 60})


def test_streams_that_are_cut_off_are_counted_d15() -> None:
    """D15: 20 users, streams of 3 s, 18 users taken away at 5 s, the end at 8 s: 42 = 22 + 0 + 20."""
    scripts = [stream(start, first=100, gap=100, events=30, tokens=30) for start in (0.0, 3000.0) for _ in range(20)]
    stats = RunStats(OFFSET)
    play = Play(stats, scripts + [Script(6000.0, [6000.0 + 100 * i for i in range(1, 31)], 9000.0) for _ in range(2)])
    play.until(4)
    play.cut(5000.0, keep=2)
    play.until(7, begin=5)
    stats.mark_stop(ns(8000))
    play.cut(8000.0)
    play.until(12, begin=8)
    counts = stats.counts()
    assert (counts.started, counts.succeeded, counts.failed, counts.cancelled) == (42, 22, 0, 20)
    assert counts.in_flight == 0
    assert stats.histogram("ttft").count == 22
    tokens = [by_second(stats)[second].output_tokens for second in range(9)]
    assert sum(tokens) == 22 * 30 + 18 * 20 + 2 * 20
    assert tokens[4] == 20 * 10
    assert (counts.partial_events, counts.partial_tokens) == (18 * 20 + 2 * 20, 0)


def test_a_stall_shows_while_it_lasts_d17() -> None:
    """D17: 60 s at 10 requests a second of 2000 ms each, then the server hangs; one reply took 70 000 ms."""
    scripts = [stream(i * 100.0, first=500, gap=100, events=16) for i in range(580)]
    late = Script(58_500.0, [58_500.0 + 70_000.0], 128_500.0, tokens=1)
    hung = [Script(58_000.0 + i * 100.0) for i in range(20)]
    stats = RunStats(OFFSET)
    play = Play(stats, [*scripts, late, *hung])
    play.until(72)
    seen = by_second(stats)
    assert seen[40].output_tokens == 160
    assert seen[40].succeeded == 10
    assert max(seen) == 70  # the last complete second
    stalled = [seen[second] for second in range(61, 71)]
    assert [point.output_tokens for point in stalled] == [0] * 10
    assert [point.succeeded for point in stalled] == [0] * 10
    assert [point.in_flight for point in stalled] == [21] * 10
    assert [point.oldest_age_s for point in stalled] == [pytest.approx(second - 58) for second in range(61, 71)]
    assert seen[70].itl_ms == seen[70].e2e_ms == seen[70].ttft_ms == (None, None, None)
    assert seen[61].itl_ms[0] == pytest.approx(100, rel=1e-3)
    play.until(135, begin=73)
    reply = by_second(stats)[128]
    assert reply.e2e_ms[0] == pytest.approx(70_000, rel=1e-3)
    assert by_second(stats)[127].e2e_ms[0] is None
    assert stats.histogram("e2e").max == pytest.approx(70_000)


def test_history_is_of_the_window_not_since_the_start_d18() -> None:
    """D18: 100 s at 500 ms, then 5000 ms: the windowed p95 shows it as soon as the first such answer is there."""
    quick = [stream(i * 100.0, first=400, gap=100, events=2) for i in range(1000)]
    slow = [stream(100_000.0 + i * 100.0, first=4900, gap=100, events=2) for i in range(100)]
    stats = RunStats(OFFSET)
    Play(stats, quick + slow).until(115)
    seen = by_second(stats)
    assert seen[99].e2e_ms[1] == pytest.approx(500, rel=1e-3)
    assert seen[105].e2e_ms[1] == pytest.approx(5000, rel=1e-3)
    assert stats.histogram("e2e").percentile(0.5) == pytest.approx(500, rel=1e-3)


def test_slow_requests_are_not_dropped_from_the_sample_d22() -> None:
    """D22: 20 requests of 42 … 73 s, a limit of 60 s: nine fail; percentiles above the success share are beyond."""
    services = [42_000.0 + 1_700 * i for i in range(11)]
    stats = fed(
        *(record((service,), n=1) for service in services),
        *(record((), ended=60_000, outcome=Outcome.FAILED, error="timeout") for _ in range(9)),
    )
    row = summary_row(stats, BY_KEY["e2e"])
    assert (row.n, stats.counts().failed) == (11, 9)
    median, p90 = row.at(0.5), row.at(0.9)
    assert median.with_failures == pytest.approx(services[9], rel=1e-3)
    assert not median.beyond
    assert p90.with_failures is None
    assert p90.beyond
    assert p90.value is not None
    assert p90.value < 60_000


def test_workers_merge_to_the_right_p99_d30() -> None:
    """D30: worker A 100 times 100 ms, worker B 100 times 1000 ms."""
    workers = [RunStats(OFFSET, lag_s=None) for _ in range(2)]
    for worker, latency in zip(workers, (100, 1000), strict=True):
        for _ in range(100):
            worker.started("chat", T0)
            worker.add(record((latency,), n=1))
    master = RunStats(OFFSET)
    for worker in workers:
        master.merge_delta(worker.take_delta())
    found = master.histogram("ttft")
    assert found.count == 200
    assert found.percentile(0.5) == pytest.approx(100, rel=1e-3)
    assert found.percentile(0.99) == pytest.approx(1000, rel=1e-3)


def test_aggregated_is_the_sum_of_its_rows_d69() -> None:
    stats = fed(
        record((1, 2), n=2, name="a"), record((1,), n=1, name="b"), record((), name="b", outcome=Outcome.FAILED)
    )
    total, a, b = stats.counts(), stats.counts("a"), stats.counts("b")
    assert (total.started, total.succeeded, total.failed) == (3, 2, 1)
    assert [total.output_tokens, total.events] == [a.output_tokens + b.output_tokens, a.events + b.events]
    assert stats.histogram("ttft").count == stats.histogram("ttft", "a").count + stats.histogram("ttft", "b").count
    assert stats.counts("unknown").started == 0
    with pytest.raises(KeyError):
        stats.histogram("no such metric")


def test_warm_up_is_in_no_figure_d82() -> None:
    stats = fed(record((5000,), n=1, warmup=True), record((100,), n=1))
    counts = stats.counts()
    assert (counts.started, counts.succeeded, counts.warmup_started, counts.warmup_ended) == (1, 1, 1, 1)
    assert stats.histogram("ttft").max == pytest.approx(100)
    warm = running(warmup=True)
    warm.output(ns(10))
    stats.progress(warm)
    stats.tick(T0 + 10 * SECOND, [warm])
    assert sum(point.output_tokens for point in stats.points()) == 1
    assert {point.oldest_age_s for point in stats.points()} == {None}


def test_tokens_of_a_running_stream_weigh_what_its_name_showed_d05() -> None:
    """Events of 4 tokens each: provisional 4 an event once known, then exact; never counted twice."""
    stats = fed(record((100, 200), n=8))
    timeline = running(started=1000)
    for at in (1100, 1500, 2100):
        timeline.output(ns(at))
    stats.started("chat", ns(1000))
    stats.progress(timeline)
    stats.tick(T0 + 6 * SECOND, [timeline])
    assert [by_second(stats)[second].output_tokens for second in range(4)] == [8, 8, 4, 0]
    timeline.report(usage(7))
    timeline.done(ns(2200))
    stats.add(timeline.freeze(ns(2200)))
    assert [by_second(stats)[second].output_tokens for second in range(4)] == [8, 4, 3, 0]
    assert sum(point.output_tokens for point in stats.points()) == stats.counts().output_tokens


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(record((100, 140, 1180), n=12), [8, 4], id="D05-evenly"),
        pytest.param(record((100, 140, 1180), n=12, tokens=(2, 2, 8)), [4, 8], id="D05-as-told"),
        pytest.param(record((100, 1140), n=102, streamed_tokens=2), [101, 1], id="hidden-reasoning-came-first"),
        pytest.param(record((), n=40, streamed=False, ended=1500), [0, 40], id="D59-not-streamed"),
        pytest.param(record((100, 1100), n=2, source=TokenSource.CHUNKS), [1, 1], id="D34-no-usage"),
        pytest.param(record((100, 1100), n=None), [1, 1], id="no-count-at-all"),
        pytest.param(record((100, 1100), n=0), [0, 0], id="told-zero"),
    ],
)
def test_tokens_arrive_with_their_events(made: RequestRecord, expected: list[int]) -> None:
    stats = fed(made)
    stats.tick(T0 + 5 * SECOND, ())
    assert [by_second(stats)[second].output_tokens for second in range(2)] == expected


def test_lagged_stamps_can_be_left_out() -> None:
    late = Transit(max_lag_ns=40_000_000)
    stats = fed(*(record((100,), n=1) for _ in range(9)), record((900,), n=1, transit=late))
    assert stats.counts().lagged == 1
    assert stats.histogram("ttft").max == pytest.approx(900)
    assert stats.histogram("ttft", lagged=False).max == pytest.approx(100)
    assert stats.histogram("ttft").count == 10


def test_a_burst_at_the_end_gives_no_live_ttft_d24() -> None:
    """D24: twelve events within 3 ms, a second after the request: only its tokens and its end are true."""
    stats = fed(record(tuple(1000 + i / 4 for i in range(12)), n=12))
    stats.tick(T0 + 5 * SECOND, ())
    point = by_second(stats)[1]
    assert (point.output_tokens, point.ttft_ms[0], point.itl_ms[0]) == (12, None, None)
    assert point.e2e_ms[0] == pytest.approx(1002.75)


def test_short_answers_stay_out_of_tpot_but_not_of_the_weighted_one() -> None:
    long = record(tuple(range(100, 2100, 100)), n=20)
    short = record((100, 150), n=2)
    stats = fed(long, short)
    counts = stats.counts()
    assert (counts.tpot_judged, counts.tpot_left_out) == (2, 1)
    assert stats.histogram("tpot").count == 1
    assert (counts.decode_ns, counts.decode_tokens) == (1_950_000_000, 20)


def test_a_clock_that_went_back_gives_no_sample_d81() -> None:
    stats = fed(record((100, 50, 200), n=3))
    assert stats.counts().clock_faults > 0
    assert stats.histogram("itl").count == 0
    assert stats.histogram("ttft").count == 1
    stats.tick(T0 + 5 * SECOND, ())
    assert sum(point.output_tokens for point in stats.points()) == 3


def test_a_reset_begins_anew_and_carries_what_is_in_flight_d20() -> None:
    stats = RunStats(OFFSET)
    play = Play(stats, [stream(i * 1000.0, first=100, gap=100, events=25) for i in range(10)])
    play.until(5)
    assert stats.counts().in_flight == 3
    before = stats.counts().succeeded
    stats.reset(ns(5000))
    assert (stats.counts().started, stats.counts().succeeded, stats.counts().in_flight) == (3, 0, 3)
    play.until(20, begin=6)
    counts = stats.counts()
    assert (before + counts.succeeded, counts.in_flight) == (10, 0)
    assert min(by_second(stats)) == 6
    assert stats.series.open_events() == {}
    series = sum(point.output_tokens for point in stats.points())
    assert series + counts.before_tokens == counts.output_tokens
    assert by_second(stats)[6].in_flight == 2
    assert by_second(stats)[15].in_flight == 0


def test_worker_and_master_may_reset_at_different_moments() -> None:
    worker, master = RunStats(OFFSET, lag_s=None), RunStats(OFFSET)
    open_requests = [running() for _ in range(5)]
    for timeline in open_requests:
        worker.started("chat", timeline.started_ns)
    master.merge_delta(worker.take_delta())
    worker.add(open_requests[0].freeze(ns(1000)))
    worker.reset(ns(1500))
    worker.add(open_requests[1].freeze(ns(1600)))
    master.reset(ns(1700))
    master.merge_delta(worker.take_delta())
    assert master.counts().in_flight == 3
    for timeline in open_requests[2:]:
        worker.add(timeline.freeze(ns(4000)))
    master.merge_delta(worker.take_delta())
    assert master.counts().in_flight == 0


def test_the_number_of_labels_is_bounded_d70() -> None:
    stats = fed(*(record((), outcome=Outcome.FAILED, error=f"error {i}") for i in range(500)))
    assert len(stats.counts().errors) <= 65
    assert sum(stats.counts().errors.values()) == 500


def test_a_look_at_a_request_that_has_just_ended_counts_nothing() -> None:
    """Between two ticks the second hand may pause, and a request it was about to look at may end."""
    stats = RunStats(OFFSET)
    timeline = running()
    timeline.output(ns(100))
    stats.started("chat", timeline.started_ns)
    stats.progress(timeline)
    timeline.output(ns(200))
    timeline.done(ns(200))
    stats.add(timeline.freeze(ns(200)))
    stats.progress(timeline)
    stats.tick(T0 + 9 * SECOND, ())
    assert sum(point.output_tokens for point in stats.points()) == 2
    assert stats.series.open_events() == {}


def test_when_nothing_more_comes_the_last_seconds_are_complete_d68() -> None:
    stats = RunStats(OFFSET)
    Play(stats, [stream(0.0, first=100, gap=100, events=40)]).until(4)
    assert sum(point.output_tokens for point in stats.points()) == 30 - 1
    stats.close()
    seen = by_second(stats)
    assert max(seen) == 4
    assert sum(point.output_tokens for point in seen.values()) == stats.counts().output_tokens == 40
    assert seen[4].e2e_ms[0] == pytest.approx(4000, rel=1e-3)
