"""The prefill half of the phases: TTFT on input tokens, and the wait for others; see `phases`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.overlap import Company
from locust_llm.analysis.regression import Coefficient, Regression, fit
from locust_llm.measure.probe_log import ProbePoint

Floats = NDArray[np.float64]

MIN_POINTS: Final = 12
LENGTH_RATIO: Final = 2.0
"""The longest prompt must be this many times the shortest, or there is no slope to see."""

CURVED: Final = 0.1
"""A square term is told when it changes the speed by more than this from the shortest to the longest prompt."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """What a fit rests on, for the chart: x in its own unit, y and the fitted y in ms."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    fitted: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PrefillFit:
    """TTFT on prefilled input tokens.

    `entry_ms`: at 0 tokens. `tokens_per_s`: the straight line's speed; `curved`: (at the shortest, at the longest) when
    it is not the same. `alone`: it rests on requests that were served alone, and so has no wait for others in it.
    """

    entry_ms: Coefficient
    tokens_per_s: Coefficient | None
    shortest: int
    longest: int
    n: int
    r2: float | None
    alone: bool
    scatter: Scatter
    curved: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """What TTFT lies above entry and prefill for the requests that were not alone, in ms."""

    median_ms: float
    mean_ms: float
    n: int


def fresh_tokens(point: ProbePoint) -> float:
    """Input tokens that had to be prefilled."""
    return (point.input_tokens or 0) - (point.cached_tokens or 0)


@dataclass(frozen=True, slots=True)
class Law:
    """TTFT in ms of so many input tokens: entry + slope · x + bend · x²."""

    entry: float
    slope: float
    bend: float = 0.0

    def __call__(self, tokens: float) -> float:
        return self.entry + self.slope * tokens + self.bend * tokens * tokens


def fit_prefill(
    points: Sequence[ProbePoint], usable: Sequence[int], around: Company, notes: list[str]
) -> tuple[PrefillFit | None, Law | None]:
    """The fit to the requests that were alone, or (with a note) to all where these are too few."""
    lone = [i for i in usable if around.alone[i]]
    alone = len(lone) >= MIN_POINTS and _spread_out(points, lone)
    chosen = lone if alone else list(usable)
    if len(chosen) < MIN_POINTS:
        if usable:
            notes.append(f"{len(chosen)} requests are too few for a fit of TTFT (at least {MIN_POINTS}).")
        return None, None
    if not _spread_out(points, chosen):
        notes.append("All prompts were about as long: entry and prefill cannot be told apart. Use several lengths.")
        return None, None
    x = np.array([fresh_tokens(points[i]) for i in chosen])
    y = np.array([points[i].ttft_ms for i in chosen], dtype=np.float64)
    line = fit(np.stack([np.ones(len(x)), x], axis=1), y)
    if line is None:
        return None, None
    if not alone:
        notes.append(
            "Too few requests were served alone: the wait for others is inside entry and prefill. Run the probe with "
            "one user (--users 1) for the server's own."
        )
    return _told_prefill(x, y, line, alone=alone)


def _spread_out(points: Sequence[ProbePoint], chosen: Sequence[int]) -> bool:
    lengths = [fresh_tokens(points[i]) for i in chosen]
    return bool(lengths) and min(lengths) > 0 and max(lengths) >= LENGTH_RATIO * min(lengths)


def _told_prefill(x: Floats, y: Floats, line: Regression, *, alone: bool) -> tuple[PrefillFit, Law]:
    shortest, longest = float(x.min()), float(x.max())
    entry, slope = line.coefficients
    law, best, speeds = Law(entry.value, slope.value), line, None
    bent = fit(np.stack([np.ones(len(x)), x, x * x], axis=1), y)
    if bent is not None and bent.coefficients[2].clear:
        curve = Law(*(c.value for c in bent.coefficients))
        ends = [curve.slope + 2 * curve.bend * at for at in (shortest, longest)]
        if min(ends) > 0 and abs(ends[1] / ends[0] - 1) > CURVED:
            law, best, entry = curve, bent, bent.coefficients[0]
            speeds = (1e3 / ends[0], 1e3 / ends[1])
    order = np.argsort(x, kind="stable")
    scatter = Scatter(*(tuple(values[order].tolist()) for values in (x, y, best.fitted)))
    told = PrefillFit(
        entry, _speed(slope), round(shortest), round(longest), len(x), best.r2, alone, scatter, curved=speeds
    )
    return told, law


def _speed(slope: Coefficient) -> Coefficient | None:
    """Tokens a second from ms a token; None when the time does not grow with the tokens."""
    if slope.value <= 0:
        return None
    low = 1e3 / slope.high if slope.high is not None and slope.high > 0 else None
    high = 1e3 / slope.low if slope.low is not None and slope.low > 0 else None
    return Coefficient(1e3 / slope.value, low, high)


def find_wait(points: Sequence[ProbePoint], usable: Sequence[int], around: Company, law: Law) -> Wait | None:
    """How much longer the requests beside others waited than alone."""
    above = [
        ttft - law(fresh_tokens(points[i]))
        for i in usable
        if not around.alone[i] and (ttft := points[i].ttft_ms) is not None
    ]
    return Wait(float(np.median(above)), float(np.mean(above)), len(above)) if above else None
