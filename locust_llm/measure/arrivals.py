"""Arrivals: which wall-clock second each output token came in.

Theory of operation. A stream tells its number of tokens only when it ends, but its events come all along. While it
runs, its events are counted as *events* in the second each arrived, unweighed; when it ends, those counts are taken
back and its N tokens are laid on its events instead, as whole numbers. A reader of the series weighs the events that
are still unweighed with their name's tokens per event. So everything stored is an integer, corrections are signed
integers, and it does not matter in which process or in which order they are added.

A request that was cut off and never told its tokens keeps its unweighed events.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure.record import RequestRecord, TokenSource

SECOND_NS: Final = 1_000_000_000


class Running:
    """What the series already hold of one running request."""

    __slots__ = ("bins", "drained", "events", "seen")

    def __init__(self, events: array[int]) -> None:
        self.events = events  # held so that its id stays its own
        self.seen = 0
        self.bins: list[tuple[int, int]] = []
        self.drained = 0


def by_second(times: array[int], first: int, offset_ns: int) -> Iterator[tuple[int, int, int]]:
    """(wall-clock second, begin, end) of the events from `first` on; each event is in exactly one of them."""
    end = len(times)
    if first >= end:
        return
    last_second = (times[-1] + offset_ns) // SECOND_NS
    while first < end:
        second = (times[first] + offset_ns) // SECOND_NS
        stop = end
        if second < last_second:
            stop = bisect_left(times, (second + 1) * SECOND_NS - offset_ns, first + 1)
        yield second, first, stop
        first = stop


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
    if streamed == events:
        return lambda i: hidden + i if i > 0 else 0
    return lambda i: hidden + streamed * i // events if i > 0 else 0


def gaps_ns(times: array[int], choices: array[int] | None, first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(gap to the event before of the same choice, position) of the events from `first` on that have one."""
    if choices is None or not any(choices):
        begin = max(first - 1, 0)
        recent = np.frombuffer(times[begin:], dtype=np.int64)
        return recent[1:] - recent[:-1], np.arange(begin + 1, len(times))
    order = np.argsort(np.frombuffer(choices[:], dtype=np.int64), kind="stable")
    gaps = np.diff(np.frombuffer(times[:], dtype=np.int64)[order])
    same = np.diff(np.frombuffer(choices[:], dtype=np.int64)[order]) == 0
    position = order[1:]
    keep = same & (position >= first)
    by_time = np.argsort(position[keep])
    return gaps[keep][by_time], position[keep][by_time]
