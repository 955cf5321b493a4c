"""Phases: what a request's time is made of, fitted to the requests of a probe run.

Theory of operation.
- **TTFT = entry + input tokens / prefill speed.** Fitted to the requests that were served alone, of several input
  lengths: entry is what an empty prompt would take (network, gateway, tokenizer, admission, one step), the slope is
  prefill. A square term is kept, and named, when it is clearly there and changes the speed by more than a tenth from
  the shortest to the longest prompt. Requests whose prompt came from the server's prefix cache are left out.
- **Scheduling** is what the other requests' TTFT lies above that law: the wait for others.
- **TPOT = one stream's step + slope · context + slope · further streams + slope · others' prefill.** A slope is fitted
  only where the run varied what it belongs to.

Intervals are within this run (`regression`). The verdict splits the mean request's E2E with these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from locust_llm.analysis.overlap import Company, company
from locust_llm.analysis.phases_decode import DecodeFit, fit_decode
from locust_llm.analysis.phases_prefill import Law, PrefillFit, Wait, find_wait, fit_prefill, fresh_tokens
from locust_llm.measure.metrics import MIN_TOKENS
from locust_llm.measure.probe_log import ProbePoint

POOR_R2: Final = 0.8
"""Below this a fit is told with a warning."""

CACHED_SHARE: Final = 0.05
CACHED_TOKENS: Final = 32
"""A prompt with more cached tokens than both of these (a chat template's own are no prompt) is left out."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the mean request: entry, prefill, scheduling, decode, or unexplained."""

    name: str
    ms: float
    share: float


@dataclass(frozen=True, slots=True)
class Phases:
    """All that a probe run tells. `notes`: why something is missing, and what was left out."""

    prefill: PrefillFit | None = None
    decode: DecodeFit | None = None
    wait: Wait | None = None
    parts: tuple[Part, ...] = ()
    requests: int = 0
    cached: int = 0
    notes: tuple[str, ...] = ()

    @property
    def largest(self) -> Part | None:
        """The part that takes most of the mean request."""
        return max(self.parts, key=lambda part: part.ms, default=None)


def find_phases(log: Iterable[ProbePoint], left_out: int = 0, min_tokens: int = MIN_TOKENS) -> Phases:
    """The phases of a probe run; `left_out`: how many of its requests were not kept."""
    points = sorted(log, key=lambda point: point.sent_s)
    around = company(points)
    notes: list[str] = []
    if left_out:
        notes.append(f"{left_out:,} further requests were not kept: those that ran beside them look less crowded.")
    told = [i for i, p in enumerate(points) if p.ttft_ms is not None and p.input_tokens is not None]
    usable = [i for i in told if not _cached(points[i])]
    if told and len(told) > len(usable):
        notes.append(
            f"{len(told) - len(usable):,} of {len(told):,} requests had a cached prefix and are left out: use prompts "
            "that no cache has seen."
        )
    if points and not told:
        notes.append("No streamed answer told its input tokens (usage): nothing can be fitted.")
    prefill, law = fit_prefill(points, usable, around, notes)
    wait = find_wait(points, usable, around, law) if prefill is not None and prefill.alone and law is not None else None
    decode = fit_decode(points, usable, around, min_tokens, notes)
    for what, r2 in (("TTFT", prefill.r2 if prefill is not None else None), ("TPOT", _decode_r2(decode))):
        if r2 is not None and r2 < POOR_R2:
            notes.append(
                f"The fit of {what} explains only {100 * max(r2, 0):.0f} % of what was seen: do not build on it."
            )
    parts = _parts(points, usable, around, prefill, law) if prefill is not None and law is not None else ()
    return Phases(prefill, decode, wait, parts, len(usable), len(told) - len(usable), tuple(notes))


def _decode_r2(fit: DecodeFit | None) -> float | None:
    """R² where something was fitted besides the mean."""
    if fit is None or (fit.per_context_ms, fit.per_stream_ms, fit.per_prefill_ms) == (None, None, None):
        return None
    return fit.r2


def _cached(point: ProbePoint) -> bool:
    cached = point.cached_tokens if point.cached_tokens is not None else 0
    return cached > max(CACHED_TOKENS, CACHED_SHARE * (point.input_tokens or 0))


def _parts(
    points: Sequence[ProbePoint], usable: Sequence[int], around: Company, prefill: PrefillFit, law: Law
) -> tuple[Part, ...]:
    """The mean request's E2E: entry and prefill by the law, decode, and what TTFT lies above the law.

    That is scheduling for the requests that were not alone; for those that were it is unexplained: disturbances.
    """
    chosen = [points[i] for i in usable]
    above = np.array([(p.ttft_ms or 0.0) - law(fresh_tokens(p)) for p in chosen])
    alone = around.alone[usable]
    read = float(np.mean([law(fresh_tokens(p)) for p in chosen])) - law.entry
    told = [
        ("entry", law.entry),
        ("prefill", read),
        ("scheduling", float(above[~alone].sum()) / len(chosen) if prefill.alone else 0.0),
        ("unexplained", float(above[alone].sum()) / len(chosen) if prefill.alone else float(above.mean())),
        ("decode", float(np.mean([(p.last_s - p.first_s) * 1e3 for p in chosen if p.first_s and p.last_s]))),
    ]
    kept = [(name, max(ms, 0.0)) for name, ms in told]
    whole = sum(ms for _, ms in kept)
    return tuple(Part(name, ms, ms / whole) for name, ms in kept) if whole > 0 else ()
