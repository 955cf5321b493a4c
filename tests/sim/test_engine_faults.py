"""Injected faults and natural answer lengths: what they do to a request, their shares, their seeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from locust_llm.sim.answers import AnswerLength, parse_answer_length
from locust_llm.sim.engine import Engine
from locust_llm.sim.faults import Fault, parse_fault
from locust_llm.sim.settings import EngineSettings
from tests.sim.playing import MS, Arrival, Played, S, play, ttft_ms

PLAIN = EngineSettings(slots=4, prefill_tps=1000.0, decode_ms=10.0, decode_slope_ms=0.0)


def played(fault: Fault, arrivals: int = 1, max_tokens: int = 20) -> Played:
    settings = replace(PLAIN, faults=(fault,), slots=64)
    return play(settings, [Arrival(number * S, 10, max_tokens) for number in range(arrivals)])


@pytest.mark.parametrize("kind", ["reset", "error", "truncate"])
def test_a_broken_answer_ends_early_with_its_name(kind: str) -> None:
    run = played(parse_fault(f"{kind}:1"), arrivals=50)
    assert {sequence.outcome for sequence in run.sequences()} == {kind}
    lengths = {sequence.tokens for sequence in run.sequences()}
    assert min(lengths) >= 1
    assert max(lengths) <= 19
    assert len(lengths) > 10
    assert run.engine.tally.faulted == 50
    assert run.engine.tally.tokens == sum(event.tokens for event in run.events)


def test_a_stall_pauses_one_stream_and_holds_its_slot() -> None:
    settings = replace(PLAIN, slots=1, faults=(Fault("stall", 1.0, 3.0),))
    run = play(settings, [Arrival(0, 10, 20), Arrival(MS, 10, 2)])
    times_ns = [event.time_ns for event in run.events if event.number == 1 and event.tokens]
    gaps_ms = [(after - before) / MS for before, after in pairwise(times_ns)]
    assert run.sequence(0).tokens == 20
    assert gaps_ms.count(10.0) == 18
    assert max(gaps_ms) == 3010.0
    assert run.sequence(1).started_ns == times_ns[-1]


def test_others_go_on_during_a_stall() -> None:
    settings = replace(PLAIN, faults=(Fault("stall", 0.5, 3.0),))
    run = play(settings, [Arrival(0, 10, 20)] * 4)
    stalled = {
        event.number for event in run.events if event.tokens and event.time_ns > 2 * S
    }  # three seconds later they still talk
    assert 0 < len(stalled) < 4
    done_ns = [s.ended_ns for s in run.sequences() if s.number not in stalled]
    assert all(ended_ns is not None and ended_ns < S for ended_ns in done_ns)


def test_a_slow_start_delays_the_first_token_only() -> None:
    run = played(Fault("slow", 1.0, 1.5))
    assert ttft_ms(run.sequence(0)) == 1510.0
    assert run.sequence(0).tokens == 20


def test_a_one_token_answer_can_be_broken_but_not_stalled() -> None:
    assert played(Fault("reset", 1.0), max_tokens=1).sequence(0).outcome == "reset"
    stalled = played(Fault("stall", 1.0, 3.0), max_tokens=1).sequence(0)
    assert (stalled.outcome, stalled.ended_ns) == ("length", 10 * MS)


def test_shares_are_kept_and_one_request_meets_one_fault() -> None:
    faults = (Fault("reset", 0.2), Fault("error", 0.1), Fault("slow", 0.3, 1.0))
    settings = replace(PLAIN, slots=5000, step_tokens=50_000, faults=faults)
    run = play(settings, [Arrival(0, 10, 5)] * 5000, bulk=True)
    outcomes = Counter(sequence.outcome for sequence in run.sequences())
    slow = sum(sequence.slow_ns > 0 for sequence in run.sequences())
    assert outcomes["reset"] == pytest.approx(1000, abs=100)
    assert outcomes["error"] == pytest.approx(500, abs=80)
    assert slow == pytest.approx(1500, abs=120)
    assert all(not s.slow_ns or s.outcome == "length" for s in run.sequences())


LENGTHS = [
    ("200", 200.0, 0.0),
    ("constant:64", 64.0, 0.0),
    ("uniform:50:150", 100.0, 29.2),
    ("normal:200:30", 200.0, 30.0),
    ("lognormal:100:0.5", 113.3, 60.4),
    ("geometric:0.01", 100.0, 99.5),
    ("geometric:1", 1.0, 0.0),
]


@pytest.mark.parametrize(("text", "mean", "deviation"), LENGTHS)
def test_answer_lengths_have_their_mean_and_deviation(text: str, mean: float, deviation: float) -> None:
    random, length = Random(4), parse_answer_length(text)
    draws = [length.draw(random) or 0 for _ in range(20_000)]
    average = sum(draws) / len(draws)
    assert average == pytest.approx(mean, rel=0.03)
    assert (sum((draw - average) ** 2 for draw in draws) / len(draws)) ** 0.5 == pytest.approx(deviation, rel=0.05)
    assert min(draws) >= 1


def test_a_natural_end_says_stop_and_a_cut_says_length() -> None:
    settings = replace(PLAIN, answers=AnswerLength("constant", 8))
    run = play(settings, [Arrival(0, 10, 20), Arrival(0, 10, 8), Arrival(0, 10, 5)])
    assert [(s.outcome, s.tokens) for s in run.sequences()] == [("stop", 8), ("stop", 8), ("length", 5)]
    assert (run.engine.tally.stop, run.engine.tally.length) == (2, 1)


def test_the_same_seed_gives_the_same_run() -> None:
    faults = (Fault("reset", 0.1), Fault("stall", 0.2, 0.5), Fault("slow", 0.2, 0.1))
    settings = replace(PLAIN, answers=parse_answer_length("lognormal:30:0.6"), faults=faults, kv_tokens=300)
    arrivals = [Arrival(number * 30 * MS, 20, 100) for number in range(100)]
    runs = [play(replace(settings, seed=seed), arrivals).events for seed in (7, 7, 8)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("bulk", [False, True], ids=["step by step", "in bulk"])
def test_the_gap_of_a_stall_is_told(bulk: bool) -> None:
    """A tick names the gaps that are longer than its step, so that the server's own metrics can be exact."""
    engine = Engine(replace(PLAIN, faults=(Fault("stall", 1.0, 3.0),)))
    engine.submit(0, 10, 20)
    gaps_ms = [gap_ns / MS for tick in iter(lambda: engine.advance(10 * S, bulk), None) for gap_ns in tick.gaps_ns]
    assert gaps_ms == [3010.0]


def test_a_preempted_request_starts_slowly_only_once() -> None:
    settings = replace(PLAIN, kv_tokens=120, faults=(Fault("slow", 1.0, 5.0),))
    run = play(settings, [Arrival(0, 50, 40), Arrival(0, 50, 40)])
    assert run.sequence(1).preemptions == 1
    assert run.sequence(1).ended_ns is not None
    assert run.sequence(1).ended_ns < 7 * S
