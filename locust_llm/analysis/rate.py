"""RateSearch: the highest rate of arrivals that a server sustains, in few steps; it has no state, as `KneeSearch`.

It doubles the rate until the backlog grows, or halves it until it does not, then tries the logarithmic middle between
the highest sustained rate and the lowest overloaded one until they are at most 10 % apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from locust_llm.analysis.ladder import between
from locust_llm.analysis.step import Status, StepResult

GAP: Final = 1.1
HALVINGS: Final = 10


@dataclass(frozen=True, slots=True)
class RateStep:
    """The rate to run next, requests a second."""

    rate_rps: float


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
    """`sustained_rps`: the highest rate whose backlog did not grow; `overloaded_rps`: the lowest whose did, or that

    could not be shown not to (`notes` say so). None where there was none. `served_rps`: what was served at that rate
    while its backlog grew.
    """

    kind: RateKind
    sentence: str
    sustained_rps: float | None = None
    overloaded_rps: float | None = None
    served_rps: float | None = None
    complete: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RateSearch:
    """A search from `first_rps` up to `limit_rps`."""

    limit_rps: float
    first_rps: float = 1.0
    gap: float = GAP

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
        sustained, overloaded = _bounds(results)
        spoilt = _spoilt(results[-1]) if results else None
        complete = bool(results) and spoilt is None and self._next_rate(results) is None
        served = next((step.requests_per_s for step in results if step.load == overloaded), None)
        kind, sentence = _said(sustained, overloaded, served, spoilt, complete)
        return RateVerdict(kind, sentence, sustained, overloaded, served, complete, _notes(results))

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


def _bounds(results: Sequence[StepResult]) -> tuple[float | None, float | None]:
    """(highest sustained rate below every overloaded one, lowest overloaded rate)."""
    judged = [step for step in results if step.status not in (Status.CLIENT_LIMITED, Status.TOO_SHORT)]
    overloaded = min((step.load for step in judged if step.status in (Status.OVERLOADED, Status.NOISY)), default=None)
    fine = [step.load for step in judged if step.status in (Status.STEADY, Status.DRIFTING)]
    sustained = max((load for load in fine if overloaded is None or load < overloaded), default=None)
    return sustained, overloaded


def _spoilt(step: StepResult) -> StepResult | None:
    return step if step.status in (Status.CLIENT_LIMITED, Status.TOO_SHORT) else None


def _notes(results: Sequence[StepResult]) -> tuple[str, ...]:
    return tuple(
        f"At {step.load:.4g} requests/s it stayed open whether the backlog grows ({step.why}): taken as overloaded."
        for step in results
        if step.status is Status.NOISY
    )


def _said(
    sustained: float | None, overloaded: float | None, served: float | None, spoilt: StepResult | None, complete: bool
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
    if overloaded is None:
        kind = RateKind.ABOVE if complete else RateKind.UNKNOWN
        return kind, f"{held}, the highest rate that was tried."
    grows = f"at {overloaded:.4g} the backlog grows and {served:.4g} are served"
    if sustained is None:
        return RateKind.BELOW if complete else RateKind.UNKNOWN, f"Overloaded: {grows}; no lower rate was tried."
    return RateKind.FOUND, f"{held}; {grows}."
