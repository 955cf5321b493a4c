"""KneeSearch: what it runs next, and what it says, on servers whose throughput is a known law."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from locust_llm.analysis.cause import CauseKind
from locust_llm.analysis.knee import KneeSearch, Step
from locust_llm.analysis.step import Attainment, Status, StepResult
from locust_llm.analysis.verdict import Verdict, VerdictKind
from tests.analysis.build import step, sweep

Law = Callable[[float], float]
Make = Callable[[Step], StepResult]


def slots(count: float) -> Law:
    return lambda users: 50.0 * min(users, count)


def contention(half: float) -> Law:
    return lambda users: 2000.0 * users / (half + users)


def proportional(users: float) -> float:
    return 50.0 * users


def of(law: Law, **more: Any) -> Make:
    return lambda asked: step(asked.load, law(asked.load), output_factor=asked.output_factor, **more)


def run(search: KneeSearch, make: Make) -> tuple[Verdict, list[float]]:
    """The verdict, and the loads in the order they were run."""
    results: list[StepResult] = []
    for _ in range(50):
        asked = search.next(results)
        if isinstance(asked, Verdict):
            return asked, [result.load for result in results]
        results.append(make(asked))
    raise AssertionError([result.load for result in results])


# id, law, limit, loads in order, bracket, knee
SEARCHES = [
    ("5 slots", slots(5), 256, [1, 2, 4, 8, 16, 6, 5], (4, 6), 5),
    ("11 slots", slots(11), 256, [1, 2, 4, 8, 16, 32, 11, 13, 9, 10], (10, 13), 11),
    ("16 slots, a power of two", slots(16), 256, [1, 2, 4, 8, 16, 32, 23, 11, 13, 19, 14], (14, 19), 16),
    ("23 slots", slots(23), 256, [1, 2, 4, 8, 16, 32, 64, 23, 19, 27, 21], (21, 27), 23),
    ("the limit is no power of two", slots(16), 24, [1, 2, 4, 8, 16, 24, 11, 20, 13, 18, 14], (14, 18), 16),
    ("2 slots", slots(2), 256, [1, 2, 4, 3], (1, 3), 2),
    ("contention", contention(24), 256, [1, 2, 4, 8, 16, 32, 64, 128, 23, 19, 27], (13, 45), 24),
]


@pytest.mark.parametrize(
    ("law", "limit", "loads", "bracket", "knee"), [c[1:] for c in SEARCHES], ids=[c[0] for c in SEARCHES]
)
def test_a_search(law: Law, limit: int, loads: list[int], bracket: tuple[int, int], knee: float) -> None:
    verdict, run_loads = run(KneeSearch(limit), of(law))
    assert verdict.kind is VerdictKind.KNEE
    assert verdict.complete
    assert verdict.knee == pytest.approx(knee, rel=0.1)
    assert verdict.zone is not None
    assert verdict.zone[0] <= knee <= verdict.zone[1]
    low, high = verdict.bracket
    assert low is not None
    assert high is not None
    assert low <= knee <= high
    if law is not SEARCHES[-1][1]:  # where power is flat the bracket hangs on the errors
        assert (run_loads, verdict.bracket) == (loads, bracket)


def test_the_first_step_and_the_spread_of_the_next_spawns() -> None:
    search = KneeSearch(64)
    assert search.next([]) == Step(1.0)
    assert search.next([step(1, 50.0, residence_s=3.5)]) == Step(2.0, 3.5)
    assert KneeSearch(64, first=4).next([]) == Step(4.0)
    assert KneeSearch(2, first=4).next([]) == Step(2.0)


def test_no_knee_in_range() -> None:
    verdict, loads = run(KneeSearch(100), of(proportional))
    assert (verdict.kind, verdict.knee, verdict.zone, verdict.cause) == (VerdictKind.ABOVE, None, None, None)
    assert verdict.bracket == (64, None)
    assert loads == [1, 2, 4, 8, 16, 32, 64, 100]
    assert verdict.sentence.startswith("No knee up to 100 users")


def test_a_knee_just_below_the_limit_is_found() -> None:
    """The highest load is the best of the doublings, but throughput has stopped growing in proportion."""
    verdict, loads = run(KneeSearch(256), of(slots(200)))
    assert loads[-2:] != [128, 256]
    assert verdict.kind is VerdictKind.KNEE
    assert verdict.bracket[0] is not None
    assert verdict.bracket[1] is not None
    assert verdict.bracket[0] <= 200 <= verdict.bracket[1]


def test_at_or_below_the_lowest_load() -> None:
    verdict, loads = run(KneeSearch(64), of(lambda _: 50.0))
    assert (verdict.kind, verdict.knee, verdict.best) == (VerdictKind.BELOW, None, 1.0)
    assert loads == [1, 2]
    assert "at or below 1 user" in verdict.sentence


def test_a_client_limited_step_ends_the_search_and_proves_nothing() -> None:
    def make(asked: Step) -> StepResult:
        if asked.load < 16:
            return step(asked.load, 50.0 * asked.load)
        return step(asked.load, 400.0, status=Status.CLIENT_LIMITED, why="97 % of a core")

    verdict, loads = run(KneeSearch(256), make)
    assert loads == [1, 2, 4, 8, 16]
    assert (verdict.kind, verdict.knee, verdict.complete) == (VerdictKind.CLIENT_LIMITED, None, False)
    assert "client, not the server, was the bottleneck at 16 users: 97 % of a core" in verdict.sentence
    assert "No knee shows up to 8 users" in verdict.sentence


def test_a_client_limited_step_below_the_bracket_spoils_it_too() -> None:
    steps = sweep([1, 2, 4, 8, 16, 32], slots(8))
    spoilt = step(6, 250.0, status=Status.CLIENT_LIMITED)
    assert KneeSearch(256).verdict([*steps, spoilt]).kind is VerdictKind.CLIENT_LIMITED


def test_a_step_too_short_ends_the_search() -> None:
    short = step(4, 100.0, status=Status.TOO_SHORT, why="3 of 8 batches")
    verdict = KneeSearch(256).next([*sweep([1, 2], proportional), short])
    assert isinstance(verdict, Verdict)
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "too short to judge: 3 of 8 batches" in verdict.sentence


def test_nothing_succeeds() -> None:
    verdict, loads = run(KneeSearch(8), of(lambda _: 0.0))
    assert (verdict.kind, loads) == (VerdictKind.UNKNOWN, [1])
    assert verdict.sentence == "No step had a successful request."


def test_a_server_that_dies_at_some_load_has_a_knee_below() -> None:
    verdict, _ = run(KneeSearch(64), of(lambda users: 50.0 * users if users <= 20 else 0.0))
    assert verdict.kind is VerdictKind.KNEE
    assert verdict.bracket[1] == 21
    assert verdict.best in (19, 20)


def test_a_cut_off_search_says_what_it_has() -> None:
    steps = sweep([1, 2, 4, 8, 16, 32], slots(11))
    early, late = KneeSearch(256).verdict(steps[:3]), KneeSearch(256).verdict(steps)
    assert (early.kind, early.complete) == (VerdictKind.UNKNOWN, False)
    assert early.sentence == "Cut off at 4 users before a knee showed."
    assert (late.kind, late.complete, late.bracket) == (VerdictKind.KNEE, False, (4, 16))
    assert "Not all steps were run" in late.notes[0]
    assert KneeSearch(256).verdict([]).sentence == "No step was run."


def test_a_repeated_load_counts_once_the_latest() -> None:
    steps = [step(4, 10.0), *sweep([1, 2, 4, 8, 16, 32], slots(11))]
    assert KneeSearch(256).verdict(steps).bracket == KneeSearch(256).verdict(steps[1:]).bracket


def test_one_step_low_by_chance_does_not_close_the_bracket() -> None:
    """Power has one maximum: a step next to the best counts only when those beyond it are low too."""
    steps = {load: contention(24)(load) for load in (1, 2, 4, 8, 16, 19, 21, 23, 27, 32, 64, 128)}
    steps[21] *= 0.96
    verdict = KneeSearch(256).verdict([step(load, rate) for load, rate in steps.items()])
    assert verdict.bracket[0] is not None
    assert verdict.bracket[0] < 19


def test_the_bracket_grows_with_the_errors() -> None:
    loads = [1, 2, 4, 8, 11, 13, 16, 19, 23, 27, 32, 45, 64, 128]
    sharp, blunt = (
        KneeSearch(256).verdict(sweep(loads, contention(16), ln_error=ln_error)) for ln_error in (0.002, 0.02)
    )
    assert sharp.bracket[0] is not None
    assert sharp.bracket[1] is not None
    assert blunt.bracket[0] is not None
    assert blunt.bracket[1] is not None
    assert blunt.bracket[0] < sharp.bracket[0] < 16 < sharp.bracket[1] < blunt.bracket[1]


def test_measured_users_are_the_axis() -> None:
    """Where fewer users run than were asked for, power is that of those who ran, and a note says so."""
    steps = [step(load, slots(11)(0.8 * load), users=0.8 * load) for load in (1, 2, 4, 8, 16, 32)]
    verdict = KneeSearch(256).verdict(steps)
    assert verdict.zone is not None
    assert verdict.knee == pytest.approx(11.0, rel=0.2)
    assert any("32 users were asked for and 25.6 ran" in note for note in verdict.notes)


# id, what is odd about the step of 8 users, note
NOTES: list[tuple[str, dict[str, Any], str]] = [
    ("noisy", {"status": Status.NOISY, "why": "± 4 %"}, "The step of 8 users is noisy: ± 4 %."),
    ("drifting", {"status": Status.DRIFTING}, "The step of 8 users is drifting."),
    ("little", {"little": 1.6}, "At 8 users requests in flight are 1.60 times what Little's law gives"),
]


@pytest.mark.parametrize(("odd", "note"), [case[1:] for case in NOTES], ids=[case[0] for case in NOTES])
def test_notes(odd: dict[str, Any], note: str) -> None:
    steps = [*sweep([1, 2, 4, 16, 32], slots(5)), step(8, 250.0, **odd)]
    assert any(note in said for said in KneeSearch(256).verdict(steps).notes)


def test_named_capacities_beside_the_knee() -> None:
    verdict, _ = run(KneeSearch(256), of(slots(23)))
    assert verdict.saturation == pytest.approx(0.95 * 23, rel=0.03)
    assert verdict.littles_bound == pytest.approx(23.0)
    assert verdict.slo_capacity is None
    assert verdict.requests_per_s is not None
    assert verdict.rate_to_confirm_rps == pytest.approx(0.8 * verdict.requests_per_s)


def attained(limit: float) -> Make:
    def make(asked: Step) -> StepResult:
        share = 1.0 if asked.load <= limit else 0.5
        return step(asked.load, slots(23)(asked.load), attainment=Attainment(share, share - 0.02))

    return make


# id, highest load that meets the SLOs, capacity found at least
SLO_CASES = [("below the knee", 10, 9), ("past the knee", 50, 45), ("at every load", 999, 64)]


@pytest.mark.parametrize(("limit", "least"), [case[1:] for case in SLO_CASES], ids=[case[0] for case in SLO_CASES])
def test_slo_capacity_is_looked_for_and_leads(limit: float, least: float) -> None:
    verdict, loads = run(KneeSearch(64, slo_target=0.95), attained(limit))
    assert verdict.slo_capacity is not None
    assert least <= verdict.slo_capacity <= limit
    assert verdict.sentence.startswith(f"SLO capacity: up to {verdict.slo_capacity:.0f} users 95 % of the requests")
    assert verdict.kind is VerdictKind.KNEE
    above = [load for load in loads if load > verdict.slo_capacity]
    assert not above or min(above) / verdict.slo_capacity <= 1.23


def test_no_load_meets_the_slos() -> None:
    verdict, _ = run(KneeSearch(64, slo_target=0.99), attained(0))
    assert verdict.slo_capacity is None
    assert verdict.sentence.startswith("SLO capacity: not even the lightest step")


def test_the_probe_is_asked_for_once_and_told_apart() -> None:
    asked: list[Step] = []

    def make(wanted: Step) -> StepResult:
        asked.append(wanted)
        streams = min(wanted.load, 23.0) * (0.7 if wanted.output_factor == 2.0 else 1.0)
        return step(wanted.load, 50.0 * streams, decoding=streams, output_factor=wanted.output_factor)

    verdict, _ = run(KneeSearch(256, probe=True), make)
    assert [wanted.output_factor for wanted in asked].count(2.0) == 1
    assert (asked[-1].output_factor, asked[-1].load) == (2.0, 64)
    assert verdict.cause is not None
    assert verdict.cause.kind is CauseKind.KV
    assert verdict.bracket == (21, 27), "the probe is no step of the ladder"


def test_without_a_probe_slots_and_kv_look_alike() -> None:
    verdict, _ = run(
        KneeSearch(256), lambda asked: step(asked.load, slots(23)(asked.load), decoding=min(asked.load, 23))
    )
    assert verdict.cause is not None
    assert verdict.cause.kind is CauseKind.SLOT_OR_KV
    assert "from outside the two look alike" in verdict.sentence


def test_the_search_ends_on_any_law() -> None:
    for half in (0.5, 3, 17, 90, 400):
        for limit in (1, 2, 3, 7, 50, 1000):
            verdict, loads = run(KneeSearch(limit), of(contention(half)))
            assert len(loads) == len(set(loads)) <= 2 * math.log2(limit) + 10
            assert verdict.complete
