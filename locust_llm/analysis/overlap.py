"""Overlap: who else was there while a request waited for its first token, and while it decoded.

All of it comes from the instants of the requests alone: no gauge of the client's, and so the same on any number of
workers (as far as their clocks agree).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure.probe_log import ProbePoint

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Company:
    """Of each point, in their order. `alone`: nobody else was being served from its sending to its first token.

    While it decoded, on average over its decode time: `streams`, how many decoded (itself included), `context_tokens`,
    what all of them together had in their context. `prefill_tokens`: prompt tokens of others that were prefilled
    meanwhile, per token of its own. NaN where a point has no decode time.
    """

    alone: NDArray[np.bool_]
    streams: Floats
    context_tokens: Floats
    prefill_tokens: Floats


def company(points: Sequence[ProbePoint]) -> Company:
    """The company of each point; `points` in the order of their sending."""
    n = len(points)
    sent = np.array([p.sent_s for p in points])
    end = np.array([p.last_s if p.last_s is not None else p.ended_s for p in points])
    first = np.array([p.first_s if p.first_s is not None else np.nan for p in points])
    context = np.array([(p.input_tokens or 0) + (p.decode_tokens or 0) / 2 for p in points])
    prefill = np.array([(p.input_tokens or 0) - (p.cached_tokens or 0) for p in points], dtype=np.float64)
    latest = np.maximum.accumulate(end) if n else end
    found = Company(np.zeros(n, dtype=np.bool_), np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan))
    for i, point in enumerate(points):
        begin = int(np.searchsorted(latest, sent[i], side="right"))  # whoever is before had ended
        stop = int(np.searchsorted(sent, end[i], side="left"))  # whoever comes after was sent later
        others = np.arange(begin, stop)
        others = others[others != i]
        wait_end = first[i] if point.first_s is not None else end[i]
        found.alone[i] = not np.any((sent[others] < wait_end) & (end[others] > sent[i]))
        span = end[i] - first[i]
        if not point.decode_tokens or not span > 0:
            continue
        shared = np.minimum(end[others], end[i]) - np.maximum(first[others], first[i])
        shared = np.where(shared > 0, shared, 0.0) / span  # NaN (never decoded) counts as none
        found.streams[i] = 1 + shared.sum()
        found.context_tokens[i] = context[i] + float(shared @ context[others])
        inside = (first[others] > first[i]) & (first[others] <= end[i])
        found.prefill_tokens[i] = prefill[others][inside].sum() / point.decode_tokens
    return found
