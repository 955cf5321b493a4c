"""The decode half of the phases: TPOT on context, streams and others' prefill; see `phases`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.overlap import Company
from locust_llm.analysis.phases_prefill import MIN_POINTS, Scatter
from locust_llm.analysis.regression import Coefficient, fit
from locust_llm.measure.probe_log import ProbePoint

Floats = NDArray[np.float64]

VARIED: Final = 0.05
OWN_PART: Final = 0.1
"""A regressor varies when its standard deviation is this share of its mean, and says something of its own when this
share of its deviation is not told by the others."""


@dataclass(frozen=True, slots=True)
class DecodeFit:
    """TPOT on what the run varied; a slope is None where it did not.

    `step_ms`: one stream, no context where `per_context_ms` is known, else the mean context of the run. `per_stream_ms`
    for each further stream; `per_context_ms` for each 1,000 tokens of context of all streams; `per_prefill_ms` for each
    1,000 prompt tokens of others that are prefilled in between, per token made.
    """

    step_ms: Coefficient
    per_context_ms: Coefficient | None
    per_stream_ms: Coefficient | None
    per_prefill_ms: Coefficient | None
    contexts: tuple[float, float]
    streams: tuple[float, float]
    n: int
    r2: float | None
    scatter: Scatter


def fit_decode(
    points: Sequence[ProbePoint], usable: Sequence[int], around: Company, min_tokens: int, notes: list[str]
) -> DecodeFit | None:
    """The fit to the answers of at least `min_tokens` tokens; None when the run has none such (a prefill probe)."""
    chosen = [i for i in usable if points[i].tpot_ms is not None and (points[i].decode_tokens or 0) + 1 >= min_tokens]
    if len(chosen) < MIN_POINTS:
        if chosen:
            notes.append(f"{len(chosen)} answers are too few for a fit of TPOT (at least {MIN_POINTS}).")
        return None
    y = np.array([points[i].tpot_ms for i in chosen], dtype=np.float64)
    context = around.context_tokens[chosen] / 1e3
    streams = around.streams[chosen]
    prefill = around.prefill_tokens[chosen] / 1e3
    columns: dict[str, Floats] = {}
    for name, values in (("context", context), ("streams", streams - 1.0), ("prefill", prefill)):
        base = streams if name == "streams" else values
        if _varies(base) and _own_part(values, list(columns.values())):
            columns[name] = values
    found = fit(np.stack([np.ones(len(y)), *columns.values()], axis=1), y)
    if found is None:
        return None
    slopes = dict(zip(columns, found.coefficients[1:], strict=True))
    if "context" not in slopes:
        notes.append("The contexts were all about as long: what context costs a token is not known.")
    order = np.argsort(context, kind="stable")
    scatter = Scatter(*(tuple(values[order].tolist()) for values in (context * 1e3, y, found.fitted)))
    return DecodeFit(
        found.coefficients[0],
        slopes.get("context"),
        slopes.get("streams"),
        slopes.get("prefill"),
        (float(context.min() * 1e3), float(context.max() * 1e3)),
        (float(streams.min()), float(streams.max())),
        len(y),
        found.r2,
        scatter,
    )


def _varies(values: Floats) -> bool:
    return float(values.std()) > VARIED * max(float(np.abs(values).mean()), 1e-9)


def _own_part(values: Floats, others: Sequence[Floats]) -> bool:
    """Whether a regressor says something that the others do not."""
    design = np.stack([np.ones(len(values)), *others], axis=1)
    rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(rest.std()) > OWN_PART * float(values.std())
