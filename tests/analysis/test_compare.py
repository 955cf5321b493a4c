"""Comparison: its statistics hold on simulated runs, and nothing is called worse on thin evidence (issue E)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_llm.analysis.batches import student_t
from locust_llm.analysis.compare import Comparison, Row, Rules, Run, Verdict, compare, holm, interleaved
from locust_llm.analysis.compare_difference import Yardstick, difference, two_sided_p
from locust_llm.analysis.compare_reading import Reading, RunReader
from locust_llm.analysis.compare_subject import FAILED_SHARE, STANDARD, Subject, of_gate, parse_subject
from locust_llm.measure.expression import ExpressionError
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.stats import RunStats
from tests.analysis.compare_runs import SECONDS, USERS, in_turns, virtual_run

TTFT, TTFT_P95, TPOT, OUTPUT, ERRORS = STANDARD


@cache
def runs(first: int, decode: float = 1.0, failed_share: float = 0.0) -> tuple[Run, ...]:
    """Three runs, made anew only once."""
    return tuple(virtual_run(100 * first + i, decode=decode, failed_share=failed_share) for i in range(3))


def of(comparison: Comparison, subject: Subject) -> Row:
    return next(row for row in comparison.rows if row.subject == subject)


def turns(base: Sequence[Run], run: Sequence[Run], **rules: float) -> Comparison:
    return compare(*in_turns(base, run), STANDARD, Rules(**rules))


# -- statistics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("t", "dof", "p"),
    [
        (0.0, 4, 1.0),
        (12.7062, 1, 0.05),
        (4.3027, 2, 0.05),
        (3.1824, 3, 0.05),
        (2.7764, 4, 0.05),
        (-2.7764, 4, 0.05),
        (4.6041, 4, 0.01),
        (4.0321, 5, 0.01),
        (2.2281, 10, 0.05),
        (1.9623, 1000, 0.05),
    ],
)
def test_student(t: float, dof: int, p: float) -> None:
    assert two_sided_p(t, dof) == pytest.approx(p, rel=1e-3)
    if t > 0 and p == 0.05:
        assert student_t(0.975, dof) == pytest.approx(t, rel=3e-3)


@pytest.mark.parametrize(
    ("ps", "found"),
    [
        ([0.01, 0.02, 0.03], [0.01, 0.02, 0.03]),
        ([0.01, 0.03, 0.03], [0.01]),  # 0.03 > 0.05 / 2 stops it, though the last would pass alone
        ([0.02, 0.03, 0.04], []),
        ([0.02, None, None], []),  # asked is asked
        ([0.04], [0.04]),
    ],
)
def test_holm(ps: list[float | None], found: list[float]) -> None:
    asked = {Subject("ttft", 10.0 + i): p for i, p in enumerate(ps)}
    assert sorted(asked[subject] or 0 for subject in holm(asked)) == found


@pytest.mark.parametrize(
    ("id_", "base", "run", "answer"),
    [
        ("in turns", [0, 2, 4], [1, 3, 5], True),
        ("mirrored", [0, 3, 4], [1, 2, 5], True),
        ("at the same time", [0, 5, 9], [0, 5, 9], True),
        ("one after the other", [0, 1, 2], [3, 4, 5], False),
        ("a sandwich", [0, 1, 5], [2, 3, 4], False),
        ("one each", [0], [1], False),
        ("unknown", [0, 2, None], [1, 3, 5], None),
    ],
)
def test_interleaved(id_: str, base: list[float | None], run: list[float | None], answer: bool | None) -> None:
    stats = RunStats(0)
    sides = [[Run(stats, started_s=start) for start in side] for side in (base, run)]
    assert interleaved(*sides) is answer
    assert interleaved(*(side[::-1] for side in sides)) is answer


def readings(*values: float, error: float | None = None) -> list[Reading]:
    return [Reading(value, 1000, False, error, 12 if error is not None else 0) for value in values]


def test_a_difference_between_runs_by_hand() -> None:
    """ln: 0, ±0.01 against 0.1, 0.1 ± 0.01: pooled s 0.01, error 0.01·√(2/3), t = 0.1 / 0.00816 with 4 degrees."""
    values = [math.exp(x) for x in (0.0, 0.01, -0.01)]
    found = difference(TTFT, readings(*values), readings(*(v * math.exp(0.1) for v in values)), stored=False)
    assert found.yardstick is Yardstick.RUNS
    assert found.base == pytest.approx(1)
    assert found.change == pytest.approx(math.expm1(0.1))
    half = 2.776 * 0.01 * math.sqrt(2 / 3)
    assert (found.low, found.high) == pytest.approx((math.expm1(0.1 - half), math.expm1(0.1 + half)), rel=1e-3)
    assert found.p == pytest.approx(two_sided_p(0.1 / (0.01 * math.sqrt(2 / 3)), 4))


def test_a_stored_baseline_counts_the_other_side_as_one_run() -> None:
    base = readings(*(math.exp(x) for x in (0.0, 0.01, -0.01)))
    one, three = (difference(TTFT, base, readings(*[1.1] * n), stored=True) for n in (1, 3))
    assert one.yardstick is three.yardstick is Yardstick.BASELINE
    assert one.p == three.p == pytest.approx(two_sided_p(math.log(1.1) / (0.01 * math.sqrt(4 / 3)), 2))


def test_runs_that_agree_by_chance_are_as_uncertain_as_they_are_within() -> None:
    agreeing = difference(TTFT, readings(100, 100, 100, error=0.06), readings(104, 104, 104, error=0.06), stored=False)
    assert agreeing.p is not None
    assert agreeing.p > 0.3
    without = difference(TTFT, readings(100, 100, 100), readings(104, 104, 104), stored=False)
    assert without.p is not None
    assert without.p < 1e-4


def test_the_bootstrap_sees_how_runs_scatter() -> None:
    """Within-run errors of eight runs against the scatter between them, to a factor of 1.7 (their own scatter)."""
    stats = [virtual_run(500 + seed, seconds=80).stats for seed in range(8)]
    for subject in (TTFT, TTFT_P95, TPOT):
        found = [RunReader(each).read(subject) for each in stats]
        told = [reading.error for reading in found if reading.error is not None]
        assert len(told) == 8
        scatter = float(np.std([math.log(reading.value or 0) for reading in found], ddof=1))
        assert 1 / 1.7 < math.sqrt(sum(error**2 for error in told) / 8) / scatter < 1.7


# -- verdicts ------------------------------------------------------------------------------------------------------


def test_one_against_one_is_unknown() -> None:
    found = compare(runs(0)[:1], runs(10, 1.1)[:1], STANDARD, Rules())
    assert found.verdict is Verdict.UNKNOWN
    assert found.unproven is not None
    assert found.unproven.startswith("run-to-run noise unknown: 1 against 1.")
    assert of(found, TPOT).difference.change == pytest.approx(0.1, abs=0.03)
    assert of(found, TPOT).difference.yardstick is Yardstick.WITHIN


def test_three_in_turns_show_what_is_worse() -> None:
    found = turns(runs(0), runs(10, 1.3))
    assert found.verdict is Verdict.WORSE
    assert {row.subject: row.verdict for row in found.judged} == {
        TTFT: Verdict.SAME,
        TTFT_P95: Verdict.SAME,
        TPOT: Verdict.WORSE,
        OUTPUT: Verdict.WORSE,
        ERRORS: Verdict.SAME,
    }
    assert turns(runs(10, 1.3), runs(0)).verdict is Verdict.BETTER


def test_runs_one_side_after_the_other_prove_nothing() -> None:
    base = [replace(run, started_s=float(i)) for i, run in enumerate(runs(0))]
    run = [replace(run, started_s=10.0 + i) for i, run in enumerate(runs(10, 1.3))]
    found = compare(base, run, STANDARD, Rules())
    assert found.verdict is Verdict.UNKNOWN
    assert found.unproven is not None
    assert "not made in turns" in found.unproven
    stored = compare(base, run[:1], [TPOT], Rules(stored=True))
    assert stored.verdict is Verdict.WORSE
    few = compare(base[:2], run[:1], [TPOT], Rules(stored=True))
    assert (few.verdict, few.unproven) == (Verdict.UNKNOWN, "a stored baseline needs 3 runs or more, not 2")


def test_a_change_smaller_than_the_least_effect() -> None:
    found = turns(runs(0), runs(10, 1.1), min_effect=0.2)
    assert of(found, TPOT).verdict is Verdict.SAME
    assert of(found, TPOT).reason == "smaller than --min-effect 20%"


def test_a_spoilt_run_spoils_it() -> None:
    base, run = in_turns(runs(0), runs(10, 1.3))
    found = compare(base, [*run[:2], replace(run[2], spoilt="run.json is incomplete")], STANDARD, Rules())
    assert (found.verdict, found.unproven) == (Verdict.UNKNOWN, "run.json is incomplete")


def test_too_few_samples_and_figures_that_nobody_has() -> None:
    p99, goodput = Subject("ttft", 99.0), parse_subject("goodput")
    found = compare(*in_turns(runs(0), runs(10)), [p99, goodput, parse_subject("rag/ttft:p50")], Rules())
    assert [row.verdict for row in found.judged] == [Verdict.UNKNOWN] * 3
    assert "too few for TTFT p99 (368 needed)" in str(of(found, p99).reason)
    assert of(found, goodput).reason == "the run has no goodput"


def test_a_side_that_fails_is_worse_though_its_successes_are_as_fast() -> None:
    found = turns(runs(0), runs(10, 1.0, 0.1))
    assert of(found, ERRORS).verdict is Verdict.WORSE
    assert of(found, ERRORS).difference.change == pytest.approx(0.1, abs=0.02)
    p95 = of(found, TTFT_P95)
    assert p95.difference.run_beyond
    assert p95.verdict in (Verdict.WORSE, Verdict.UNKNOWN)
    back = of(turns(runs(10, 1.0, 0.1), runs(0)), TTFT_P95)
    assert back.verdict in (Verdict.BETTER, Verdict.UNKNOWN)


def test_among_the_failures_on_both_sides_nothing_can_be_said() -> None:
    found = of(turns(runs(20, 1.0, 0.1), runs(10, 1.0, 0.1)), TTFT_P95)
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, "the percentile lies among the failures")


# -- properties ----------------------------------------------------------------------------------------------------

VALUES = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=6)
ERROR = st.none() | st.floats(0.0, 0.5)


@given(VALUES, ERROR, st.booleans(), st.sampled_from([TTFT, Subject(FAILED_SHARE)]))
def test_a_side_against_itself_never_differs(
    values: list[float], error: float | None, stored: bool, subject: Subject
) -> None:
    side = readings(*values, error=error)
    found = difference(subject, side, side, stored=stored)
    assert found.change == 0
    assert found.p is None or found.p == 1


@given(VALUES, VALUES, ERROR, st.booleans(), st.randoms())
def test_the_order_of_runs_does_not_matter(
    base: list[float], run: list[float], error: float | None, stored: bool, random: np.random.Generator
) -> None:
    sides = [readings(*values, error=error) for values in (base, run)]
    shuffled = [list(side) for side in sides]
    for side in shuffled:
        random.shuffle(side)  # type: ignore[arg-type]
    assert difference(TTFT, *sides, stored=stored) == difference(TTFT, *shuffled, stored=stored)


@given(VALUES.filter(lambda values: len(values) > 1), VALUES.filter(lambda values: len(values) > 1), ERROR)
def test_sides_changed_over_turn_the_change_over(base: list[float], run: list[float], error: float | None) -> None:
    there, back = (
        difference(TTFT, readings(*one, error=error), readings(*other, error=error), stored=False)
        for one, other in ((base, run), (run, base))
    )
    assert there.change is not None
    assert back.change is not None
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1)
    assert there.p == pytest.approx(back.p)


def test_documents_in_any_order_give_the_same_verdicts() -> None:
    base, run = in_turns(runs(0), runs(10, 1.3))
    assert compare(base, run, STANDARD, Rules()) == compare(base[::-1], [run[1], run[2], run[0]], STANDARD, Rules())
    assert all(row.verdict is Verdict.SAME for row in compare(base, base[::-1], STANDARD, Rules(min_effect=0)).judged)


# -- how often it is right -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_400_pairs_of_sides_with_the_same_settings_at_most_29_are_called_worse() -> None:
    """29 of 400 is what 5 % may come to by chance; --min-effect, which could only help, is switched off."""
    worse = 0
    for pair in range(400):
        made = [virtual_run(10_000 + 6 * pair + i, seconds=24, started_s=100.0 * i) for i in range(6)]
        found = compare(made[::2], made[1::2], STANDARD, Rules(min_effect=1e-9), shown=())
        assert found.verdict is not Verdict.UNKNOWN
        worse += found.verdict is Verdict.WORSE
    assert worse <= 29


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pairs", [6, pytest.param(40, marks=pytest.mark.long)])
def test_a_tenth_slower_decoding_is_worse_and_ttft_is_not_blamed(pairs: int) -> None:
    found: Counter[tuple[str, Verdict | None]] = Counter()
    worse = 0
    for pair in range(pairs):
        made = [virtual_run(50_000 + 6 * pair + i, decode=1.1 if i % 2 else 1.0, started_s=100.0 * i) for i in range(6)]
        comparison = compare(made[::2], made[1::2], STANDARD, Rules(), shown=())
        worse += comparison.verdict is Verdict.WORSE
        found.update((str(row.subject), row.verdict) for row in comparison.judged)
    assert worse >= 0.9 * pairs
    assert found["tpot:p50", Verdict.WORSE] >= 0.9 * pairs
    assert found["ttft:p50", Verdict.WORSE] + found["ttft:p95", Verdict.WORSE] <= 0.05 * pairs


def test_the_runs_of_these_tests_are_what_they_say() -> None:
    counts = runs(0)[0].stats.counts()
    assert counts.succeeded > 72
    assert USERS * SECONDS / 2 < counts.succeeded < USERS * SECONDS * 2
    assert not counts.failed


# -- subjects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("ttft:p95", Subject("ttft", 95.0)),
        (" chat / e2e : p99.9 ", Subject("e2e", 99.9, "chat")),
        ("a/b<c/tpot:p50", Subject("tpot", 50.0, "a/b<c")),
        ("errors", Subject("failed_share")),
        ("goodput%", Subject("goodput_share")),
        ("goodput", Subject("goodput")),
        ("rag/output_throughput", Subject("output_throughput", None, "rag")),
    ],
)
def test_subjects(text: str, subject: Subject) -> None:
    assert parse_subject(text) == subject
    assert parse_subject(str(subject)) == subject


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("", "a metric is expected", 0),
        ("ttft", "which percentile? Say ttft:p95", 4),
        ("ttft:95", "a metric is expected", 0),
        ("ttft:p0", "a percentile lies above 0", 6),
        ("tfft:p50", "no metric 'tfft'; is it ttft?", 0),
        ("errors:p50", "errors is one figure", 7),
        ("/ttft:p50", "the request name before the slash", 0),
        ("connect:p50", "no metric 'connect'", 0),
    ],
)
def test_what_is_no_subject(text: str, problem: str, at: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_subject(text)
    assert caught.value.problem.startswith(problem)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("gate", "subject"),
    [
        ("ttft:p95<500ms", "ttft:p95"),
        ("chat/errors<1%", "chat/errors"),
        ("goodput>=95%", "goodput%"),
        ("goodput>=2req/s", "goodput"),
    ],
)
def test_gates_say_what_is_judged(gate: str, subject: str) -> None:
    assert str(of_gate(parse_gate(gate))) == subject
