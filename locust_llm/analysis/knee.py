"""KneeSearch: finds the queueing knee in few steps; it is told the results and says what to run next.

Theory of operation. x users get X units a second, each unit taking a user R = x / X seconds. The knee is where another
1 % of throughput costs more than 1 % of time: the maximum of Kleinrock's power P = X / R = X² / x (Kleinrock, "Power
and deterministic rules of thumb for probabilistic problems in computer communications", 1979).

The search doubles x until P lies below 0.75 of the best by two standard errors, or the limit is reached; then it tries
the logarithmic middle of the wider gap beside the best, until the gaps beside it are at most a factor of 1.21. When the
highest load is the best the lower gap is looked at only if throughput has stopped growing in proportion: else there is
nothing in it. The bracket is the nearest tested loads on each side with P lower by more than two standard errors.

A search has no state: `next` derives everything from the list of results, in the order they were run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from locust_llm.analysis.capacity import meets_slo
from locust_llm.analysis.cause import PROBE_FACTOR, wants_probe
from locust_llm.analysis.ladder import GAP, beside, between
from locust_llm.analysis.reading import past_bracket, power_gap, read
from locust_llm.analysis.step import Status, StepResult
from locust_llm.analysis.verdict import Evidence, Verdict

DROP: Final = 0.75
ERRORS: Final = 2.0
SUBLINEAR: Final = 0.02
"""Throughput that lags behind proportional growth by this much (and two standard errors) has begun to bend."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to run next. `spread_s`: start the new users over this time, one residence, so that they do not run in

    step; None when no residence is known yet. `output_factor` 2 asks for answers twice as long (the probe).
    """

    load: float
    spread_s: float | None = None
    output_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class KneeSearch:
    """A search up to `limit` users. `slo_target` (0 … 1) also looks for the highest load that meets the SLOs.

    `probe`: whether an output length can be doubled to tell slots from KV.
    """

    limit: int
    first: int = 1
    gap: float = GAP
    probe: bool = False
    slo_target: float | None = None

    def next(self, results: Sequence[StepResult]) -> Step | Verdict:
        """The next step to run, or the verdict. `results`: those of all steps so far, in the order they were run."""
        if not results:
            return Step(min(self.first, self.limit))
        last = results[-1]
        if last.output_factor == 1.0 and last.status in (Status.CLIENT_LIMITED, Status.TOO_SHORT):
            return self.verdict(results)
        steps = ladder(results)
        load = self._next_load(steps)
        if load is not None:
            return Step(load, last.residence_s)
        verdict = self.verdict(results)
        probed = any(result.output_factor != 1.0 for result in results)
        if self.probe and not probed and wants_probe(verdict.cause):
            past = past_bracket(steps, next(i for i, step in enumerate(steps) if step.load == verdict.bracket[1]))
            return Step(past.load, past.residence_s, PROBE_FACTOR)
        return verdict

    def verdict(self, results: Sequence[StepResult]) -> Verdict:
        """What the results say, also of a search that was cut off (then `complete` is False)."""
        steps = ladder(results)
        complete = bool(steps) and spoilt_step(results) is None and self._next_load(steps) is None
        return read_steps(results, self.limit, complete=complete, slo_target=self.slo_target)

    def _next_load(self, steps: Sequence[StepResult]) -> float | None:
        """What the ladder lacks; None when it is complete."""
        top, best = steps[-1], best_place(steps)
        if not self._climbed(steps, best):
            return min(2 * top.load, self.limit)
        loads, powers = [step.load for step in steps], [step.power for step in steps]
        if best < len(steps) - 1 or (len(steps) > 1 and _bends(steps[-2], top)):
            load = beside(loads, powers, best, self.gap)
            if load is not None:
                return load
        return self._slo_gap(steps) if self.slo_target is not None else None

    def _climbed(self, steps: Sequence[StepResult], best: int) -> bool:
        """Whether doubling is over: power fell far enough (and the SLOs are missed, if there are any), or the limit."""
        top = steps[-1]
        if top.load >= self.limit:
            return True
        if self.slo_target is not None and meets_slo(top, self.slo_target):
            return False
        gap, error = power_gap(steps[best], top)
        return gap > -math.log(DROP) + ERRORS * error

    def _slo_gap(self, steps: Sequence[StepResult]) -> float | None:
        """The middle between the highest load that meets the SLOs and the next one."""
        assert self.slo_target is not None
        met = 0
        while met < len(steps) and meets_slo(steps[met], self.slo_target):
            met += 1
        return between(steps[met - 1].load, steps[met].load, self.gap) if 0 < met < len(steps) else None


def ladder(results: Sequence[StepResult]) -> list[StepResult]:
    """The steps that count, by rising load: the latest of each load, without probes and spoilt ones."""
    useless = (Status.CLIENT_LIMITED, Status.TOO_SHORT)
    kept = {step.load: step for step in results if step.output_factor == 1.0 and step.status not in useless}
    return [kept[load] for load in sorted(kept)]


def spoilt_step(results: Sequence[StepResult]) -> StepResult | None:
    """The last step when it spoilt the search: what lies beyond proves nothing."""
    return results[-1] if results and results[-1].status in (Status.CLIENT_LIMITED, Status.TOO_SHORT) else None


def read_steps(
    results: Sequence[StepResult], limit: int, *, complete: bool, slo_target: float | None = None
) -> Verdict:
    """What steps say, whoever chose them; `complete`: all that were wanted have been run."""
    probe = next((result for result in results if result.output_factor != 1.0), None)
    return read(Evidence(ladder(results), spoilt_step(results), probe, limit, complete, slo_target))


def best_place(steps: Sequence[StepResult]) -> int:
    """Which step has the highest power."""
    return max(range(len(steps)), key=lambda place: steps[place].power)


def _bends(below: StepResult, top: StepResult) -> bool:
    """Whether throughput grew clearly less than in proportion between the two."""
    if below.throughput is None or top.throughput is None or top.throughput.value <= 0 or below.throughput.value <= 0:
        return False
    lag = math.log(top.users / below.users) - math.log(top.throughput.value / below.throughput.value)
    return lag > SUBLINEAR + ERRORS * math.hypot(below.throughput.ln_error, top.throughput.ln_error)
