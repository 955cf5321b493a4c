"""Compare: whether one side of runs is better or worse than another, and when the evidence does not tell.

A verdict is given on the declared figures only, each at a family-wise error of 5 % (Holm, "A simple sequentially
rejective multiple test procedure", 1979): with 60 figures in the table some differ by chance. "Worse" says that the
difference is shown, goes the wrong way, and is at least as large as the least effect. It needs to be known how runs of
the same set-up differ from each other: three runs a side, made in turns (base, run, base, run …), or a stored baseline
of three runs. Runs of one side made before those of the other would blame the side for whatever changed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from locust_llm.analysis.compare_difference import BASELINE_LEAST, Difference, difference
from locust_llm.analysis.compare_reading import RunReader
from locust_llm.analysis.compare_subject import Subject, every
from locust_llm.measure.stats import RunStats

RUNS_LEAST: Final = 3
"""Runs that each side needs."""

FAMILY_ERROR: Final = 0.05
LEAST_SHARE: Final = 0.005
"""The least difference of a share that matters: half a percentage point, beside the least effect in % of the base's."""


class Verdict(StrEnum):
    """What a comparison of one figure says."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference shown"
    UNKNOWN = "cannot say"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `started_s`: wall-clock seconds. `spoilt`: why its figures must not be judged."""

    stats: RunStats
    started_s: float | None = None
    spoilt: str | None = None
    steady: bool = True
    settle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """`min_effect`: the least change that matters (0.05: 5 %). `stored`: the base is a stored baseline. `together`: the
    two sides, one each, are of one run."""

    min_effect: float = 0.05
    stored: bool = False
    together: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `verdict` is None where none was asked for; `reason` says why it is not plainer."""

    subject: Subject
    difference: Difference
    verdict: Verdict | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides. `rows`: those that are judged first. `interleaved`: None when start times are missing.

    `unproven`: why nothing can be said of any figure.
    """

    rows: tuple[Row, ...]
    base_runs: int
    run_runs: int
    interleaved: bool | None
    rules: Rules
    unproven: str | None = None

    @property
    def judged(self) -> tuple[Row, ...]:
        """The rows that have a verdict."""
        return tuple(row for row in self.rows if row.verdict is not None)

    @property
    def verdict(self) -> Verdict:
        """Of all together: one figure that is worse makes it worse, and one that cannot be told leaves it open."""
        found = {row.verdict for row in self.judged}
        for verdict in (Verdict.WORSE, Verdict.UNKNOWN, Verdict.BETTER):
            if verdict in found:
                return verdict
        return Verdict.SAME if found else Verdict.UNKNOWN


def compare(
    base: Sequence[Run],
    run: Sequence[Run],
    judged: Sequence[Subject],
    rules: Rules,
    *,
    shown: Sequence[Subject] | None = None,
) -> Comparison:
    """Compare two sides of at least one run each; the order of a side's runs does not matter.

    `shown`: the figures of the table beside those that are judged; None: all that some run has.
    """
    subjects = list(dict.fromkeys([*judged, *(every() if shown is None else shown)]))
    readers = [
        [RunReader(each.stats, steady=each.steady, settle_s=each.settle_s) for each in side] for side in (base, run)
    ]
    differences = {}
    for subject in subjects:
        sides = [[reader.read(subject) for reader in side] for side in readers]
        if subject in judged or any(reading.value is not None for side in sides for reading in side):
            differences[subject] = difference(subject, *sides, stored=rules.stored, together=rules.together)
    turns = interleaved(base, run)
    unproven = _unproven(base, run, turns, rules)
    significant = holm({subject: differences[subject].p for subject in judged}) if unproven is None else frozenset()
    rows = []
    for subject, found in differences.items():
        verdict, reason = None, None
        if subject in judged:
            verdict, reason = _verdict(subject, found, rules, subject in significant, unproven)
        rows.append(Row(subject, found, verdict, reason))
    return Comparison(tuple(rows), len(base), len(run), turns, rules, unproven)


def interleaved(base: Sequence[Run], run: Sequence[Run]) -> bool | None:
    """Whether the runs were made in turns, or at the same time; None when a start time is missing."""
    starts = [(each.started_s, side) for side, runs in enumerate((base, run)) for each in runs]
    if any(start is None for start, _ in starts):
        return None
    order = [side for _, side in sorted(starts, key=lambda each: (each[0] or 0.0, each[1]))]
    switches = sum(before != after for before, after in pairwise(order))
    return switches >= max(2, min(len(base), len(run)))


def holm(ps: dict[Subject, float | None]) -> frozenset[Subject]:
    """The figures that differ, at a family-wise error of 5 %. Those without a p count as asked, too."""
    known = sorted(
        ((p, str(subject), subject) for subject, p in ps.items() if p is not None), key=lambda each: each[:2]
    )
    found = []
    for place, (p, _, subject) in enumerate(known):
        if p > FAMILY_ERROR / (len(ps) - place):
            break
        found.append(subject)
    return frozenset(found)


def _unproven(base: Sequence[Run], run: Sequence[Run], turns: bool | None, rules: Rules) -> str | None:
    """Why nothing can be said of any figure; None when something can."""
    spoilt = next((each.spoilt for each in (*base, *run) if each.spoilt is not None), None)
    if spoilt is not None:
        return spoilt
    if rules.together:
        return None
    if rules.stored:
        few = f"a stored baseline needs {BASELINE_LEAST} runs or more, not {len(base)}"
        return few if len(base) < BASELINE_LEAST else None
    if min(len(base), len(run)) < RUNS_LEAST:
        return (
            f"run-to-run noise unknown: {len(base)} against {len(run)}. Give {RUNS_LEAST} runs a side, made in turns,"
            f" or a stored baseline of {BASELINE_LEAST} runs with --baseline-spread"
        )
    if turns is None:
        return "the start times are missing, so that nobody knows whether the runs were made in turns"
    if not turns:
        return (
            "the runs were not made in turns (base, run, base, run …), so that whatever changed in between would be"
            " blamed on one side. Make them in turns, or take --baseline-spread when the base is of several days"
        )
    return None


def _verdict(
    subject: Subject, found: Difference, rules: Rules, significant: bool, unproven: str | None
) -> tuple[Verdict, str | None]:
    if unproven is not None:
        return Verdict.UNKNOWN, None
    if found.weak is not None:
        return Verdict.UNKNOWN, found.weak
    if found.change is None or found.p is None:
        long = rules.together and found.change is not None
        return Verdict.UNKNOWN, "no interval: run longer" if long else "there is nothing to compare"
    verdict, reason = Verdict.SAME, None
    if significant and _matters(subject, found, rules):
        verdict = Verdict.WORSE if (found.change > 0) == subject.lower_is_better else Verdict.BETTER
    elif significant:
        reason = f"smaller than --min-effect {100 * rules.min_effect:g}%"
    # what lies among the failures is a lower bound: it can show that a side is too high, never that it is low enough
    if (found.run_beyond and verdict is not Verdict.WORSE) or (found.base_beyond and verdict is not Verdict.BETTER):
        return Verdict.UNKNOWN, "the percentile lies among the failures"
    return verdict, reason


def _matters(subject: Subject, found: Difference, rules: Rules) -> bool:
    assert found.change is not None
    if not subject.is_share:
        # slower by 5 % and faster by 5 % are the same step
        factor = 1 + rules.min_effect
        return not 1 / factor < 1 + found.change < factor
    base = found.base if found.base is not None else 0.0
    return abs(found.change) >= max(LEAST_SHARE, rules.min_effect * base)
