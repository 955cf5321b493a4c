"""Locust's own statistics rows: metric rows stand apart, and ITL rows may be folded.

This is the one place that touches the inside of Locust's statistics (`tests/plugin/test_rows.py` fails when Locust
changes them). TTFT, ITL and TPOT events get rows of their own, but they are no requests: `log_request` and `log_error`
of the environment's own RequestStats are wrapped so that those rows stay out of Aggregated, and so out of RPS, the
charts and the fail ratio. It is done in every process, since workers add up their own Aggregated.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from locust import stats as locust_stats
from numpy.typing import NDArray

TTFT, ITL, TPOT, E2E = "TTFT", "ITL", "TPOT", "E2E"
METRIC_TYPES = frozenset((TTFT, ITL, TPOT))

EXACT_BELOW_MS = 100
"""Below this Locust's own bucketing is rounding half to even, which numpy does for all values at once."""

_LOCUST_BUCKET = locust_stats.bucket_response_time
_OUR_MARK = "_locust_llm_rows"
_LOCUST_LISTENERS = "locust.runners"
"""The module of the one listener that Locust itself adds to `events.request`."""


def keep_metrics_apart(stats: Any) -> None:
    """Wrap `log_request` and `log_error` of one RequestStats instance; once however often it is asked."""
    if getattr(stats, _OUR_MARK, False):
        return
    log_request, log_error = stats.log_request, stats.log_error

    def request(method: str, name: str, response_time: Any, content_length: int) -> None:
        if method in METRIC_TYPES:
            stats.entries[name, method].log(response_time, content_length)
        else:
            log_request(method, name, response_time, content_length)

    def error(method: str, name: str, error: Any) -> None:
        if method not in METRIC_TYPES:
            log_error(method, name, error)

    stats.log_request, stats.log_error = request, error
    setattr(stats, _OUR_MARK, True)


def somebody_listens(request_event: Any) -> bool:
    """Whether anyone but Locust hears `events.request`, so that every ITL must be a real event."""
    return any(getattr(handler, "__module__", None) != _LOCUST_LISTENERS for handler in request_event._handlers)


def fold(stats: Any, name: str, values_ms: NDArray[np.float64]) -> None:
    """Log many ITLs at once: the same row as logging each, at a fraction of the cost."""
    entry = stats.entries[name, ITL]
    entry.log(float(values_ms[0]), 0)  # once as Locust does it: times and caches
    rest = values_ms[1:]
    if not len(rest):
        return
    entry.num_requests += len(rest)
    entry.num_reqs_per_sec[int(time.time())] += len(rest)
    entry.total_response_time += float(rest.sum())
    entry.min_response_time = min(entry.min_response_time, float(rest.min()))
    entry.max_response_time = max(entry.max_response_time, float(rest.max()))
    bucket = locust_stats.bucket_response_time
    if bucket is _LOCUST_BUCKET:
        small = (rest >= 0) & (rest < EXACT_BELOW_MS)
        counts = np.bincount(np.rint(rest[small]).astype(np.int64))
        rounded = counts.nonzero()[0]
        for value, count in zip(rounded.tolist(), counts[rounded].tolist(), strict=True):
            entry.response_times[value] += count
        rest = rest[~small]
    for value in rest.tolist():
        entry.response_times[bucket(value)] += 1
