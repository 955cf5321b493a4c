"""Sweep: a fixed list of loads, and what it says once all have been run."""

from __future__ import annotations

from locust_llm.analysis.knee import Step
from locust_llm.analysis.verdict import Verdict, VerdictKind
from locust_llm.plugin.steps import Sweep
from tests.analysis.build import step


def test_each_load_once_and_then_the_verdict() -> None:
    plan = Sweep((1, 4))
    first, second = step(1, 10.0), step(4, 40.0)
    assert plan.next([]) == Step(1)
    after = plan.next([first])
    assert isinstance(after, Step)
    assert (after.load, after.spread_s) == (4, first.residence_s)
    verdict = plan.next([first, second])
    assert isinstance(verdict, Verdict)
    assert (verdict.kind, verdict.complete, verdict.notes) == (VerdictKind.ABOVE, True, ())


def test_a_sweep_that_was_cut_off_says_so() -> None:
    verdict = Sweep((1, 4)).verdict([step(1, 10.0)])
    assert not verdict.complete
    assert "Not all steps were run." in verdict.notes
