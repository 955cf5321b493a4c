"""Arrivals: which events, tokens and gaps of one request belong to which wall-clock second. Pure functions.

A request's events are cut into seconds once, here, by position; all that is laid on them is laid on these positions,
so that sums hold whatever the clock did.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure.record import RequestRecord, TokenSource

SECOND_NS: Final = 1_000_000_000


def by_second(times: array[int], first: int, offset_ns: int) -> list[tuple[int, int, int]]:
    """(wall-clock second, begin, end) of the events from `first` on; each event is in exactly one of them."""
    bins = []
    end = len(times)
    last_second = (times[-1] + offset_ns) // SECOND_NS if end else 0
    while first < end:
        second = (times[first] + offset_ns) // SECOND_NS
        stop = end
        if second < last_second:
            stop = bisect_left(times, (second + 1) * SECOND_NS - offset_ns, first + 1)
        bins.append((second, first, stop))
        first = stop
    return bins


def tokens_through(record: RequestRecord) -> Callable[[int], int] | None:
    """f(i) = output tokens in the first i events, f(all) = N. None when the tokens are not known.

    Reasoning that was never streamed came before the first event and counts with it. The rest lies on the events as
    the server told, else evenly. The number of events of a request that was cut off is not a number of tokens.
    """
    total = record.output_tokens
    if total is None or (not record.success and record.token_source is TokenSource.CHUNKS):
        return None
    events = len(record.event_ns)
    streamed = record.streamed_tokens if record.streamed_tokens is not None else total
    hidden = total - streamed
    told = record.event_tokens
    if told is not None and (weight := sum(told)) > 0:
        sums = list(accumulate(told, initial=0))
        return lambda i: hidden + streamed * sums[i] // weight if i > 0 else 0
    return lambda i: hidden + streamed * i // events if i > 0 else 0


def gaps_ms(
    times: array[int], choices: array[int] | None, first: int
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """(gaps in ms to the event before of the same choice, positions of the events that end them), from `first` on.

    `choices` is None when there is one; then the positions are None too: the first gap ends at event max(first, 1),
    the next one event later, and so on.
    """
    if choices is None:
        recent = np.frombuffer(times[max(first - 1, 0) :], dtype=np.int64)
        return (recent[1:] - recent[:-1]).astype(np.float64) * 1e-6, None
    choice = np.frombuffer(choices[:], dtype=np.int64)
    order = np.argsort(choice, kind="stable")
    gaps = np.diff(np.frombuffer(times[:], dtype=np.int64)[order])
    position = order[1:]
    keep = (np.diff(choice[order]) == 0) & (position >= first)
    by_time = np.argsort(position[keep])
    return gaps[keep][by_time].astype(np.float64) * 1e-6, position[keep][by_time]
