"""StepResult: what one step of load showed, over its window. Computed in `window.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.measure.summary import too_few


class Status(StrEnum):
    """What a step's figures are worth.

    STEADY: all good. DRIFTING: the halves of the window differ, also after one extension. NOISY: not precise enough
    when its time was up. CLIENT_LIMITED: the client, not the server, was the bottleneck. TOO_SHORT: its time was up
    before there was enough to judge. OVERLOADED (open loop): the backlog grew.
    """

    STEADY = "steady"
    DRIFTING = "drifting"
    NOISY = "noisy"
    CLIENT_LIMITED = "client-limited"
    TOO_SHORT = "too short"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Percentiles by nearest rank over successful requests, in ms; None when there was no sample."""

    p50: float | None
    p95: float | None
    p99: float | None
    n: int

    def few(self, q: float) -> bool:
        """Whether `q` (0 … 1) rests on too few samples."""
        return too_few(q, self.n)


@dataclass(frozen=True, slots=True)
class Attainment:
    """Share of outcomes (succeeded + failed) that met every SLO. `low`: its lower 95 % bound from time batches.

    `low` is None when the window held too few batches; then `why` tells.
    """

    share: float
    low: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """What the server's own metrics said over the window. None: not exported.

    `running` and `waiting` are means of its gauges, `kv_use` the highest share of KV in use (0 … 1), `preemptions` the
    requests that lost their KV, `prefix_hits` the share of prompt tokens that the prefix cache had (0 … 1).
    """

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    preemptions: int | None = None
    prefix_hits: float | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step. Times in wall-clock seconds. A value that could not be computed is None.

    `load` is what was asked: users, or requests a second in open loop (`open_loop`). `users` = x, running on average.
    `throughput` = X: output tokens of requests that did not fail, by arrival, per second; requests that succeeded per
    second where nothing is streamed (`unit`). `in_flight` = L. `decoding` = D = X · TPOT, the number of streams that
    decode at once (Little's law on the decode phase); `tpot_ms` is token-weighted. `batches` are the batch means of X.
    `little` = L / (ends per second · mean residence), 1 in a steady window. `output_factor` ≠ 1 marks a probe step.
    `waves`: variance / mean of the requests started per second, where that is so far above 1 that users run in step.
    `repeat`: of which run of a repeated sweep or search it is, from 1.
    """

    load: float
    users: float
    status: Status
    begin_s: float
    end_s: float
    throughput: Estimate | None = None
    unit: str = "tok/s"
    requests_per_s: float = 0.0
    in_flight: Estimate | None = None
    decoding: Estimate | None = None
    tpot_ms: Estimate | None = None
    residence_s: float | None = None
    p95_residence_s: float | None = None
    ttft: Quantiles = field(default_factory=lambda: Quantiles(None, None, None, 0))
    tpot: Quantiles = field(default_factory=lambda: Quantiles(None, None, None, 0))
    e2e: Quantiles = field(default_factory=lambda: Quantiles(None, None, None, 0))
    outcomes: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    batches: tuple[float, ...] = ()
    interval: Interval | NoInterval = field(default_factory=lambda: NoInterval("no window"))
    little: float | None = None
    attainment: Attainment | None = None
    server: ServerLoad | None = None
    backlog_per_s: Estimate | None = None
    output_factor: float = 1.0
    open_loop: bool = False
    why: str | None = None
    waves: float | None = None
    repeat: int = 1

    @property
    def little_holds(self) -> bool | None:
        """Whether `little` is 1, give or take 5 %, the long requests that stand across the window's ends, and one look.

        Requests in flight are looked at once a second: of few, one look between two requests weighs much. None when
        fewer than 20 requests ended: then those at the ends decide.
        """
        if self.little is None or self.p95_residence_s is None or self.outcomes < 20:
            return None
        length_s = self.end_s - self.begin_s
        look = 1 / (length_s * self.in_flight.value) if self.in_flight is not None and self.in_flight.value > 0 else 0.0
        return abs(self.little - 1) <= 0.05 + 1.5 * self.p95_residence_s / length_s + look

    @property
    def refused_share(self) -> float:
        """Requests that were sent away (429, 503) / outcomes."""
        return self.refused / self.outcomes if self.outcomes else 0.0

    @property
    def power(self) -> float:
        """Kleinrock's power P = X² / x: throughput over time per unit, R = x / X. 0 when nothing succeeded."""
        if self.throughput is None or self.users <= 0:
            return 0.0
        return self.throughput.value**2 / self.users

    @property
    def ln_power_error(self) -> float:
        """Standard error of ln P."""
        return 2 * self.throughput.ln_error if self.throughput is not None else 0.0

    @property
    def seconds_per_unit(self) -> float | None:
        """R = x / X: how long a user takes for one token (or request)."""
        if self.throughput is None or self.throughput.value <= 0:
            return None
        return self.users / self.throughput.value


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller knows of a step and the data do not say."""

    load: float
    status: Status = Status.STEADY
    why: str | None = None
    output_factor: float = 1.0
    open_loop: bool = False
    server: ServerLoad | None = None
