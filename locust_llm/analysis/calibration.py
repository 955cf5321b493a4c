"""Calibration: what a client's figures are worth at one number of streams, against an engine that tells the truth.

Each token carries the time of its own `send()`, so that the time the client gave it can be compared token by token,
and the client's percentiles with those of the true times of the very same tokens: no sampling noise is in between. A
client is right up to a number of streams if it was at every smaller one too.

All instants are nanoseconds of one monotonic clock, which both processes of one machine share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure.findings.client import CPU_LIMIT
from locust_llm.measure.histogram import Histogram

WAITED_LIMIT: Final = 0.1
"""Share of the time for which other work may have the client's core before it is blamed, too."""

PACE_LIMIT: Final = 1.05
"""True gap / wanted gap above which the engine, not the client, is at its limit."""

BUSY_LIMIT: Final = 0.95
"""Share of the streams' time with a request under way below which the client does not send what it should."""

TOGETHER: Final = 0.1
"""A gap below this part of the true one: both tokens were read together, the second has no time of its own."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: when its request was sent, when each token arrived and when it was over (all as the client says), and
    its text, which holds when each token was really sent."""

    sent_ns: int
    arrivals_ns: Sequence[int]
    ended_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A reported figure beside the true one."""

    reported: float
    true: float

    @property
    def error(self) -> float:
        """|reported - true| / true."""
        return abs(self.reported - self.true) / self.true


@dataclass(frozen=True, slots=True)
class Window:
    """What one measured window cost and what the two processes said of it; the counts are of whole wall seconds.

    `gap_ms` is the gap between tokens that the engine was told to keep, `arrived_tokens` what the client's own series
    counted. The engine's own TTFTs run from its read of a request to its send of the first token. `waited_s`: how long
    the client could have run but other work had the core; None where the system does not tell.
    """

    since_ns: int
    until_ns: int
    streams: int
    mode: str
    gap_ms: float
    cpu_s: float
    engine_cpu_s: float
    arrived_tokens: float
    waited_s: float | None = None
    requests: int = 0
    failed: int = 0
    engine_ttfts_ms: Sequence[float] = ()
    delays: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """What was found at one number of streams. `mode`: `even` (each stream on its own) or `bursts` (in steps).

    `stamp_us` is arrival as stamped - real send, p50, p99 and largest; `delay_us` how late a packet was read, p50 and
    p99, each an upper bound within a factor of two; None where the kernel gave no stamps. `coalesced`: share of the
    gaps that have no time of their own. `kept_busy`: share of the streams' time in which a request was under way; a
    client at its limit is late with the next one, and the load is smaller than it seems. `pace`: true gap / wanted gap
    of the engine, on average. `waited`: share of the time in which other work kept the client from running; None where
    the system does not tell.
    """

    mode: str
    streams: int
    tokens_per_s: Compared
    ttft_ms: dict[str, Compared]
    itl_ms: dict[str, Compared]
    engine_ttft_ms: dict[str, float] | None
    stamp_us: dict[str, float]
    delay_us: dict[str, float] | None
    coalesced: float
    kept_busy: float
    cpu_us_per_token: float
    core_share: float
    engine_core_share: float
    pace: float
    waited: float | None
    requests: int
    failed: int

    @property
    def errors(self) -> dict[str, float]:
        """The relative error of each figure that decides."""
        found = {f"TTFT {name}": compared.error for name, compared in self.ttft_ms.items()}
        found |= {f"ITL {name}": compared.error for name, compared in self.itl_ms.items()}
        found["output rate"] = self.tokens_per_s.error
        found["stamps p99, of a gap"] = self.stamp_us["p99"] / 1e3 / self.itl_ms["p50"].true
        found["coalesced"] = self.coalesced
        return found

    @property
    def error(self) -> float:
        """The largest of them."""
        return max(self.errors.values())

    @property
    def worst(self) -> str:
        """The figure with the largest error."""
        errors = self.errors
        return max(errors, key=lambda name: errors[name])

    @property
    def disturbed(self) -> bool:
        """Whether other work on the machine kept the client from running."""
        return self.waited is not None and self.waited > WAITED_LIMIT

    @property
    def engine_limited(self) -> bool:
        """Whether the engine could not hold its own pace: what was measured says little about more streams."""
        return self.pace > PACE_LIMIT

    def safe(self, limit: float) -> bool:
        """Whether figures are right within `limit` here, the client is not at its limit, and nothing failed."""
        return self.error < limit and not self.client_limited and not self.failed

    @property
    def client_limited(self) -> bool:
        """Whether the client had no CPU left, or could not keep its streams going."""
        return self.core_share > CPU_LIMIT or self.kept_busy < BUSY_LIMIT

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the errors beside what they come from."""
        return {**asdict(self), "errors": self.errors, "error": self.error}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Level:
        """What `to_dict` made."""
        values = {name: told[name] for name in cls.__slots__}
        for name in ("ttft_ms", "itl_ms"):
            values[name] = {key: Compared(**pair) for key, pair in told[name].items()}
        return cls(**{**values, "tokens_per_s": Compared(**told["tokens_per_s"])})


