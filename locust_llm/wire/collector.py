"""Collector: one per process, it owns the readiness of every stream, and the clock that wakes their readers.

Theory of operation. All sockets sit in one epoll. `drain` asks it once and calls the reader of each ready socket, which
takes the bytes with the kernel's receive time, parses the framing and appends to its stream: no greenlet switch per
token. Greenlets sleep at a `Bell`; they wake for headers, for the end, for errors, and a few times a second to parse
what has come. `drain_due` lets busy code (before a send, around a parse) look after the sockets in between, so that no
packet waits behind another stream's parsing long enough to be merged with the next.

Who calls `drain`? With few reads, the hub does when the epoll's own descriptor is ready (*readiness*). With many, and
as long as the kernel stamps them all, it does not matter when a packet is read, only that it is read before the next
one of its stream: a timer then drains every 2 ms, at about half the cost of waking for each (*pacing*). Every 100 ms
the rate of reads, the share without a stamp and the share that held several pieces of one stream decide between them.
Pieces that merged because this process was kept from draining at all say nothing against pacing, and do not count.

Without epoll (macOS) each socket gets a watcher of its own, and `drain` asks poll().
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import gevent
import gevent.hub
import gevent.socket
from gevent import monkey

from locust_llm.wire.bell import Bell
from locust_llm.wire.clock import StampClock, ask_for_stamps

DRAIN_DUE_NS = 1_000_000
TICK_S = 0.002
ALARM_S = 0.01
"""How often the alarms are looked at while nothing is paced: the precision of deadlines."""

REVIEW_NS = 100_000_000
PACE_ABOVE = 1_000
"""Reads a second from which on pacing is cheaper; below half of it readiness is."""
UNSTAMPED_SHARE = 0.01
MERGED_SHARE = 0.1
HOLD_NS = 2_000_000_000
"""How long pacing is left alone after it merged pieces."""
STALLED_NS = 4_000_000
"""Time from one drain's beginning to the next one's that no pacing makes."""

READY_AT_ONCE = 1024
ROUNDS = 16
LAG_BINS = 64

_READABLE = 1
_WRITABLE = 2
_socket: Any = monkey.get_original("socket", "socket")
_make_poll: Any = monkey.get_original("select", "epoll" if sys.platform == "linux" else "poll")
logger = logging.getLogger(__name__)


class Collector:
    """Drains the sockets of all streams of this process in hub callbacks.

    Readers add to `unstamped` (reads without a kernel stamp), `merged` (reads that held several pieces of a stream)
    and, by `lag_ns.bit_length()`, to `lags`: how late each stamped packet was read, in powers of two.
    """

    def __init__(self) -> None:
        self.hub = gevent.get_hub()
        self.loop = self.hub.loop
        self.clock = StampClock()
        self.paced = False
        self.unstamped = 0
        self.merged = 0
        self.lags = [0] * LAG_BINS
        self._readers: dict[int, Callable[[], None]] = {}
        self._poll = _make_poll()
        self._has_descriptor = hasattr(self._poll, "fileno")
        self._watchers: dict[int, Any] = {}
        self._timer: Any = None
        self._alarms: list[tuple[int, int, Bell, Any]] = []
        self._serial = itertools.count()
        self._draining = False
        self._begun_ns = 0
        self._drained_ns = 0
        self._reads = 0
        self._reviewed_ns = time.monotonic_ns()
        self._hold_until_ns = 0
        # The kernel stamps packets only while some socket asks for it, and takes a moment to begin: one asks all along.
        self._stamped_fd: int = ask_for_stamps(_socket(gevent.socket.AF_INET, gevent.socket.SOCK_DGRAM)).detach()
        if self._has_descriptor:
            self._watcher = self.loop.io(self._poll.fileno(), _READABLE)
            self._watcher.start(self._on_ready)

    def close(self) -> None:
        """Look after nothing any more."""
        for fd in list(self._readers):
            self.remove(fd)
        self._set_timer(None)
        os.close(self._stamped_fd)
        if self._has_descriptor:
            self._watcher.stop()
            self._watcher.close()
            self._poll.close()

    # -- sockets -------------------------------------------------------------------------------------------------

    def add(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever `fd` can be read, until `remove`. It must not block and should not raise."""
        self._readers[fd] = reader
        self._poll.register(fd, _READABLE)
        if not self._has_descriptor:
            watcher = self._watchers[fd] = self.loop.io(fd, _READABLE)
            watcher.start(self._read_one, fd)

    def remove(self, fd: int) -> None:
        """Forget `fd`; call it before the descriptor is closed."""
        if self._readers.pop(fd, None) is None:
            return
        self._poll.unregister(fd)
        if not self._has_descriptor:
            watcher = self._watchers.pop(fd)
            watcher.stop()
            watcher.close()

    def wait_for_room(self, fd: int, bell: Bell, until_ns: int | None) -> bool:
        """Sleep at `bell` until `fd` can be written, somebody rings, or the time is over (then False)."""
        watcher = self.loop.io(fd, _WRITABLE)
        watcher.start(bell.ring)
        try:
            return bell.wait(until_ns)
        finally:
            watcher.stop()
            watcher.close()

    def drain(self) -> None:
        """Read every socket that is ready. From greenlets and hub callbacks; never switches, is not re-entered."""
        if self._draining:
            return
        self._draining = True
        now_ns = time.monotonic_ns()
        stalled = now_ns - self._begun_ns > STALLED_NS
        self._begun_ns = now_ns
        merged = self.merged
        try:
            self.clock.check()
            for _ in range(ROUNDS):
                ready = self._poll.poll(0, READY_AT_ONCE) if self._has_descriptor else self._poll.poll(0)
                self._reads += len(ready)
                self._read_all(ready)
                if len(ready) < READY_AT_ONCE:
                    break
        finally:
            if stalled:
                self.merged = merged
            self._drained_ns = time.monotonic_ns()
            self._draining = False

    def drain_due(self) -> None:
        """Drain if that was last done more than 1 ms ago."""
        if time.monotonic_ns() - self._drained_ns > DRAIN_DUE_NS:
            self.drain()

    def _read_all(self, ready: list[tuple[int, int]]) -> None:
        readers = self._readers
        for fd, _ in ready:
            reader = readers.get(fd)
            if reader is None:
                continue
            try:
                reader()
            except Exception:
                logger.exception("reading a stream failed; its connection is left alone from now on")
                self.remove(fd)

    def _on_ready(self) -> None:
        self.drain()
        if self._drained_ns - self._reviewed_ns > REVIEW_NS:
            self._review(self._drained_ns)

    def _read_one(self, fd: int) -> None:
        self.clock.check()
        self._read_all([(fd, _READABLE)])

    # -- pacing --------------------------------------------------------------------------------------------------

    def _review(self, now_ns: int) -> None:
        """Choose between readiness and pacing by what the time since the last review showed."""
        rate = self._reads * 1e9 / (now_ns - self._reviewed_ns)
        stamped = self.unstamped <= self._reads * UNSTAMPED_SHARE
        apart = self.merged <= self._reads * MERGED_SHARE
        if self.paced:
            if not apart:
                self._hold_until_ns = now_ns + HOLD_NS
            if not (apart and stamped and rate > PACE_ABOVE / 2):
                self._pace(False)
        elif apart and stamped and rate > PACE_ABOVE and now_ns > self._hold_until_ns:
            self._pace(True)
        self._reads = self.unstamped = self.merged = 0
        self._reviewed_ns = now_ns

    def _pace(self, paced: bool) -> None:
        self.paced = paced
        if paced:
            self._watcher.stop()
        else:
            self._watcher.start(self._on_ready)
        self._set_timer(TICK_S if paced else ALARM_S)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None
        if seconds is not None:
            self._timer = self.loop.timer(seconds, seconds)
            self._timer.start(self._tick)

    def _tick(self) -> None:
        if self.paced:
            self.drain()
        now_ns = time.monotonic_ns()
        alarms = self._alarms
        while alarms and alarms[0][0] <= now_ns:
            _, _, bell, sleeper = heapq.heappop(alarms)
            bell.time_over(sleeper)
        if self.paced:
            if now_ns - self._reviewed_ns > REVIEW_NS:
                self._review(now_ns)
        elif not alarms:
            self._set_timer(None)

    def sleeper(self) -> Any:
        """What a greenlet sleeps in: `get` in the greenlet, `switch` from the hub."""
        return gevent.hub.Waiter(self.hub)

    def set_alarm(self, at_ns: int, bell: Bell, sleeper: Any) -> None:
        """Tell `bell` when the time of `sleeper` is over."""
        heapq.heappush(self._alarms, (at_ns, next(self._serial), bell, sleeper))
        if self._timer is None:
            self._set_timer(ALARM_S)


_collectors: WeakKeyDictionary[Any, Collector] = WeakKeyDictionary()
# A child would share the parent's epoll.
os.register_at_fork(after_in_child=_collectors.clear)


def collector() -> Collector:
    """The collector of the running hub (one per process and thread)."""
    hub = gevent.get_hub()
    found = _collectors.get(hub)
    if found is None:
        found = _collectors[hub] = Collector()
    return found
