"""The knee search on simulated servers whose truth is known: bracket, knee, zone and cause, over many seeds.

The truth of a profile is the same rule on a fine, long sweep of the virtual clock (`truth.py`); the table in
`profiles.py` holds it, and a long test computes it again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from locust_llm.analysis.cause import CauseKind
from locust_llm.analysis.knee import KneeSearch
from locust_llm.analysis.step import Status
from locust_llm.analysis.verdict import Verdict, VerdictKind
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import Work
from tests.analysis.profiles import PROFILES, Profile
from tests.analysis.truth import knee_and_zone
from tests.analysis.virtual import Bench, search

LIMIT = 256
KINK = 0.15
"""How far the knee of a kinked profile may lie from the truth."""

BY_NAME = {profile.name: profile for profile in PROFILES}
each_profile = pytest.mark.parametrize("profile", PROFILES, ids=list(BY_NAME))


@dataclass
class Score:
    """Of how many seeds each answer was right; `wrong` says which were not."""

    covered: int = 0
    placed: int = 0
    caused: int = 0

    def __post_init__(self) -> None:
        self.wrong: list[str] = []

    def add(self, seed: int, profile: Profile, verdict: Verdict) -> None:
        low, high = verdict.bracket
        covered = verdict.kind is VerdictKind.KNEE and low is not None and high is not None
        covered = covered and low <= profile.knee <= high  # type: ignore[operator]
        placed = is_placed(profile, verdict.knee)
        caused = verdict.cause is not None and verdict.cause.kind in profile.causes
        self.covered += covered
        self.placed += placed
        self.caused += caused
        if not (covered and placed and caused):
            self.wrong.append(f"seed {seed}: {verdict.sentence}")


def is_placed(profile: Profile, knee: float | None) -> bool:
    """A sharp maximum is hit within 15 %; of a flat one the knee lies in the true zone."""
    if knee is None:
        return False
    if profile.kinked:
        return abs(knee / profile.knee - 1) <= KINK
    return profile.zone[0] - 0.5 <= knee <= profile.zone[1] + 0.5


def score(profile: Profile, seeds: range) -> Score:
    found = Score()
    for seed in seeds:
        verdict, results = search(Bench(profile.settings, profile.work, seed=seed), KneeSearch(LIMIT))
        assert verdict.complete
        assert all(result.little_holds is not False for result in results)
        found.add(seed, profile, verdict)
    return found


@each_profile
def test_a_search_finds_the_truth(profile: Profile) -> None:
    found = score(profile, range(2))
    assert (found.covered, found.placed, found.caused) == (2, 2, 2), found.wrong


@pytest.mark.long
@pytest.mark.timeout(600)
@each_profile
def test_twenty_searches_find_the_truth(profile: Profile) -> None:
    found = score(profile, range(20))
    print(
        f"\n{profile.name}: bracket covers {found.covered}, knee right {found.placed}, cause right {found.caused} of 20"
    )
    assert found.covered >= 19, found.wrong
    assert found.placed >= 19, found.wrong
    assert found.caused >= 18, found.wrong


@pytest.mark.long
@pytest.mark.timeout(900)
@each_profile
def test_the_table_of_truths_is_the_rule_on_a_fine_long_sweep(profile: Profile) -> None:
    knee, (low, high) = knee_and_zone(profile)
    assert abs(low - profile.zone[0]) <= 1 + 0.1 * low
    assert abs(high - profile.zone[1]) <= 1 + 0.1 * high
    if profile.kinked:
        assert abs(knee - profile.knee) <= 1
    else:  # of a flat maximum any place in the middle of the zone may come out
        assert abs(knee - profile.knee) <= 0.2 * profile.knee + 1


NO_KNEE = EngineSettings(slots=300, decode_ms=20.0, decode_slope_ms=0.0, prefill_tps=1e6)


def test_a_server_without_a_knee_in_range() -> None:
    verdict, _ = search(Bench(NO_KNEE, Work(100, 60, 0.5), seed=1), KneeSearch(64))
    assert (verdict.kind, verdict.knee, verdict.bracket[1]) == (VerdictKind.ABOVE, None, None)
    assert verdict.sentence.startswith("No knee up to 64 users")


# share of the server's highest throughput that the client can take
SLOW_CLIENTS = [0.4, 0.8, 1.0]


@pytest.mark.parametrize("share", SLOW_CLIENTS)
def test_a_slow_client_is_called_client_limited(share: float) -> None:
    """D21: the client's own ceiling would look just like a knee."""
    profile = BY_NAME["slots-11"]
    ceiling = share * 11 * 50.0 * 0.97
    bench = Bench(profile.settings, profile.work, seed=3, cpu_us=1e6 / ceiling)
    verdict, results = search(bench, KneeSearch(LIMIT))
    assert (verdict.kind, verdict.knee) == (VerdictKind.CLIENT_LIMITED, None)
    assert results[-1].status is Status.CLIENT_LIMITED
    assert "of a core (limit 90 %)" in verdict.sentence


# profile, how slots and KV are told apart, cause
TOLD_APART = [
    ("slots-11", "probe", CauseKind.SLOT),
    ("slots-11", "scraped", CauseKind.SLOT),
    ("kv", "probe", CauseKind.KV),
    ("kv", "scraped", CauseKind.KV),
]


def told_apart(name: str, means: str, seed: int) -> CauseKind | None:
    profile = BY_NAME[name]
    bench = Bench(profile.settings, profile.work, seed=seed, scraped=means == "scraped")
    verdict, _ = search(bench, KneeSearch(LIMIT, probe=means == "probe"))
    return verdict.cause.kind if verdict.cause is not None else None


@pytest.mark.parametrize(("name", "means", "kind"), TOLD_APART)
def test_slots_and_kv_are_told_apart(name: str, means: str, kind: CauseKind) -> None:
    assert told_apart(name, means, seed=1) is kind


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "means", "kind"), TOLD_APART)
def test_slots_and_kv_are_told_apart_in_twenty_searches(name: str, means: str, kind: CauseKind) -> None:
    found = [told_apart(name, means, seed) for seed in range(20)]
    assert found.count(kind) >= 18, found
