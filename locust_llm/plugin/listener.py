"""The stats listener: feeds RunStats, once a second and at each request's end, and carries it from workers to master.

Theory of operation. In a worker RunStats holds only what came since its last report; `take` hands it over as a part of
Locust's own report (every 3 s, and once more at the end, see lifecycle), tagged with the run's id, and the master adds
each report exactly once. Nothing is sent per request.

Resets happen exactly when Locust's do: `reset_all` and `clear_all` of the environment's RequestStats are wrapped,
since the `reset_stats` event fires only on the UI's button. Requests in flight go on and are carried over as started.
With `--reset-stats` every process resets when spawning is complete, each at its own moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Unpack

import gevent

from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import Clock, RequestRecord
from locust_llm.measure.stats import LOCAL_LAG_S, REPORT_LAG_S, Rules, RunStats
from locust_llm.measure.timeline import Timeline
from locust_llm.plugin.lag import LagProbe
from locust_llm.plugin.read_delays import ReadDelays

TICK_S = 1.0
PAUSE_EVERY = 200
"""Running requests looked at before other greenlets get a turn."""

_OUR_MARK = "_locust_llm_listener"


@dataclass(slots=True)
class Health:
    """How busy one process was: hub lags in ms, CPU use in percent of one core, second by second, and how late it read
    each packet that the kernel stamped, in ms."""

    lag_ms: Histogram = field(default_factory=Histogram)
    cpu_percent: Histogram = field(default_factory=Histogram)
    read_ms: Histogram = field(default_factory=Histogram)

    def add(self, other: Health) -> None:
        """Add new samples."""
        self.lag_ms.merge(other.lag_ms)
        self.cpu_percent.merge(other.cpu_percent)
        self.read_ms.merge(other.read_ms)

    def pack(self) -> dict[str, Any]:
        """As plain values for a message."""
        return {"lag": self.lag_ms.pack(), "cpu": self.cpu_percent.pack(), "read": self.read_ms.pack()}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Health:
        """What `pack` made."""
        health = cls()
        health.lag_ms.merge_packed(packed["lag"])
        health.cpu_percent.merge_packed(packed["cpu"])
        health.read_ms.merge_packed(packed["read"])
        return health


class Listener:
    """One per process: the figures of the running test."""

    def __init__(self, environment: Any, *, worker: bool, master: bool) -> None:
        self.environment = environment
        self.running: set[Timeline] = set()
        self.health: dict[str, Health] = {}
        self.on_tick: list[Callable[[], None]] = []
        self.step_health: dict[str, Health] = {}
        self.on_ended: list[Callable[[RequestRecord, int], None]] = []
        self._worker = worker
        self._master = master
        self._probe = LagProbe()
        self._read_delays = ReadDelays()
        self._over = False
        self._ticker: gevent.Greenlet | None = None
        self.stats = self._fresh(min_tokens=0)
        self._follow_resets(environment.stats)

    def begin(self, **rules: Unpack[Rules]) -> None:
        """A test starts: forget the last one."""
        self.stats = self._fresh(**rules)
        self.running = set()
        self.health = {}
        self._over = False
        self._take_health()
        self._follow_resets(self.environment.stats)
        if self._ticker is None:
            self._probe.start()
            self._ticker = gevent.spawn(self._tick_for_ever)

    # -- requests ----------------------------------------------------------------------------------------------

    def started(self, timeline: Timeline) -> None:
        """A request starts."""
        self.running.add(timeline)
        self.stats.started(timeline.name, timeline.started_ns)

    def left(self, timeline: Timeline) -> None:
        """A request's stream is over; its verdict may still be to come."""
        self.running.discard(timeline)

    def ended(self, record: RequestRecord, user: int = 0) -> None:
        """A request has ended and its verdict is final; `user` tells users apart, over all processes."""
        transit = record.transit
        if transit.clock is Clock.READ:  # these stamps are as late as the hub was
            transit.max_lag_ns = self._probe.worst_ns(record.started_ns, record.ended_ns)
        self.stats.add(record)
        for hear in self.on_ended:
            hear(record, user)

    # -- the second hand ---------------------------------------------------------------------------------------

    def _tick_for_ever(self) -> None:
        while True:
            gevent.sleep(TICK_S)
            if self._over:
                continue
            self.tick()
            for hear in self.on_tick:
                hear()

    def tick(self) -> None:
        """Look at all running requests and sample the gauges."""
        stats = self.stats
        for position, timeline in enumerate(tuple(self.running)):
            stats.progress(timeline)
            if position % PAUSE_EVERY == PAUSE_EVERY - 1:
                gevent.sleep(0)
        users = None if self._worker else self.environment.runner.user_count if self.environment.runner else None
        stats.tick(time.monotonic_ns(), self.running, users)
        if not self._worker:
            self._add_health("master" if self._master else "local", self._take_health())

    def finish(self) -> None:
        """The test is over and drained: every second is complete now, and no more are added."""
        self.tick()
        self.stats.close()
        self._over = True

    def stopping(self) -> None:
        """The test was asked to stop: what arrives from now on is drain."""
        self.stats.mark_stop(time.monotonic_ns())

    def all_running(self) -> None:
        """All users have been spawned."""
        self.stats.mark_all_users_running(time.monotonic_ns())

    # -- from worker to master ---------------------------------------------------------------------------------

    def take(self) -> dict[str, Any]:
        """What this worker has not reported yet, as plain values for a message."""
        for timeline in tuple(self.running):
            self.stats.progress(timeline)
        return {"stats": self.stats.take_delta(), **self._take_health().pack()}

    def merge(self, worker: str, report: dict[str, Any]) -> None:
        """Add a worker's report; each exactly once, in any order."""
        self.stats.merge_delta(report["stats"])
        self._add_health(worker, Health.unpack(report))

    def _take_health(self) -> Health:
        """What this process was like since the last call."""
        return Health(*self._probe.take(), self._read_delays.take())

    def _add_health(self, process: str, health: Health) -> None:
        """Add samples to the whole run's, and to those of the step that is measured."""
        for kept in (self.health, self.step_health):
            kept.setdefault(process, Health()).add(health)

    # -- resets ------------------------------------------------------------------------------------------------

    def _follow_resets(self, locust_stats: Any) -> None:
        """Reset whenever Locust does, once for each RequestStats instance."""
        if getattr(locust_stats, _OUR_MARK, None) is self:
            return
        reset_all, clear_all = locust_stats.reset_all, locust_stats.clear_all

        def reset() -> None:
            reset_all()
            self._reset()

        def clear() -> None:
            clear_all()
            self._reset()

        locust_stats.reset_all, locust_stats.clear_all = reset, clear
        setattr(locust_stats, _OUR_MARK, self)

    def _reset(self) -> None:
        self.stats.reset(time.monotonic_ns())
        self.health = {}

    def _fresh(self, **rules: Unpack[Rules]) -> RunStats:
        lag_s = None if self._worker else REPORT_LAG_S if self._master else LOCAL_LAG_S
        offset_ns = time.time_ns() - time.monotonic_ns()
        probing = any(getattr(user, "llm_probe", False) for user in getattr(self.environment, "user_classes", ()))
        return RunStats(offset_ns, lag_s=lag_s, probing=probing, **rules)
