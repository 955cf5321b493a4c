"""The cause: from what grows with the users past the knee."""

from __future__ import annotations

from typing import Any

import pytest

from locust_llm.analysis.cause import CauseKind, find_cause, wants_probe
from locust_llm.analysis.client import client_limit
from locust_llm.analysis.step import ServerLoad, StepResult
from tests.analysis.build import step

SLOTS = {"decoding": 16.0}


def at(load: float, rate: float = 800.0, **more: Any) -> StepResult:
    return step(load, rate, **more)


def refused(share: float) -> dict[str, Any]:
    return {"outcomes": 1000, "refused": int(1000 * share), "errors": {"HTTP 429": 9, "timeout": 1}}


# id, before (20 users), past (40 users), probe, kind, words in the sentence
CASES: list[tuple[str, StepResult, StepResult, StepResult | None, CauseKind, list[str]]] = [
    (
        "requests are sent away",
        at(20, in_flight=18.0),
        at(40, in_flight=18.5, decoding=18.0, **refused(0.4)),
        None,
        CauseKind.RATE_LIMIT,
        ["at 40 users 40 % of the requests were sent away (HTTP 429)", "stayed at 18.5"],
    ),
    (
        "a few are sent away and the queue grows all the same",
        at(20, **SLOTS),
        at(40, **SLOTS, **refused(0.02)),
        None,
        CauseKind.SLOT_OR_KV,
        ["16 decode at once", "look alike"],
    ),
    (
        "throughput falls",
        at(20, 800.0),
        at(40, 700.0, server=ServerLoad(preemptions=31)),
        None,
        CauseKind.COLLAPSE,
        ["collapses under load: 700 tok/s at 40 users, 12.5 % below the 800 at 20", "preempted 31 requests"],
    ),
    ("it falls by less than 5 %", at(20, 800.0, **SLOTS), at(40, 770.0, **SLOTS), None, CauseKind.SLOT_OR_KV, []),
    (
        "it falls within the noise",
        at(20, 800.0, ln_error=0.03, **SLOTS),
        at(40, 740.0, ln_error=0.03, **SLOTS),
        None,
        CauseKind.SLOT_OR_KV,
        [],
    ),
    (
        "requests queue",
        at(20, **SLOTS),
        at(40, decoding=16.2),
        None,
        CauseKind.SLOT_OR_KV,
        ["from 20 to 40 users streams decoding went from 16 to 16.2, requests in flight from 20 to 40"],
    ),
    (
        "the server says it preempts",
        at(20, **SLOTS),
        at(40, **SLOTS, server=ServerLoad(kv_use=0.7, preemptions=12)),
        None,
        CauseKind.KV,
        ["room in the KV cache", "preempted 12 requests"],
    ),
    (
        "the server says its KV is full",
        at(20, **SLOTS),
        at(40, **SLOTS, server=ServerLoad(kv_use=0.97, preemptions=0)),
        None,
        CauseKind.KV,
        ["97 % full"],
    ),
    (
        "the server says its KV is free",
        at(20, **SLOTS),
        at(40, **SLOTS, server=ServerLoad(kv_use=0.3, preemptions=0)),
        None,
        CauseKind.SLOT,
        ["queue for a slot", "only 30 % full"],
    ),
    (
        "the server says nothing of KV",
        at(20, **SLOTS),
        at(40, **SLOTS, server=ServerLoad(running=16.0, waiting=24.0)),
        None,
        CauseKind.SLOT_OR_KV,
        [],
    ),
    (
        "the probe decodes fewer",
        at(20, **SLOTS),
        at(40, **SLOTS),
        at(40, decoding=13.0, output_factor=2.0),
        CauseKind.KV,
        ["with answers 2 times as long 13 decode at once"],
    ),
    (
        "the probe decodes as many",
        at(20, **SLOTS),
        at(40, **SLOTS),
        at(40, decoding=16.1, output_factor=2.0),
        CauseKind.SLOT,
        ["queue for a slot", "with answers 2 times as long 16.1 decode at once"],
    ),
    (
        "streams slow each other",
        at(20),
        at(40, 900.0),
        None,
        CauseKind.CONTENTION,
        ["streams decoding went from 20 to 40 and TPOT from 25 to 44.4 ms"],
    ),
    (
        "everything grows but TPOT",
        at(20, 800.0),
        at(40, 1600.0),
        None,
        CauseKind.UNCLEAR,
        ["requests in flight went from 20 to 40"],
    ),
    ("TPOT is unknown", at(20), at(40, decoding=None, tpot_ms=None), None, CauseKind.UNCLEAR, ["nothing tells"]),
]


@pytest.mark.parametrize(
    ("before", "past", "probe", "kind", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_causes(
    before: StepResult, past: StepResult, probe: StepResult | None, kind: CauseKind, words: list[str]
) -> None:
    cause = find_cause(before, past, before, probe)
    assert cause.kind is kind
    for word in words:
        assert word in cause.sentence
    assert wants_probe(cause) == (kind is CauseKind.SLOT_OR_KV and probe is None)


def test_the_numbers_it_rests_on() -> None:
    numbers = find_cause(at(20, **SLOTS), at(40, **SLOTS), at(20)).numbers
    assert (numbers["users_before"], numbers["users_past"]) == (20.0, 40.0)
    assert numbers["in_flight_growth"] == pytest.approx(1.0)
    assert numbers["decoding_growth"] == pytest.approx(0.0)
    assert not wants_probe(None)


# CPU share, hub lag p99 in ms, part of the reason (D21)
CLIENTS = [
    (0.5, 3.0, None),
    (None, None, None),
    (0.9, 20.0, None),
    (0.97, 3.0, "97 % of a core"),
    (0.5, 45.0, "45 ms late"),
]


@pytest.mark.parametrize(("cpu_share", "lag_ms", "reason"), CLIENTS)
def test_a_busy_client(cpu_share: float | None, lag_ms: float | None, reason: str | None) -> None:
    found = client_limit(cpu_share, lag_ms)
    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")


def test_a_probe_whose_answers_stayed_as_long_tells_nothing() -> None:
    """Answers that end by themselves do not care what is asked for."""
    before, past = step(20.0, 800.0, **SLOTS), step(40.0, 800.0, **SLOTS)
    probe = step(40.0, 800.0, **SLOTS, output_factor=2.0, requests_per_s=past.requests_per_s / 1.1)
    cause = find_cause(before, past, past, probe)
    assert cause.kind is CauseKind.SLOT_OR_KV
    assert not wants_probe(cause)
    assert "asked for 2 times the length, answers grew by 1.1 only" in cause.sentence


def test_llama_cpp_s_own_queue_tells_slots() -> None:
    """It has no KV figure to tell: a slot's KV is the slot's own."""
    held = ServerLoad(running=4.0, waiting=12.0, engine="llama.cpp")
    before, past = step(8.0, 400.0, decoding=4.0), step(16.0, 400.0, decoding=4.0, server=held)
    cause = find_cause(before, past, past)
    assert cause.kind is CauseKind.SLOT
    assert "llama.cpp itself held 4 in its slots and 12 back" in cause.sentence
    assert (cause.numbers["server_running"], cause.numbers["server_waiting"]) == (4.0, 12.0)
