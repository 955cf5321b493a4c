"""Sweeps: a fixed list of loads, and what they say once all have been run."""

from __future__ import annotations

from dataclasses import replace

from locust_llm.analysis.knee import Step
from locust_llm.analysis.rate import RateKind, RateStep, RateVerdict
from locust_llm.analysis.step import Attainment, Status
from locust_llm.analysis.verdict import Verdict, VerdictKind
from locust_llm.plugin.plans import RateSweep, Repeated, Sweep
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


def test_rates_one_after_the_other() -> None:
    plan = RateSweep((2.0, 8.0))
    fine = step(2.0, 20.0, open_loop=True)
    too_much = step(8.0, 50.0, open_loop=True, status=Status.OVERLOADED)
    assert plan.next([]) == RateStep(2.0)
    assert plan.next([fine]) == RateStep(8.0)
    verdict = plan.next([fine, too_much])
    assert isinstance(verdict, RateVerdict)
    assert (verdict.kind, verdict.sustained_rps, verdict.overloaded_rps) == (RateKind.FOUND, 2.0, 8.0)
    assert "Not all steps were run." in plan.verdict([fine]).notes


def test_the_slo_capacity_of_rates_leads() -> None:
    steps = [
        replace(step(rate, 10 * rate, open_loop=True), attainment=Attainment(share, share - 0.02))
        for rate, share in ((2.0, 0.99), (4.0, 0.98), (8.0, 0.96))
    ]
    verdict = RateSweep((2.0, 4.0, 8.0), slo_target=0.95).verdict(steps)
    assert (verdict.slo_capacity_rps, verdict.sustained_rps) == (4.0, 8.0)
    assert verdict.sentence.startswith("SLO capacity: up to 4 requests/s 95 % of the requests meet the SLOs. 8 req")
    assert RateSweep((2.0,), slo_target=0.99).verdict(steps[:1]).slo_capacity_rps is None


def test_a_plan_is_run_again_from_its_beginning() -> None:
    plan = Repeated(Sweep((1, 4)), 2)
    results = [step(1, 10.0), step(4, 40.0)]
    assert (plan.repeat, plan.next([])) == (1, Step(1))
    again = plan.next(results)
    assert (plan.repeat, again) == (2, Step(1))
    results.append(step(1, 10.0))
    following = plan.next(results)
    assert isinstance(following, Step)
    assert following.load == 4
    verdict = plan.next([*results, step(4, 40.0)])
    assert isinstance(verdict, Verdict)
    assert verdict.repeats is not None
    assert verdict.repeats.values == (None, None)
    assert plan.repeat == 2


def test_a_repeat_that_was_cut_off_is_told() -> None:
    plan = Repeated(Sweep((1, 4)), 3)
    results = [step(1, 10.0), step(4, 40.0)]
    plan.next(results)
    verdict = plan.verdict([*results, step(1, 10.0)])
    assert not verdict.complete
    assert verdict.repeats is not None
    assert (len(verdict.repeats.values), verdict.repeats.wanted) == (2, 3)


def test_a_plan_that_is_run_once_speaks_for_itself() -> None:
    plan = Repeated(Sweep((1,)))
    verdict = plan.next([step(1, 10.0)])
    assert verdict == Sweep((1,)).verdict([step(1, 10.0)])
    assert plan.verdict([]) == verdict
