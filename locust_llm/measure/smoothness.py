"""Smoothness: how evenly an answer comes, as its reader sees it.

- The largest gap of a request: a distribution.
- A stall is a gap longer than `--llm-stall`; stalls are counted per 1,000 tokens that were streamed.
- A reader who starts at the first output event and reads `READER_TPS` tokens a second waits when he has read all that
  there is and the next event has not come. The share of the answers in which that never happens.

Answers that succeeded and tell when tokens came, as for ITL. All is counted per request in whole numbers, so that
workers' parts add up.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure import metrics
from locust_llm.measure.record import RequestRecord

STALL_MS: Final = 250.0
"""Default of `--llm-stall`."""

READER_TPS: Final = 20.0
"""Tokens a second of a quick reader."""

_READ_MS: Final = 1e3 / READER_TPS


def max_gap_ms(record: RequestRecord) -> float | None:
    """The largest gap between consecutive output events of one choice; None without two of them."""
    gaps = metrics.itl_ms(record)
    return float(gaps.max()) if len(gaps) else None


def reader_waits(record: RequestRecord, largest_ms: float | None = None) -> bool | None:
    """Whether a reader of `READER_TPS` ever waits; None for several choices and where there are no gaps.

    The k tokens before an event are read k / READER_TPS after the first event: an event that comes later than that is
    waited for. k is what the server told event by event, else each event's even part of N_stream. `largest_ms`: the
    largest gap, where it is known: one that is short enough for a single token decides at once.
    """
    if record.event_choice is not None:
        return None
    events = len(record.event_ns)
    streamed = record.streamed_tokens
    if largest_ms is not None and largest_ms <= _READ_MS and (streamed is None or streamed >= events):
        return False
    if metrics.ttst_ms(record) is None:
        return None
    read_ms: NDArray[np.floating[Any]]
    if record.event_tokens is not None:
        told = np.frombuffer(record.event_tokens, dtype=np.int64)
        read_ms = np.cumsum(np.maximum(told, 1))[:-1] * _READ_MS
    else:
        each = streamed / events if streamed is not None else 1.0
        if (record.event_ns[-1] - record.event_ns[0]) * 1e-6 > (events - 1) * each * _READ_MS:
            return True  # even the last one comes too late
        read_ms = np.arange(1, events) * (each * _READ_MS)
    times = np.frombuffer(record.event_ns, dtype=np.int64)
    return bool(np.any((times[1:] - times[0]) * 1e-6 > read_ms))
