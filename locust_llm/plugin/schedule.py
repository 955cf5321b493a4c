"""Schedule: the arrivals of open load in one process. Whoever is free takes the next.

Theory of operation. The arrival process is a generator of offsets from t0, the same in every process, of which each
process has its stripe. A user that is free claims the next arrival and sleeps until its time; when all are busy, due
arrivals wait in line, and the first that becomes free claims the oldest: late, which is what schedule delay shows. So
no dispatcher stands between the clock and the request, and no error adds up: each sleep ends at an absolute time.

`limit` is the most requests this process may have in flight; an arrival that finds so many is dropped and counted.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

import gevent
import gevent.event

TAKEN, DROPPED = "taken", "dropped"


class Schedule:
    """Arrivals of one process. Users wait until `start` tells when and which."""

    def __init__(self, in_flight: Callable[[], int] = lambda: 0, limit: int | None = None) -> None:
        self.limit = limit
        self._in_flight = in_flight
        self.begun = gevent.event.Event()
        self.exhausted = False
        self._t0_ns = 0
        self._offsets: Iterator[float] = iter(())
        self._due: deque[int] = deque()
        self._next_ns: int | None = None
        self._counts = {TAKEN: 0, DROPPED: 0}
        self._seconds: Counter[int] = Counter()
        self._ended = gevent.event.Event()
        self._closed = False

    def start(self, offsets: Iterator[float], t0_ns: int) -> None:
        """From `t0_ns` (monotonic) on, arrivals come at `offsets` seconds; what was waiting from before stays due."""
        self._offsets, self._t0_ns = offsets, t0_ns
        self._seconds, self._ended = Counter(), gevent.event.Event()
        self.exhausted = False
        self._next_ns = self._draw()
        self.begun.set()

    def pause(self) -> None:
        """No more arrivals until `start`: what is due is dropped, who sleeps for a later one waits for the start."""
        self._counts[DROPPED] += self.backlog
        self._offsets, self._next_ns = iter(()), None
        self._due.clear()
        self.begun.clear()
        self._ended.set()

    def close(self) -> int:
        """The test stops: nobody takes an arrival any more. Returns how many are left waiting."""
        self._closed = True
        return self.backlog

    @property
    def backlog(self) -> int:
        """Arrivals that are due and that nobody has taken. Offered = taken + dropped + backlog."""
        now_ns = time.monotonic_ns()
        self._advance(now_ns)
        return sum(at_ns <= now_ns for at_ns in self._due)

    def wait(self, prepare: Callable[[int], None] | None = None) -> int | None:
        """Sleep until an arrival is this user's; returns its time (monotonic ns), or None when there are no more.

        `prepare` gets what becomes this user's before the sleep, as ns from `t0_ns`: time for what takes some.
        """
        while True:
            self.begun.wait()
            ended, at_ns = self._ended, self._claim()
            if at_ns is None:
                return None
            try:
                if prepare is not None:
                    prepare(at_ns - self._t0_ns)
                _sleep_until(at_ns, ended)
            except BaseException:  # this user is stopped: the arrival is the next one's
                if not ended.is_set():
                    self._due.appendleft(at_ns)
                raise
            if self._closed:
                gevent.event.Event().wait()  # until this user is stopped, in a moment
            if ended.is_set():
                continue
            if self.limit is None or self._in_flight() < self.limit:
                self._counts[TAKEN] += 1
                self._seconds[(time.monotonic_ns() - self._t0_ns) // 1_000_000_000] += 1
                return at_ns
            self._counts[DROPPED] += 1

    def take_counts(self) -> dict[str, int]:
        """Arrivals taken and dropped since the last call."""
        counts, self._counts = self._counts, {TAKEN: 0, DROPPED: 0}
        return counts

    def take_seconds(self) -> Counter[int]:
        """Arrivals taken since the last call, by the second from `t0_ns` on in which they were."""
        seconds, self._seconds = self._seconds, Counter()
        return seconds

    def _claim(self) -> int | None:
        self._advance(time.monotonic_ns())
        if self._due:
            return self._due.popleft()
        at_ns = self._next_ns
        if at_ns is not None:
            self._next_ns = self._draw()
        return at_ns

    def _advance(self, now_ns: int) -> None:
        """Move what is due by now into the line."""
        while self._next_ns is not None and self._next_ns <= now_ns:
            self._due.append(self._next_ns)
            self._next_ns = self._draw()

    def _draw(self) -> int | None:
        offset = next(self._offsets, None)
        if offset is None:
            self.exhausted = True
            return None
        return self._t0_ns + int(offset * 1e9)


def _sleep_until(at_ns: int, ended: gevent.event.Event) -> None:
    """Sleep to an absolute time, never less, unless `ended` is set before."""
    while not ended.is_set():
        left = at_ns - time.monotonic_ns()
        if left <= 0:
            return
        ended.wait(left / 1e9)
