"""The engine's timing laws and its order of service, on the virtual clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from locust_llm.sim.engine import Engine
from locust_llm.sim.sequence import Event, Sequence
from locust_llm.sim.settings import EngineSettings
from tests.sim.playing import MS, Arrival, play, tpot_ms, ttft_ms

PLAIN = EngineSettings(slots=4, prefill_tps=1000.0, decode_ms=10.0, decode_slope_ms=0.0)


@pytest.mark.parametrize(
    ("settings", "prompt_tokens", "expected_ms"),
    [
        pytest.param(PLAIN, 500, 500.0, id="prefill time is prompt / prefill_tps"),
        pytest.param(replace(PLAIN, prefill_tps=8000.0), 500, 62.5, id="faster prefill"),
        pytest.param(replace(PLAIN, entry_ms=7.0), 500, 507.0, id="entry delay comes on top"),
        pytest.param(replace(PLAIN, step_tokens=64), 500, 500.0, id="cut in chunks it takes the same time alone"),
        pytest.param(replace(PLAIN, prefill_tps=float("inf"), entry_ms=3.0), 500, 3.000001, id="free prefill: 1 ns"),
    ],
)
def test_ttft_of_a_lone_request(settings: EngineSettings, prompt_tokens: int, expected_ms: float) -> None:
    run = play(settings, [Arrival(5 * MS, prompt_tokens, 3)])
    assert ttft_ms(run.sequence(0)) == pytest.approx(expected_ms, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "streams", "expected_ms"),
    [
        pytest.param(replace(PLAIN, decode_slope_ms=0.5), 1, 10.5, id="linear, alone"),
        pytest.param(replace(PLAIN, decode_slope_ms=0.5), 4, 12.0, id="linear, four streams"),
        pytest.param(replace(PLAIN, decode_slope_ms=4.0, decode_law="roofline"), 2, 10.0, id="roofline, flat part"),
        pytest.param(replace(PLAIN, decode_slope_ms=4.0, decode_law="roofline"), 4, 16.0, id="roofline, rising part"),
        pytest.param(replace(PLAIN, decode_context_ms=100.0), 1, 11.15, id="context: 10 to 13 tokens, 11.5 on average"),
    ],
)
def test_decode_step_follows_its_law(settings: EngineSettings, streams: int, expected_ms: float) -> None:
    run = play(settings, [Arrival(0, 10, 5)] * streams)
    assert [tpot_ms(sequence) for sequence in run.sequences()] == [pytest.approx(expected_ms)] * streams


def test_the_exact_events_of_two_requests() -> None:
    run = play(PLAIN, [Arrival(0, 10, 3), Arrival(15 * MS, 20, 2)])
    assert run.events == [
        Event(10 * MS, 1, "first", 1),
        Event(20 * MS, 1, "tokens", 1),
        # the second came in the middle of that step; its prompt shares the next one, which takes 10 + 20 ms
        Event(50 * MS, 1, "tokens", 1),
        Event(50 * MS, 2, "first", 1),
        Event(50 * MS, 1, "length", 0),
        Event(60 * MS, 2, "tokens", 1),
        Event(60 * MS, 2, "length", 0),
    ]


def test_everybody_of_one_instant_is_in_the_same_step() -> None:
    run = play(PLAIN, [Arrival(0), Arrival(0), Arrival(0)])
    assert {sequence.first_ns for sequence in run.sequences()} == {30 * MS}


def test_service_is_first_come_first_served_and_slots_are_respected() -> None:
    settings = replace(PLAIN, slots=3)
    engine = Engine(settings)
    sequences = [engine.submit(0, 5, 4 + number) for number in range(10)]
    most = 0
    while engine.advance(10**12) is not None:
        most = max(most, engine.running)
        assert engine.running + engine.waiting == engine.tally.in_flight
    starts = [sequence.started_ns for sequence in sequences if isinstance(sequence, Sequence)]
    assert most == 3
    assert len(starts) == 10
    assert starts == sorted(starts, key=lambda start: start if start is not None else -1)
    assert starts[:3] == [0, 0, 0]
    assert starts[3] != 0


def test_chunked_prefill_lets_others_decode_meanwhile() -> None:
    """A long prompt of 1,000 tokens at 100 a step: whoever decodes gets a token in each of these steps."""
    settings = replace(PLAIN, step_tokens=101)
    run = play(settings, [Arrival(0, 10, 30), Arrival(25 * MS, 1000, 1)])
    long_first_ns = run.sequence(1).first_ns
    meanwhile = [event for event in run.events if event.number == 1 and 30 * MS < event.time_ns <= (long_first_ns or 0)]
    assert len(meanwhile) == 10
    assert long_first_ns == 30 * MS + 10 * (10 + 100) * MS


def test_no_output_wanted_ends_with_the_prefill() -> None:
    run = play(PLAIN, [Arrival(0, 100, 0)])
    assert run.events == [Event(100 * MS, 1, "length", 0)]
    assert run.sequence(0).first_ns is None


CANCELS = [
    pytest.param(5 * MS, 0, id="while its prompt is prefilled"),
    pytest.param(25 * MS, 2, id="while it decodes: the token under way is lost"),
    pytest.param(20 * MS, 2, id="at a boundary"),
]


@pytest.mark.parametrize(("at_ns", "tokens"), CANCELS)
def test_a_cancelled_request_leaves_at_once(at_ns: int, tokens: int) -> None:
    run = play(replace(PLAIN, slots=1), [Arrival(0, 10, 50, cancelled_ns=at_ns), Arrival(MS, 10, 2)])
    left, next_one = run.sequence(0), run.sequence(1)
    assert (left.outcome, left.tokens) == ("cancelled", tokens)
    # The step under way when it left takes its time; the slot is free at its end.
    assert next_one.started_ns == -(-at_ns // (10 * MS)) * 10 * MS
    assert next_one.outcome == "length"
    assert run.engine.running == run.engine.kv_used == 0


@pytest.mark.parametrize("settings", [replace(PLAIN, slots=1), replace(PLAIN, entry_ms=50.0)], ids=["waits", "enters"])
def test_cancelled_before_it_had_a_slot(settings: EngineSettings) -> None:
    run = play(settings, [Arrival(0, 10, 50), Arrival(MS, 10, 2, cancelled_ns=30 * MS)])
    assert run.sequence(1).outcome == "cancelled"
    assert run.sequence(1).started_ns is None
    assert run.engine.waiting == 0
    assert run.engine.tally.in_flight == 0


def test_cancelling_what_has_ended_changes_nothing() -> None:
    run = play(PLAIN, [Arrival(0, 10, 2, cancelled_ns=500 * MS)])
    assert run.sequence(0).outcome == "length"
    assert run.engine.tally.cancelled == 0


def test_a_call_out_of_order_is_refused_by_name() -> None:
    engine = Engine(PLAIN)
    engine.submit(0, 10, 5)
    with pytest.raises(ValueError, match="advance to 50000000 ns before"):
        engine.submit(50 * MS, 10, 5)


def test_next_ns_names_the_next_thing_to_happen() -> None:
    engine = Engine(replace(PLAIN, entry_ms=5.0))
    assert engine.next_ns() is None
    engine.submit(0, 10, 1)
    assert engine.next_ns() == 5 * MS  # it joins the queue
    assert engine.advance(5 * MS) is None
    assert engine.next_ns() == 15 * MS  # its prompt is done
    assert engine.advance(15 * MS) is not None
    assert engine.next_ns() is None


def test_tokens_of_a_running_sequence() -> None:
    engine = Engine(PLAIN)
    sequence = engine.submit(0, 10, 50)
    assert isinstance(sequence, Sequence)
    seen = []
    for _ in range(4):
        assert engine.advance(10**12) is not None
        seen.append(engine.tokens_of(sequence))
    assert seen == [1, 2, 3, 4]


def test_step_jitter_is_within_its_share_and_seeded() -> None:
    settings = replace(PLAIN, step_jitter=0.2)
    runs = [play(replace(settings, seed=seed), [Arrival(0, 10, 200)]).events for seed in (1, 1, 2)]
    times_ns = [event.time_ns for event in runs[0] if event.tokens]
    gaps_ms = [(after - before) / MS for before, after in pairwise(times_ns)]
    assert runs[0] == runs[1] != runs[2]
    assert 8.0 <= min(gaps_ms) < 8.5
    assert 11.5 < max(gaps_ms) <= 12.0
