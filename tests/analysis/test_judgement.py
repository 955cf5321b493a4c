"""Whether a run meets its gates: each verdict, and each reason not to judge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.judgement import Circumstances, GateResult, GateStatus, Judgement, judge
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.slo import parse_slo
from locust_llm.measure.stats import RunStats
from tests.measure.build import OFFSET, SECOND, ns, record

MET, BREACHED, UNJUDGED = GateStatus.MET, GateStatus.BREACHED, GateStatus.UNJUDGED
LENGTH_S = 100
PER_S = 4


def answer(at: float, ttft: float, name: str = "chat") -> RequestRecord:
    """TTFT as told, two gaps of 10 ms, E2E 20 ms more."""
    return record([at + ttft, at + ttft + 10, at + ttft + 20], n=3, sent=at, name=name)


def failure(at: float, name: str = "chat") -> RequestRecord:
    return record([], sent=at, ended=at + 50, outcome=Outcome.FAILED, error="HTTP 500", name=name)


def answers(length_s: int = LENGTH_S, *, failed: float = 0.0, seed: int = 1) -> list[RequestRecord]:
    """PER_S requests a second, one after the other; TTFT is uniform in 100 … 200 ms, its p95 195 ms."""
    random = Random(seed)
    times = [second * 1000 + 250 * place for second in range(length_s) for place in range(PER_S)]
    return [failure(at) if random.random() < failed else answer(at, random.uniform(100, 200)) for at in times]


def run_of(records: Iterable[RequestRecord], *, stop_s: int = LENGTH_S, slos: str = "") -> RunStats:
    """A run in which all users run from the first second to `stop_s`."""
    stats = RunStats(OFFSET, min_tokens=1, lag_s=0, slos=[parse_slo(slo) for slo in slos.split()], apart=["chat"])
    ordered = sorted(records, key=lambda each: each.ended_ns)
    stats.mark_all_users_running(ns(0))
    at = 0
    for second in range(stop_s + 1):
        while at < len(ordered) and ordered[at].ended_ns < ns((second + 1) * 1000):
            stats.started(ordered[at].name, ordered[at].started_ns)
            stats.add(ordered[at])
            at += 1
        stats.tick(ns(second * 1000) + SECOND - 1, ())
    stats.mark_stop(ns(stop_s * 1000))
    return stats


def verdict(stats: RunStats, gate: str, known: Circumstances | None = None) -> GateResult:
    (result,) = judge(stats, [parse_gate(gate)], known if known is not None else Circumstances()).results
    return result


GOOD = run_of(answers(), slos="ttft<150ms")

PLAIN = [
    # (gate, status, value)
    ("ttft:p95<250ms", MET, 195),
    ("ttft:p95<150ms", BREACHED, 195),
    ("ttft:p50<=0.2s", MET, 150),
    ("itl:p99<11ms", MET, 10),
    ("itl:p50<9ms", BREACHED, 10),
    ("tpot:p50<=10ms", MET, 10),
    ("e2e:p90<300ms", MET, 210),
    ("ttfc:p50<1ms", UNJUDGED, None),
    ("headers:p50<1ms", UNJUDGED, None),
    ("errors<1%", MET, 0),
    ("errors<=0%", MET, 0),
    ("output_throughput>=10", MET, 12),
    ("output_throughput>=15tok/s", BREACHED, 12),
    ("request_throughput>3.9req/s", MET, 4),
    ("request_throughput>4.5req/s", BREACHED, 4),
    ("goodput>=40%", MET, 0.5),
    ("goodput>=90%", BREACHED, 0.5),
    ("goodput>=1req/s", MET, 2),
    ("goodput>=3req/s", BREACHED, 2),
    ("chat/ttft:p95<250ms", MET, 195),
    ("chat/output_throughput>=10", MET, 12),
]


@pytest.mark.parametrize(("gate", "status", "value"), PLAIN, ids=[gate for gate, _, _ in PLAIN])
def test_the_figure_decides(gate: str, status: GateStatus, value: float | None) -> None:
    result = verdict(GOOD, gate)
    assert result.status is status
    assert result.value == (None if value is None else pytest.approx(value, rel=0.06))
    assert (result.reason is None) == (status is not UNJUDGED)
    if value is not None and not gate.startswith("chat/output"):
        assert isinstance(result.interval, Interval)
        assert result.interval.low <= (result.value or 0) <= result.interval.high
        assert result.interval.batches >= 10


def test_a_breach_whose_interval_contains_the_limit_is_not_proven_unless_strict() -> None:
    found = verdict(GOOD, "ttft:p50<150ms")
    assert found.value is not None
    assert isinstance(found.interval, Interval)
    gate = f"ttft:p50<{(found.interval.low + found.value) / 2}ms"
    assert verdict(GOOD, gate).status is UNJUDGED
    assert "not proven" in (verdict(GOOD, gate).reason or "")
    assert verdict(GOOD, gate, Circumstances(strict=True)).status is BREACHED
    assert verdict(GOOD, f"ttft:p50<{found.interval.low - 1}ms").status is BREACHED
    assert verdict(GOOD, f"ttft:p50<{(found.interval.high + found.value) / 2}ms").status is MET


def test_without_an_interval_the_figure_decides_and_the_reason_is_told() -> None:
    short = run_of(answers(4), stop_s=4)
    median = short.histogram("ttft").percentile(0.5)
    for gate, status in ((f"ttft:p50<{median}ms", BREACHED), (f"ttft:p50<={median}ms", MET)):
        result = verdict(short, gate)
        assert result.status is status
        assert isinstance(result.interval, NoInterval)
        assert "an interval needs 10 batches" in result.interval.reason


def test_percentiles_count_failures_as_endless() -> None:
    stats = run_of(answers(failed=0.2))
    assert verdict(stats, "ttft:p50<250ms").status is MET
    result = verdict(stats, "ttft:p95<250ms")
    assert (result.status, result.value, result.beyond) == (BREACHED, None, True)
    assert result.n == LENGTH_S * PER_S
    errors = verdict(stats, "errors<1%")
    assert (errors.status, errors.value) == (BREACHED, pytest.approx(0.2, abs=0.04))
    assert isinstance(errors.interval, Interval)
    assert errors.interval.low > 0.1


def test_a_percentile_that_barely_lies_among_the_failures_is_not_proven() -> None:
    stats = run_of(answers(failed=0.06, seed=4))
    assert stats.counts().failed / stats.counts().outcomes > 0.05
    result = verdict(stats, "ttft:p95<250ms")
    assert (result.beyond, result.status) == (True, UNJUDGED)
    assert isinstance(result.interval, Interval)
    assert result.interval.high == math.inf


FEW = [
    # (gate, seconds that are too few, seconds that are enough, why)
    ("ttft:p95<250ms", 17, 18, "68 samples are too few for TTFT p95 (72 needed)"),
    ("ttft:p98<250ms", 45, 46, "180 samples are too few for TTFT p98"),
    ("ttft:p50<250ms", 1, 2, "4 samples are too few for TTFT p50 (6 needed)"),
    ("errors<1%", 1, 2, "4 outcomes are too few (6 needed)"),
    ("output_throughput>1", 1, 2, "4 outcomes are too few (6 needed)"),
]


@pytest.mark.parametrize(("gate", "few", "enough", "why"), FEW, ids=[case[0] for case in FEW])
def test_too_few_samples(gate: str, few: int, enough: int, why: str) -> None:
    result = verdict(run_of(answers(few), stop_s=few), gate)
    assert (result.status, result.reason) == (UNJUDGED, why)
    assert verdict(run_of(answers(enough), stop_s=enough), gate).status is MET


def test_zero_failures_of_few_leave_room_for_some() -> None:
    result = verdict(GOOD, "errors<1%")
    assert isinstance(result.interval, Interval)
    assert (result.interval.low, result.value) == (0, 0)
    assert 0.005 < result.interval.high < 0.02  # 3 / n


def test_a_name_that_no_request_has() -> None:
    result = verdict(GOOD, "chta/ttft:p95<5ms")
    assert (result.status, result.reason) == (UNJUDGED, "no request is named 'chta'; there are: chat")


def test_names_are_judged_apart() -> None:
    slow = [answer(second * 1000 + 5, 900, "rag") for second in range(LENGTH_S)]
    stats = run_of([*answers(), *slow])
    assert verdict(stats, "chat/ttft:p95<250ms").status is MET
    assert verdict(stats, "rag/ttft:p95<250ms").status is BREACHED
    assert verdict(stats, "ttft:p95<250ms").status is BREACHED
    errors = verdict(stats, "rag/errors<1%")
    assert errors.status is MET
    assert errors.interval == NoInterval("no blocks of time were kept of that name")


def test_a_metric_that_no_request_has() -> None:
    tokens = [record([second * 1000 + 100], n=1, sent=second * 1000) for second in range(LENGTH_S)]
    assert verdict(run_of(tokens), "tpot:p50<5ms").reason == "no request has a TPOT"


# -- the whole run -------------------------------------------------------------------------------------------------

GATES = [parse_gate(text) for text in ("ttft:p95<250ms", "errors<1%", "ttft:p50<5ms")]


def judged(stats: RunStats, known: Circumstances) -> Judgement:
    return judge(stats, GATES, known)


def test_one_breach_is_a_breach_and_all_met_are_met() -> None:
    assert (judged(GOOD, Circumstances()).status, judged(GOOD, Circumstances()).exit_code) == (BREACHED, 1)
    met = judge(GOOD, GATES[:2], Circumstances())
    assert (met.status, met.exit_code, met.reason) == (MET, 0, None)
    unsure = judge(GOOD, [*GATES[:2], parse_gate("x/errors<1%")], Circumstances())
    assert (unsure.status, unsure.exit_code) == (UNJUDGED, 3)
    both = judge(GOOD, [*GATES, parse_gate("x/errors<1%")], Circumstances())
    assert (both.status, both.exit_code) == (BREACHED, 1)


NOTHING = run_of([failure(second * 1000) for second in range(LENGTH_S)])
HALVES = [
    each for each in answers() if each.started_ns < ns(55_000) or (each.started_ns - ns(0)) % SECOND < SECOND // 2
]

SPOILT = [
    ("a worker was lost", GOOD, Circumstances(incomplete="worker 1 was lost"), "worker 1 was lost"),
    ("the client was busy", GOOD, Circumstances(client_limited="too busy"), "too busy"),
    ("nothing succeeded", NOTHING, Circumstances(), "none of 100 requests succeeded"),
    ("nothing was sent", run_of([]), Circumstances(), "no request ended"),
    ("it drifted", run_of(HALVES), Circumstances(), "the run drifted: 12 output tok/s in the first half"),
]


@pytest.mark.parametrize(("stats", "known", "why"), [case[1:] for case in SPOILT], ids=[case[0] for case in SPOILT])
def test_a_run_that_means_too_little_is_not_judged(stats: RunStats, known: Circumstances, why: str) -> None:
    for circumstances in (known, replace(known, strict=True)):
        found = judged(stats, circumstances)
        assert (found.status, found.exit_code) == (UNJUDGED, 3)
        assert why in (found.reason or "")
        assert {result.status for result in found.results} == {UNJUDGED}
        assert {result.reason for result in found.results} == {found.reason}


def test_load_that_changes_on_purpose_does_not_drift_and_has_no_interval() -> None:
    found = judged(run_of(HALVES), Circumstances(load_changes=True))
    assert found.reason is None
    assert all(isinstance(result.interval, NoInterval) for result in found.results)


def test_a_run_that_was_stopped_early_can_only_be_breached() -> None:
    found = judged(GOOD, Circumstances(shortened="stopped by --llm-stop-on-errors"))
    assert [result.status for result in found.results] == [UNJUDGED, UNJUDGED, BREACHED]
    assert found.exit_code == 1


def piling_up(stay_s: float) -> RunStats:
    """Two requests a second of which each stays longer than the one before, by `stay_s` a second of the run."""
    return run_of([answer(500 * i, 200 + 500 * i * stay_s) for i in range(160)], stop_s=80)


def test_open_load_that_piles_up_is_a_breach() -> None:
    calm = piling_up(0)
    grows = RunStats(OFFSET, min_tokens=1, lag_s=0)
    grows.mark_all_users_running(ns(0))
    for second in range(80):  # two come, one is served, at once
        for place in (0, 400):
            at = second * 1000 + place
            grows.started("chat", ns(at))
            if place:
                grows.add(answer(at, 150))
        grows.tick(ns(second * 1000 + 999), ())
    grows.mark_stop(ns(80_000))
    known = Circumstances(offered_rps=2)
    gates = [parse_gate("ttft:p50<250ms")]
    found = judge(grows, gates, known)
    assert (found.status, found.exit_code, found.results[0].status) == (BREACHED, 1, MET)
    assert (found.overloaded or "").startswith("overloaded: of 2 requests offered a second, 1 a second piled up")
    assert judge(grows, gates, Circumstances()).overloaded is None  # a closed loop waits
    assert judge(calm, gates, known).overloaded is None


def test_open_load_whose_arrivals_were_dropped_is_a_breach() -> None:
    found = judge(GOOD, GATES[:2], Circumstances(offered_rps=9, unserved="half of them were dropped"))
    assert (found.exit_code, found.overloaded) == (1, "half of them were dropped")
    lost = judge(GOOD, GATES[:2], Circumstances(offered_rps=9, unserved="dropped", incomplete="lost"))
    assert (lost.exit_code, lost.overloaded) == (3, None)
