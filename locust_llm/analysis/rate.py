"""RateSearch: the highest rate of arrivals that a server sustains, in few steps; it has no state, as `KneeSearch`.

It doubles the rate until the backlog grows, or halves it until it does not, then tries the logarithmic middle between
the highest sustained rate and the lowest overloaded one until they are at most 10 % apart. A step whose time was up
before that could be told counts as overloaded where its backlog's slope is above 0 by two standard errors, else as
sustained, and the notes say so: at low rates it takes long to tell, and a rate that is far too high shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from locust_llm.analysis.capacity import slo_capacity
from locust_llm.analysis.ladder import between
from locust_llm.analysis.step import Status, StepResult
from locust_llm.analysis.verdict import Repeats

GAP: Final = 1.1
LIKELY_ERRORS: Final = 2.0
HALVINGS: Final = 10


@dataclass(frozen=True, slots=True)
class RateStep:
    """The rate to run next, requests a second."""

    rate_rps: float

    @property
    def load(self) -> float:
        """The rate: what the step's result is filed under."""
        return self.rate_rps

    @property
    def output_factor(self) -> float:
        """Answers are as long as asked for: a rate is never probed."""
        return 1.0


class RateKind(StrEnum):
    """FOUND: between two tested rates. ABOVE: sustained up to the limit. BELOW: even the lowest was too much.

    CLIENT_LIMITED and UNKNOWN: the steps do not tell.
    """

    FOUND = "found"
    ABOVE = "sustained up to the limit"
    BELOW = "overloaded at the lowest rate"
    CLIENT_LIMITED = "client-limited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RateVerdict:
    """`sustained_rps`: the highest rate whose backlog was not shown to grow; `overloaded_rps`: the lowest whose was.

    None where there was none; `notes` say which sustained ones stayed undecided. `served_rps`: what was served at the
    overloaded rate. `slo_capacity_rps`: up to which rate every step met the SLOs with the share `slo_target`;
    both None without SLOs.
    """

    kind: RateKind
    sentence: str
    sustained_rps: float | None = None
    overloaded_rps: float | None = None
    served_rps: float | None = None
    complete: bool = True
    notes: tuple[str, ...] = ()
    slo_capacity_rps: float | None = None
    slo_target: float | None = None
    repeats: Repeats | None = None


@dataclass(frozen=True, slots=True)
class RateSearch:
    """A search from `first_rps` up to `limit_rps`. `slo_target` (0 … 1): also say which rates meet the SLOs."""

    limit_rps: float
    first_rps: float = 1.0
    gap: float = GAP
    slo_target: float | None = None

    def next(self, results: Sequence[StepResult]) -> RateStep | RateVerdict:
        """The next rate to run, or the verdict. `results`: those of all steps so far, in the order they were run."""
        if not results:
            return RateStep(min(self.first_rps, self.limit_rps))
        if _spoilt(results[-1]) is not None:
            return self.verdict(results)
        rate_rps = self._next_rate(results)
        return RateStep(rate_rps) if rate_rps is not None else self.verdict(results)

    def verdict(self, results: Sequence[StepResult]) -> RateVerdict:
        """What the results say, also of a search that was cut off (then `complete` is False)."""
        spoilt = _spoilt(results[-1]) if results else None
        complete = bool(results) and spoilt is None and self._next_rate(results) is None
        return read_rates(results, complete=complete, slo_target=self.slo_target)

    def _next_rate(self, results: Sequence[StepResult]) -> float | None:
        sustained, overloaded = _bounds(results)
        if overloaded is None:
            assert sustained is not None
            return min(2 * sustained, self.limit_rps) if sustained < self.limit_rps else None
        if sustained is None:
            lowest = self.first_rps / 2**HALVINGS
            return overloaded / 2 if overloaded / 2 >= lowest else None
        middle = between(sustained, overloaded, self.gap, whole=False)
        return float(f"{middle:.4g}") if middle is not None else None


