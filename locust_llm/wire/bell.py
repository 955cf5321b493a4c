"""Bell: where one greenlet sleeps until somebody rings, or until its time is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from locust_llm.wire.collector import Collector


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
        if until_ns is not None and until_ns <= time.monotonic_ns():
            return False
        sleeper = self._sleeper = self._collector.sleeper()
        if until_ns is not None:
            self._collector.set_alarm(until_ns, self, sleeper)
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
