"""The two sides of one run: they are told apart, and what is said of them holds on simulated runs."""

from __future__ import annotations

import pytest

from locust_llm.analysis.compare import Verdict
from locust_llm.analysis.compare_sides import JUDGED, SIDES, compare_sides, side_stats
from locust_llm.analysis.compare_subject import Subject
from locust_llm.measure.stats import RunStats
from tests.analysis.compare_runs import virtual_run

SECONDS = 80


def one_run(seed: int, decode: float = 1.0, seconds: int = SECONDS) -> RunStats:
    """Two engines of their own, asked by the users of one run."""
    whole = RunStats(0, min_tokens=1, lag_s=0)
    for place, (side, slower) in enumerate(zip(SIDES, (1.0, decode), strict=True)):
        part = virtual_run(2 * seed + place, decode=slower, seconds=seconds).stats
        histograms = {key: part.histogram(key).pack() for key in ("ttft", "tpot", "e2e", "residence")}
        whole.add_name(f"chat{side}", part.counts().pack(), (histograms, {}))
        blocks = part.blocks()
        assert blocks is not None
        whole.add_blocks(side, blocks)
        whole.first_sent_s, whole.all_running_s, whole.stopped_s = part.first_sent_s, part.all_running_s, part.stopped_s
        whole.now_s = part.now_s
    return whole


def test_a_side_has_the_figures_of_its_requests() -> None:
    whole, alone = one_run(1), virtual_run(3, seconds=SECONDS).stats
    second = side_stats(whole, SIDES[1])
    assert second.counts().succeeded == alone.counts().succeeded
    assert second.histogram("ttft").to_dict() == alone.histogram("ttft").to_dict()
    rate = Subject("request_throughput").figure.of(second, None)
    assert rate == pytest.approx(alone.counts().succeeded / SECONDS)


def test_a_slower_side_is_worse_and_ttft_is_not_blamed() -> None:
    for seed in range(5):
        found = compare_sides(one_run(100 + seed, 1.1))
        assert found is not None
        verdicts = {str(row.subject): row.verdict for row in found.judged}
        assert verdicts["tpot:p50"] is Verdict.WORSE
        assert (verdicts["ttft:p50"], verdicts["ttft:p95"], verdicts["errors"]) == (Verdict.SAME,) * 3


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runs", [15, pytest.param(120, marks=pytest.mark.long)])
def test_equal_sides_are_seldom_called_worse(runs: int) -> None:
    """5 % for all verdicts together, so about 2.5 % worse; 8 % is what chance makes of that in 120 runs."""
    found = [compare_sides(one_run(1000 + seed)) for seed in range(runs)]
    assert all(each is not None and each.verdict is not Verdict.UNKNOWN for each in found)
    assert sum(each is not None and each.verdict is Verdict.WORSE for each in found) <= max(2, 0.08 * runs)


def test_what_cannot_be_said() -> None:
    short = compare_sides(one_run(1, 1.1, seconds=24))
    assert short is not None
    assert short.verdict is Verdict.UNKNOWN
    assert {row.reason for row in short.judged if row.verdict is Verdict.UNKNOWN} == {"no interval: run longer"}
    spoilt = compare_sides(one_run(1, 1.1), spoilt="the client was the bottleneck")
    assert spoilt is not None
    assert (spoilt.verdict, spoilt.unproven) == (Verdict.UNKNOWN, "the client was the bottleneck")
    assert compare_sides(virtual_run(1).stats) is None
    assert set(JUDGED) == {row.subject for row in short.judged}
