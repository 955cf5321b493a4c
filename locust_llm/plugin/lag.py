"""The probe: how late and how busy this process is, so that a run can say when the client was the bottleneck.

A greenlet sleeps 20 ms and notes how much later it woke; once a second, how much of a core the process used. With
kernel stamps a late hub does not touch the stamps of arrivals (unless reads coalesce); with stamps of the read it
does, so each such record carries the lag around it.
"""

from __future__ import annotations

import time
from collections import deque

import gevent

from locust_llm.measure.histogram import Histogram

PERIOD_S = 0.02
NOTABLE_NS = 1_000_000
KEPT = 4096


class LagProbe:
    """Samples one process."""

    def __init__(self) -> None:
        self._lag_ms = Histogram()
        self._cpu_percent = Histogram()
        self._late: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._greenlet: gevent.Greenlet | None = None

    def start(self) -> None:
        """Start sampling, once."""
        if self._greenlet is None:
            self._greenlet = gevent.spawn(self._sample)

    def take(self) -> tuple[Histogram, Histogram]:
        """(hub lags in ms, CPU use in percent of a core) since the last call."""
        taken = self._lag_ms, self._cpu_percent
        self._lag_ms, self._cpu_percent = Histogram(), Histogram()
        return taken

    def worst_ns(self, begin_ns: int, end_ns: int) -> int:
        """The largest lag seen between two instants, 0 when none was above 1 ms."""
        worst = 0
        for at_ns, lag_ns in reversed(self._late):
            if at_ns < begin_ns:
                break
            if at_ns - lag_ns <= end_ns and lag_ns > worst:
                worst = lag_ns
        return worst

    def _sample(self) -> None:
        period_ns = int(PERIOD_S * 1e9)
        second_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        while True:
            before = time.monotonic_ns()
            gevent.sleep(PERIOD_S)
            now = time.monotonic_ns()
            lag_ns = max(now - before - period_ns, 0)
            self._lag_ms.add(lag_ns / 1e6)
            if lag_ns > NOTABLE_NS:
                self._late.append((now, lag_ns))
            if now - second_ns >= 1_000_000_000:
                used_ns = time.process_time_ns()
                self._cpu_percent.add(100 * (used_ns - cpu_ns) / (now - second_ns))
                second_ns, cpu_ns = now, used_ns
