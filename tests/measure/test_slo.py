"""The verdict on each request, and goodput."""

from __future__ import annotations

from typing import Any

import pytest

from locust_llm.measure.figures import FIGURES
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.slo import PRESETS, met, parse_slo
from locust_llm.measure.stats import RunStats
from tests.measure.build import OFFSET, ns, record

CANCELLED: dict[str, Any] = {"outcome": Outcome.CANCELLED}
FAILED: dict[str, Any] = {"outcome": Outcome.FAILED, "error": "HTTP 500"}

# ttft 100, gaps 20 20 60, tpot 100/3 = 33.3 …, e2e 200
ANSWER = record([100, 120, 140, 200], n=4)

CASES = [
    ("ttft met", ANSWER, "ttft<101ms", True),
    ("ttft missed", ANSWER, "ttft<100ms", False),
    ("ttft at most", ANSWER, "ttft<=100ms", True),
    ("itl is the largest gap", ANSWER, "itl<59ms", False),
    ("itl met", ANSWER, "itl<=60ms", True),
    ("tpot met", ANSWER, "tpot<34ms", True),
    ("tpot missed", ANSWER, "tpot<33ms", False),
    ("e2e met", ANSWER, "e2e<=0.2s", True),
    ("e2e missed", ANSWER, "e2e<199ms", False),
    ("every one of them", ANSWER, "ttft<101ms itl<=60ms e2e<199ms", False),
    ("min-tokens does not apply", record([100, 120], n=2), "tpot<19ms", False),
    ("one token has no tpot", record([100], n=1), "tpot<5ms", None),
    ("one token has no gap", record([100], n=1), "itl<5ms", None),
    ("what is absent is not judged, the rest is", record([100], n=1), "tpot<5ms ttft<101ms", True),
    ("what is absent does not save the rest", record([100], n=1), "tpot<5ms ttft<100ms", False),
    ("not streamed: no ttft", record([], n=9, ended=300, streamed=False), "ttft<5ms", None),
    ("not streamed: e2e", record([], n=9, ended=300, streamed=False), "e2e<299ms", False),
    ("a burst has no ttft", record([100] * 9, n=9), "ttft<5ms itl<5ms", None),
    ("failed is a miss", record([], ended=1, **FAILED), "ttft<500ms", False),
    ("failed after a good beginning", record([10], ended=20, **FAILED), "ttft<500ms", False),
    ("cut off while waiting in time", record([], ended=99, **CANCELLED), "ttft<100ms", None),
    ("cut off after waiting too long", record([], ended=101, **CANCELLED), "ttft<=100ms", False),
    ("cut off, its first token was late", record([150], ended=160, **CANCELLED), "ttft<100ms", False),
    ("cut off, all good so far", record([50, 60], ended=70, **CANCELLED), "ttft<100ms itl<20ms e2e<1s", None),
    ("cut off, a gap was too long", record([50, 90, 95], ended=96, **CANCELLED), "itl<40ms", False),
    ("cut off in a gap that is too long", record([50, 60], ended=111, **CANCELLED), "itl<=50ms", False),
    ("cut off before a gap", record([], ended=500, **CANCELLED), "itl<40ms", None),
    ("cut off, e2e is over already", record([50], ended=1001, **CANCELLED), "e2e<=1s", False),
    ("cut off, tpot is not known", record([50, 950], n=2, ended=960, **CANCELLED), "tpot<5ms", None),
    ("cut off before it was sent", RequestRecord("chat", Outcome.CANCELLED, ended_ns=ns(9)), "ttft<5ms e2e<5ms", None),
    ("gaps are within a choice", record([10, 50, 20, 60], n=4, choices=[0, 1, 0, 1]), "itl<=10ms", True),
    ("no SLO", ANSWER, "", None),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "slos", "verdict"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_verdict(request_: RequestRecord, slos: str, verdict: bool | None) -> None:
    assert met(request_, [parse_slo(text) for text in slos.split()]) is verdict


def figure(stats: RunStats, key: str, name: str | None = None) -> float | int | None:
    return next(figure.of(stats, name) for figure in FIGURES if figure.key == key)


def judged(*records: RequestRecord, stop_ms: float | None = None) -> RunStats:
    stats = RunStats(OFFSET, slos=[parse_slo("ttft<=100ms"), parse_slo("tpot<5ms")], lag_s=0)
    if stop_ms is not None:
        stats.mark_stop(ns(stop_ms))
    for each in records:
        stats.started(each.name, each.started_ns, warmup=each.warmup)
        stats.add(each)
    stats.tick(ns(10_000), ())
    return stats


MANY = [
    record([100], n=1, ended=1000),  # met
    record([101], n=1, ended=1000),  # missed
    record([], ended=1000, **FAILED),  # missed
    record([], ended=1000, **CANCELLED),  # had missed
    record([], ended=90, **CANCELLED),  # stands apart
    record([], n=3, ended=500, streamed=False),  # not judged
    record([100], n=1, sent=4000, name="rag", ended=4500),  # met
    record([100], n=1, ended=900, warmup=True),
]


def test_goodput_is_of_the_outcomes_that_can_be_judged_and_of_missed_cancelled_ones() -> None:
    stats = judged(*MANY, stop_ms=5000)
    assert (figure(stats, "slo_met"), figure(stats, "slo_missed"), figure(stats, "slo_unjudged")) == (2, 3, 1)
    assert figure(stats, "goodput_share") == 2 / 5
    assert figure(stats, "goodput") == pytest.approx(2 / 5)  # in five seconds
    assert figure(stats, "goodput_share", "rag") == 1
    assert figure(stats, "goodput", "rag") == pytest.approx(1 / 5)


def test_what_ends_in_the_drain_is_in_the_share_but_not_in_the_rate() -> None:
    stats = judged(*MANY, stop_ms=4200)
    assert figure(stats, "goodput_share") == 2 / 5
    assert figure(stats, "goodput") == pytest.approx(1 / 4.2)


def test_while_the_run_lasts_goodput_is_the_share_of_the_request_rate() -> None:
    stats = judged(*MANY)
    assert figure(stats, "goodput") == pytest.approx(2 / 4 * (figure(stats, "request_throughput") or 0))


def test_without_slos_there_is_no_goodput() -> None:
    stats = RunStats(OFFSET, lag_s=0)
    for each in MANY:
        stats.started(each.name, each.started_ns, warmup=each.warmup)
        stats.add(each)
    stats.mark_stop(ns(5000))
    assert (figure(stats, "goodput"), figure(stats, "goodput_share"), figure(stats, "slo_missed")) == (None, None, 0)


def test_the_presets_are_mlperfs() -> None:
    told = {name: [slo.limit_ms for slo in slos] for name, slos in PRESETS.items()}
    assert told["llama2-70b"] == [2000, 200]
    assert told["llama2-70b-interactive"] == [450, 40]
    assert told["mixtral-8x7b"] == [2000, 200]
    assert told["llama3.1-8b"] == [2000, 100]
    assert told["llama3.1-8b-interactive"] == [500, 30]
    assert told["llama3.1-405b"] == [6000, 175]
    assert {tuple(slo.metric for slo in slos) for slos in PRESETS.values()} == {("ttft", "tpot")}
