"""What holds for every engine under every load: both ways of playing agree, nothing is lost, nothing is exceeded."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.sim.answers import parse_answer_length
from locust_llm.sim.faults import Fault
from locust_llm.sim.sequence import Event
from locust_llm.sim.settings import EngineSettings
from tests.sim.playing import MS, Arrival, play

FAULTS = (Fault("stall", 0.3, 0.05), Fault("slow", 0.2, 0.03), Fault("reset", 0.1), Fault("truncate", 0.1))


def rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Most engines have most mechanisms off, or every request would be refused or cut short by one of them."""
    return st.sampled_from([usual] * 2 * len(others) + list(others))


ENGINES = st.builds(
    EngineSettings,
    slots=st.integers(1, 6),
    prefill_tps=st.sampled_from([500.0, 5000.0, math.inf]),
    decode_ms=st.sampled_from([1.0, 7.3]),
    decode_slope_ms=st.sampled_from([0.0, 0.37, 3.0]),
    decode_law=st.sampled_from(["linear", "roofline"]),
    decode_context_ms=rarely(0.0, 0.5),
    entry_ms=rarely(0.0, 4.0),
    step_tokens=rarely(2048, 6, 17, 64),
    kv_tokens=rarely(None, 90, 200),
    prefix_cache_tokens=rarely(None, 64),
    max_queue=rarely(None, 0, 3),
    rate_limit_rps=rarely(None, 50.0),
    answers=rarely(parse_answer_length("1000"), parse_answer_length("geometric:0.05")),
    faults=rarely((), FAULTS),
    seed=st.integers(0, 3),
)


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    at_ns = draw(st.integers(0, 500)) * MS // 2
    stays_ns = draw(rarely(None, 0, 3 * MS, 40 * MS, 41 * MS))
    return Arrival(
        at_ns,
        prompt_tokens=draw(st.integers(1, 40)),
        max_tokens=draw(rarely(50, 0, 1, 2, 7)),
        cancelled_ns=at_ns + stays_ns if stays_ns is not None else None,
        blocks=tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
    )


def totals(events: list[Event]) -> list[tuple[int, str, int, int]]:
    """What both ways must agree on: first tokens and ends to the nanosecond, and each request's tokens."""
    tokens: Counter[int] = Counter()
    last_ns: dict[int, int] = {}
    exact = []
    for event in events:
        if event.tokens:
            tokens[event.number] += event.tokens
            last_ns[event.number] = event.time_ns
        if event.kind != "tokens":
            exact.append((event.number, event.kind, event.time_ns, tokens[event.number]))
    return sorted(exact) + sorted((number, "last", last_ns[number], tokens[number]) for number in tokens)


@settings(max_examples=150, deadline=None)
@given(ENGINES, st.lists(arrivals(), min_size=1, max_size=14))
def test_bulk_and_single_steps_agree_and_nothing_is_lost(engine: EngineSettings, load: list[Arrival]) -> None:
    single, bulk = play(engine, load), play(engine, load, bulk=True)
    assert totals(single.events) == totals(bulk.events)
    assert single.engine.tally == bulk.engine.tally
    tally = single.engine.tally
    assert tally.received == len(load)
    assert tally.in_flight == single.engine.running == single.engine.waiting == single.engine.kv_used == 0
    assert tally.received == tally.finished + tally.faulted + tally.cancelled + tally.refused
    assert tally.tokens == sum(event.tokens for event in single.events)
    for sequence in single.sequences():
        assert sequence.outcome is not None
        assert sequence.outcome == "cancelled" or sequence.tokens == sequence.target
        times_ns = (sequence.arrived_ns, sequence.started_ns, sequence.first_ns, sequence.last_ns)
        known_ns = [time_ns for time_ns in times_ns if time_ns is not None]
        assert known_ns == sorted(known_ns)


@settings(max_examples=60, deadline=None)
@given(ENGINES, st.lists(arrivals(), min_size=1, max_size=10))
def test_the_same_seed_and_load_give_the_same_events(engine: EngineSettings, load: list[Arrival]) -> None:
    assert play(engine, load).events == play(engine, load).events
