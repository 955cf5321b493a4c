"""Phases: fits of probe runs find the embedded engine's own parameters again, and say what they cannot tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from locust_llm.analysis.phases import Phases, find_phases
from locust_llm.measure.probe_log import ProbePoint
from locust_llm.sim.settings import EngineSettings
from tests.analysis.probing import probe

LENGTHS = (128, 512, 1024, 2048, 4096)
CONTEXTS = (32, 1024, 4096)
BOTH = EngineSettings(entry_ms=40, prefill_tps=8000, decode_ms=15, decode_slope_ms=0.4, decode_context_ms=0.5)

# id, engine, entry in ms, prefill in tokens/s
PREFILLS = [
    ("entry and prefill", EngineSettings(entry_ms=40, prefill_tps=8000), 40.0, 8000.0),
    ("no entry to speak of", EngineSettings(entry_ms=5, prefill_tps=2500), 5.0, 2500.0),
    ("prompts in chunks", EngineSettings(entry_ms=80, prefill_tps=20_000, step_tokens=512), 80.0, 20_000.0),
    ("fast prefill", EngineSettings(entry_ms=20, prefill_tps=100_000), 20.0, 100_000.0),
]


@pytest.mark.parametrize(("engine", "entry_ms", "tps"), [case[1:] for case in PREFILLS], ids=[c[0] for c in PREFILLS])
@pytest.mark.parametrize("jitter_ms", [0.0, 0.5])
def test_the_prefill_probe_finds_entry_and_speed(
    engine: EngineSettings, entry_ms: float, tps: float, jitter_ms: float
) -> None:
    found = find_phases(probe(engine, LENGTHS, 1, jitter_ms=jitter_ms))
    fit = found.prefill
    assert fit is not None
    assert fit.tokens_per_s is not None
    assert fit.entry_ms.value == pytest.approx(entry_ms, rel=0.05)
    assert fit.tokens_per_s.value == pytest.approx(tps, rel=0.05)
    assert (fit.alone, fit.curved, fit.shortest, fit.longest) == (True, None, 128, 4096)
    assert fit.r2 is not None
    assert fit.r2 > 0.98
    assert found.decode is None
    if jitter_ms:
        low, high = fit.entry_ms.low, fit.entry_ms.high
        assert low is not None
        assert high is not None
        assert 0 < high - low < 0.2 * entry_ms + 1


def test_disturbed_requests_move_the_fit_little() -> None:
    points = probe(EngineSettings(entry_ms=40, prefill_tps=8000), LENGTHS, 1)
    late = [
        p._replace(first_s=p.first_s + 0.15) if p.first_s is not None and i % 12 == 0 else p
        for i, p in enumerate(points)
    ]
    found = find_phases(late)
    parts = {part.name: part.ms for part in found.parts}
    assert parts["unexplained"] == pytest.approx(150 / 12, rel=0.15)
    assert parts["scheduling"] < 1  # nobody else was there
    fit = found.prefill
    assert fit is not None
    assert fit.tokens_per_s is not None
    assert fit.entry_ms.value == pytest.approx(40.0, rel=0.05)
    assert fit.tokens_per_s.value == pytest.approx(8000.0, rel=0.05)


def test_the_decode_probe_finds_step_and_context() -> None:
    fit = find_phases(probe(BOTH, CONTEXTS, 128, seconds=120)).decode
    assert fit is not None
    assert fit.per_context_ms is not None
    assert fit.step_ms.value == pytest.approx(15.4, rel=0.05)
    assert fit.per_context_ms.value == pytest.approx(0.5, rel=0.05)
    assert (fit.per_stream_ms, fit.per_prefill_ms) == (None, None)  # one user: neither varied


def test_more_users_tell_what_company_costs() -> None:
    found = find_phases(probe(replace(BOTH, prefill_tps=8000), CONTEXTS, 128, users=(1, 2, 4, 8), seconds=120))
    fit = found.decode
    assert fit is not None
    assert fit.per_context_ms is not None
    assert fit.per_stream_ms is not None
    assert fit.per_prefill_ms is not None
    assert fit.step_ms.value == pytest.approx(15.4, rel=0.05)
    assert fit.per_context_ms.value == pytest.approx(0.5, rel=0.05)
    assert fit.per_stream_ms.value == pytest.approx(0.4, rel=0.05)
    assert fit.per_prefill_ms.value == pytest.approx(1000 / 8, rel=0.1)  # what prefilling 1,000 tokens takes
    assert found.wait is not None  # the first minutes had one user: they tell what TTFT is alone
    assert found.prefill is not None
    assert found.prefill.entry_ms.value == pytest.approx(40.0, rel=0.05)


def _quadratic(tokens: int) -> float:
    return 50.0 + tokens * 0.1 + tokens**2 * 2e-5


def test_prefill_that_is_not_linear_is_named() -> None:
    points = [
        ProbePoint(float(i), i + 0.9, i + _quadratic(n) / 1e3, i + _quadratic(n) / 1e3, n)
        for i, n in enumerate(LENGTHS * 15)
    ]
    fit = find_phases(points).prefill
    assert fit is not None
    assert fit.entry_ms.value == pytest.approx(50.0, rel=0.05)
    assert fit.curved == pytest.approx((1e3 / (0.1 + 4e-5 * 128), 1e3 / (0.1 + 4e-5 * 4096)), rel=0.05)


# id, engine, users, largest part
SLOW = [
    ("entry", EngineSettings(entry_ms=3000, prefill_tps=50_000, decode_ms=5), (1,), "entry"),
    ("prefill", EngineSettings(entry_ms=20, prefill_tps=500, decode_ms=5), (1,), "prefill"),
    ("decode", EngineSettings(entry_ms=20, prefill_tps=50_000, decode_ms=60), (1,), "decode"),
    ("few slots", EngineSettings(entry_ms=20, prefill_tps=50_000, decode_ms=10, slots=1), (1, 12), "scheduling"),
]


@pytest.mark.parametrize(("engine", "users", "largest"), [case[1:] for case in SLOW], ids=[case[0] for case in SLOW])
def test_a_slow_service_is_told_by_its_part(engine: EngineSettings, users: tuple[int, ...], largest: str) -> None:
    engine = replace(engine, step_tokens=max(engine.step_tokens, engine.slots))
    found = find_phases(probe(engine, CONTEXTS, 100, users=users, seconds=200))
    assert found.largest is not None
    assert found.largest.name == largest
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)


def _notes(found: Phases) -> str:
    return " ".join(found.notes)


def test_cached_prefixes_are_left_out() -> None:
    points = probe(EngineSettings(entry_ms=40, prefill_tps=8000), LENGTHS, 1)
    cached = [
        p._replace(first_s=p.sent_s + 0.041, cached_tokens=(p.input_tokens or 0) - 1) if i % 3 == 0 else p
        for i, p in enumerate(points)
    ]
    found = find_phases(cached)
    assert found.prefill is not None
    assert found.prefill.entry_ms.value == pytest.approx(40.0, rel=0.01)
    assert found.cached == (len(points) + 2) // 3
    assert "cached prefix" in _notes(found)


# id, points, what is said
UNTOLD = [
    ("nothing", [], ""),
    ("too few", probe(BOTH, LENGTHS, 1, seconds=1), "too few for a fit of TTFT"),
    ("one length", probe(BOTH, (500,), 1), "cannot be told apart"),
    ("no usage", [p._replace(input_tokens=None) for p in probe(BOTH, LENGTHS, 1)], "told its input tokens"),
]


@pytest.mark.parametrize(("points", "said"), [case[1:] for case in UNTOLD], ids=[case[0] for case in UNTOLD])
def test_what_cannot_be_told_is_not_told(points: list[ProbePoint], said: str) -> None:
    found = find_phases(points)
    assert (found.prefill, found.decode, found.wait, found.parts) == (None, None, None, ())
    assert said in _notes(found)


def test_a_crowded_probe_says_so() -> None:
    found = find_phases(probe(BOTH, LENGTHS, 1, users=(4,)), left_out=3)
    assert found.prefill is not None
    assert not found.prefill.alone
    assert found.wait is None
    assert "--users 1" in _notes(found)
    assert "3 further requests were not kept" in _notes(found)


def test_a_poor_fit_says_so() -> None:
    points = probe(EngineSettings(entry_ms=40, prefill_tps=100_000), LENGTHS, 1, jitter_ms=60.0)
    assert "explains only" in _notes(find_phases(points))
    assert "explains only" not in _notes(find_phases(probe(BOTH, LENGTHS, 1)))
