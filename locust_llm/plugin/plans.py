"""Plans: what a stepped test runs next, and what it says in the end. The searches are `analysis`'s own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from locust_llm.analysis.knee import Step, read_steps
from locust_llm.analysis.rate import RateStep, RateVerdict, read_rates
from locust_llm.analysis.repeats import together
from locust_llm.analysis.step import StepResult
from locust_llm.analysis.verdict import Verdict


class Plan(Protocol):
    """Says what to run next, from the results so far."""

    def next(self, results: Sequence[StepResult]) -> Step | RateStep | Verdict | RateVerdict:
        """The next step, or the verdict when there is none."""

    def verdict(self, results: Sequence[StepResult]) -> Verdict | RateVerdict:
        """What the results say, also of a run that was cut off."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A fixed list of numbers of users, each run once, in the order given. `slo_target`: see `KneeSearch`."""

    loads: tuple[int, ...]
    slo_target: float | None = None

    def next(self, results: Sequence[StepResult]) -> Step | Verdict:
        """The next load of the list."""
        if len(results) >= len(self.loads):
            return self.verdict(results)
        return Step(self.loads[len(results)], results[-1].residence_s if results else None)

    def verdict(self, results: Sequence[StepResult]) -> Verdict:
        """The same reading as of a search."""
        complete = len(results) >= len(self.loads)
        return read_steps(results, max(self.loads), complete=complete, slo_target=self.slo_target)


@dataclass(frozen=True, slots=True)
class RateSweep:
    """A fixed list of rates, requests a second, each run once, in the order given. `slo_target`: see `RateSearch`."""

    rates: tuple[float, ...]
    slo_target: float | None = None

    def next(self, results: Sequence[StepResult]) -> RateStep | RateVerdict:
        """The next rate of the list."""
        if len(results) >= len(self.rates):
            return self.verdict(results)
        return RateStep(self.rates[len(results)])

    def verdict(self, results: Sequence[StepResult]) -> RateVerdict:
        """The same reading as of a search."""
        return read_rates(results, complete=len(results) >= len(self.rates), slo_target=self.slo_target)


class Repeated:
    """A plan that is run several times, each time from its beginning; its verdict is of all runs together."""

    def __init__(self, plan: Plan, times: int = 1) -> None:
        self.plan = plan
        self.times = times
        self._ends: list[int] = []
        self._verdicts: list[Verdict | RateVerdict] = []

    @property
    def repeat(self) -> int:
        """Which run is on, from 1."""
        return min(len(self._verdicts) + 1, self.times)

    def next(self, results: Sequence[StepResult]) -> Step | RateStep | Verdict | RateVerdict:
        """The plan's next step; after its verdict its first one again."""
        told = self.plan.next(self._of_this_run(results))
        if isinstance(told, Step | RateStep):
            return told
        self._ends.append(len(results))
        self._verdicts.append(told)
        return self.plan.next(()) if len(self._verdicts) < self.times else self.verdict(results)

    def verdict(self, results: Sequence[StepResult]) -> Verdict | RateVerdict:
        """What all runs say, and the one that was cut off."""
        rest = self._of_this_run(results)
        verdicts = [*self._verdicts, *([self.plan.verdict(rest)] if rest or not self._verdicts else [])]
        return verdicts[0] if self.times == 1 else together(cast(list[Verdict], verdicts), self.times)

    def _of_this_run(self, results: Sequence[StepResult]) -> Sequence[StepResult]:
        return results[self._ends[-1] :] if self._ends else results