def level_of(answers: Iterable[Answer], window: Window) -> Level | None:
    """The figures of one window; None when nothing was sent or no request began in it."""
    told, found = list(answers), _Matched()
    for answer in told:
        found.add(answer, window.since_ns, window.until_ns)
    errors_ns, gaps, true_gaps = _joined(found.errors), _joined(found.gaps), _joined(found.true_gaps)
    if not len(gaps) or not found.ttfts:
        return None
    length_s = (window.until_ns - window.since_ns) / 1e9
    return Level(
        mode=window.mode,
        streams=window.streams,
        tokens_per_s=Compared(window.arrived_tokens / length_s, found.sent / length_s),
        ttft_ms=_compared(np.array(found.ttfts), np.array(found.true_ttfts)),
        itl_ms=_compared(gaps, true_gaps),
        engine_ttft_ms=_quantiles(np.array(window.engine_ttfts_ms)) if window.engine_ttfts_ms else None,
        stamp_us={name: value / 1e3 for name, value in (_quantiles(errors_ns) | {"max": errors_ns.max()}).items()},
        delay_us=delay_us(window.delays),
        coalesced=float((gaps < TOGETHER * true_gaps).mean()),
        kept_busy=_kept_busy(told, window),
        cpu_us_per_token=window.cpu_s * 1e6 / max(found.handled, 1),
        core_share=window.cpu_s / length_s,
        engine_core_share=window.engine_cpu_s / length_s,
        pace=float(true_gaps.mean()) / 1e6 / window.gap_ms,
        waited=window.waited_s / length_s if window.waited_s is not None else None,
        requests=window.requests,
        failed=window.failed,
    )


@dataclass(slots=True)
class _Matched:
    """All tokens of a window, the client's times beside the true ones, in ns."""

    errors: list[Ints] = field(default_factory=list)
    gaps: list[Ints] = field(default_factory=list)
    true_gaps: list[Ints] = field(default_factory=list)
    ttfts: list[int] = field(default_factory=list)
    true_ttfts: list[int] = field(default_factory=list)
    handled: int = 0
    sent: int = 0

    def add(self, answer: Answer, since_ns: int, until_ns: int) -> None:
        """The tokens of one answer that were sent, and count those that were handled, in the window.

        The true TTFT runs from the same `sent`, which is written down just before the request's `send()`.
        """
        arrivals = np.asarray(answer.arrivals_ns, dtype=np.int64)
        sends = np.array(answer.text.split(), dtype=np.int64)
        if not len(arrivals) or len(sends) != len(arrivals):
            return
        inside = (sends >= since_ns) & (sends < until_ns)
        self.handled += int(((arrivals >= since_ns) & (arrivals < until_ns)).sum())
        self.sent += int(inside.sum())
        self.errors.append((arrivals - sends)[inside])
        both = inside[1:] & inside[:-1]
        self.gaps.append(np.diff(arrivals)[both])
        self.true_gaps.append(np.diff(sends)[both])
        if inside[0]:
            self.ttfts.append(int(arrivals[0]) - answer.sent_ns)
            self.true_ttfts.append(int(sends[0]) - answer.sent_ns)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _kept_busy(answers: Iterable[Answer], window: Window) -> float:
    busy_ns = sum(
        max(min(answer.ended_ns, window.until_ns) - max(answer.sent_ns, window.since_ns), 0) for answer in answers
    )
    return busy_ns / (window.streams * (window.until_ns - window.since_ns))


def _compared(reported_ns: NDArray[Any], true_ns: NDArray[Any]) -> dict[str, Compared]:
    """p50 and p99 in ms, as a run tells them (by its histogram) beside the exact ones of the true times."""
    histogram = Histogram()
    histogram.add_many(np.maximum(reported_ns, 0) / 1e6)
    true = _quantiles(true_ns / 1e6)
    return {name: Compared(histogram.percentile(q) or 0.0, true[name]) for name, q in _QUANTILES.items()}


_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


def _quantiles(values: NDArray[Any]) -> dict[str, float]:
    """p50 and p99 by nearest rank."""
    ordered = np.sort(values)
    return {name: float(ordered[max(math.ceil(q * len(ordered)) - 1, 0)]) for name, q in _QUANTILES.items()}


def delay_us(delays: Sequence[int]) -> dict[str, float] | None:
    """p50 and p99 of delays counted by the bit length of their nanoseconds: the upper end of the bin they fall in."""
    total = sum(delays)
    if not total:
        return None
    found = {}
    for name, q in _QUANTILES.items():
        seen = 0
        for bits, count in enumerate(delays):
            seen += count
            if seen >= q * total:
                found[name] = (1 << bits) / 1e3
                break
    return found