def read_rates(results: Sequence[StepResult], *, complete: bool, slo_target: float | None = None) -> RateVerdict:
    """What steps of rate say, whoever chose them; `complete`: all that were wanted have been run."""
    sustained, overloaded = _bounds(results)
    spoilt = _spoilt(results[-1]) if results else None
    beyond = next((step for step in results if step.load == overloaded), None)
    served = beyond.requests_per_s if beyond is not None else None
    kind, sentence = _said(sustained, beyond, spoilt, complete)
    capacity = None
    if slo_target is not None:
        judged = (step for step in results if _spoilt(step) is None)
        capacity = slo_capacity(sorted(judged, key=lambda step: step.load), slo_target)
        sentence = f"{_slo_said(capacity, slo_target)} {sentence}"
    notes = _notes(results) if complete else ("Not all steps were run.", *_notes(results))
    return RateVerdict(kind, sentence, sustained, overloaded, served, complete, notes, capacity, slo_target)


def _slo_said(capacity: float | None, target: float) -> str:
    share = f"{100 * target:.3g} % of the requests"
    if capacity is None:
        return f"SLO capacity: no rate was shown at which {share} meet the SLOs."
    return f"SLO capacity: up to {capacity:.4g} requests/s {share} meet the SLOs."


def _bounds(results: Sequence[StepResult]) -> tuple[float | None, float | None]:
    """(highest sustained rate below every overloaded one, lowest overloaded rate)."""
    judged = [step for step in results if step.status not in (Status.CLIENT_LIMITED, Status.TOO_SHORT)]
    overloaded = min((step.load for step in judged if _overloaded(step)), default=None)
    fine = [step.load for step in judged if not _overloaded(step)]
    sustained = max((load for load in fine if overloaded is None or load < overloaded), default=None)
    return sustained, overloaded


def _spoilt(step: StepResult) -> StepResult | None:
    return step if step.status in (Status.CLIENT_LIMITED, Status.TOO_SHORT) else None


def _overloaded(step: StepResult) -> bool:
    """Shown to be, or undecided and more likely than not."""
    slope = step.backlog_per_s
    likely = slope is not None and slope.value > LIKELY_ERRORS * slope.error
    return step.status is Status.OVERLOADED or (step.status is Status.NOISY and likely)


def _notes(results: Sequence[StepResult]) -> tuple[str, ...]:
    said = []
    for step in results:
        if step.status is Status.NOISY:
            taken = (
                "likely does, so it counts as overloaded"
                if _overloaded(step)
                else ("was not shown to, so it counts as sustained")
            )
            said.append(
                f"At {step.load:.4g} requests/s it stayed open whether the backlog grows ({step.why}): it {taken}. "
                "A longer --llm-step-time tells."
            )
    return tuple(said)


def _said(
    sustained: float | None, beyond: StepResult | None, spoilt: StepResult | None, complete: bool
) -> tuple[RateKind, str]:
    held = f"{sustained:.4g} requests/s are sustained" if sustained is not None else "No rate was shown to be sustained"
    if spoilt is not None:
        why = f" ({spoilt.why})" if spoilt.why else ""
        if spoilt.status is Status.CLIENT_LIMITED:
            return (
                RateKind.CLIENT_LIMITED,
                f"{held}; at {spoilt.load:.4g} the client, not the server, was the bottleneck{why}.",
            )
        return RateKind.UNKNOWN, f"{held}; the step of {spoilt.load:.4g} requests/s was too short to judge{why}."
    if beyond is None:
        kind = RateKind.ABOVE if complete else RateKind.UNKNOWN
        return kind, f"{held}, the highest rate that was tried."
    grows = f"overloaded at {beyond.load:.4g}: the backlog grows and {beyond.requests_per_s:.4g} are served"
    if beyond.status is Status.NOISY:
        grows = f"at {beyond.load:.4g} it stayed open whether the backlog grows"
    if sustained is None:
        return RateKind.BELOW if complete else RateKind.UNKNOWN, f"{grows.capitalize()}; no lower rate was sustained."
    return RateKind.FOUND, f"{held}; {grows}."
