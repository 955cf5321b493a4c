"""Bell: where one greenlet sleeps until somebody rings, or until its time is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from locust_llm.wire.collector import Collector

HORIZON_NS = 1_000_000_000
"""Alarms are set no further ahead, since those of sleeps that ended earlier stay in the collector's heap till then."""


class Bell:
    """One greenlet's bell; its alarms are the collector's, so that no timer is made for each sleep."""

    __slots__ = ("_collector", "_rung", "_sleeper")

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._rung = False
        self._sleeper: Any = None

    def ring(self) -> None:
        """Wake the sleeper; without one, the next `wait` returns at once."""
        sleeper = self._sleeper
        if sleeper is None:
            self._rung = True
        else:
            self._sleeper = None
            self._collector.loop.run_callback(sleeper.switch, True)

    def wait(self, until_ns: int | None = None) -> bool:
        """Sleep; False when `until_ns` passed before anybody rang. None: for ever."""
        if self._rung:
            self._rung = False
            return True
        if until_ns is None:
            return self._sleep(None)
        while (now_ns := time.monotonic_ns()) < until_ns:
            if self._sleep(min(until_ns, now_ns + HORIZON_NS)):
                return True
        return False

    def _sleep(self, alarm_ns: int | None) -> bool:
        """Until somebody rings (True) or the alarm does."""
        sleeper = self._sleeper = self._collector.sleeper()
        if alarm_ns is not None:
            self._collector.set_alarm(alarm_ns, self, sleeper)
        try:
            rung: bool = sleeper.get()
            return rung
        finally:
            self._sleeper = None

    def time_over(self, sleeper: Any) -> None:
        """Wake the sleeper of one certain `wait`, if that still sleeps."""
        if self._sleeper is sleeper:
            self._sleeper = None
            self._collector.loop.run_callback(sleeper.switch, False)
