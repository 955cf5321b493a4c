"""Verdict: what a knee search found, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from locust_llm.analysis.cause import Cause
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.step import StepResult


class VerdictKind(StrEnum):
    """KNEE: one was found. ABOVE: none up to the highest load. BELOW: at or below the lowest. CLIENT_LIMITED: the

    client was the bottleneck before a knee showed. UNKNOWN: the steps do not tell.
    """

    KNEE = "knee"
    ABOVE = "no knee in range"
    BELOW = "at or below the lowest load"
    CLIENT_LIMITED = "client-limited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Repeats:
    """What each of several runs found, None where it found nothing, of `wanted` ones, and the interval between them."""

    values: tuple[float | None, ...]
    wanted: int
    interval: Interval | NoInterval


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a search. Loads are users.

    `knee`: where another 1 % of throughput costs more than 1 % of time, the maximum of Kleinrock's power X² / x; of the
    fitted curve when it lies inside the bracket (`fitted`), else the best step. `bracket`: the nearest tested loads on
    each side whose power is lower by more than two standard errors; None on a side that has none. `zone`: where the
    power is within 5 % of its maximum. `saturation`, `littles_bound` and `slo_capacity` are other questions' answers:
    see `capacity`. `requests_per_s` and `throughput` are the best step's. `repeats`: see `repeats.together`.
    """

    kind: VerdictKind
    sentence: str
    knee: float | None = None
    fitted: bool = False
    best: float | None = None
    bracket: tuple[float | None, float | None] = (None, None)
    zone: tuple[float, float] | None = None
    throughput: float | None = None
    unit: str = "tok/s"
    requests_per_s: float | None = None
    saturation: float | None = None
    littles_bound: float | None = None
    slo_capacity: float | None = None
    slo_target: float | None = None
    cause: Cause | None = None
    complete: bool = True
    notes: tuple[str, ...] = ()
    repeats: Repeats | None = None

    @property
    def rate_to_confirm_rps(self) -> float | None:
        """0.8 of the requests per second at the best step.

        What a closed loop serves is no rate that Poisson arrivals can have: this one is worth trying in open loop.
        """
        return 0.8 * self.requests_per_s if self.kind is VerdictKind.KNEE and self.requests_per_s else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a search has to read: its steps by rising load, the step that spoilt it if one did, and the probe's."""

    steps: Sequence[StepResult]
    spoilt: StepResult | None
    probe: StepResult | None
    limit: int
    complete: bool
    slo_target: float | None
