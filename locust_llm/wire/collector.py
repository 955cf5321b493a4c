"""Collector: one per process, it owns the readiness of every stream.

Theory of operation. All sockets sit in one epoll; the hub watches that one descriptor and calls `drain`, which calls
the reader of each ready socket. A reader takes the bytes with the kernel's receive time, feeds the HTTP parser and
appends to its stream: no greenlet switch per token. Greenlets wake only for headers, for the end, for errors, and a
few times a second to parse what has come. `drain_due` lets busy code (before a send, around a parse) look after the
sockets in between, so that no packet waits behind another stream's parsing long enough to be merged with the next.

Without epoll (macOS) each socket gets a watcher of its own and the same readers run.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent import monkey

from locust_llm.wire.clock import StampClock

DRAIN_DUE_NS = 1_000_000

_epoll = monkey.get_original("select", "epoll") if sys.platform == "linux" else None
logger = logging.getLogger(__name__)


class Collector:
    """Drains the sockets of all streams of this process in hub callbacks."""

    def __init__(self) -> None:
        self.clock = StampClock()
        self._readers: dict[int, Callable[[], None]] = {}
        self._loop = gevent.get_hub().loop
        self._watchers: dict[int, Any] = {}
        self._drained_ns = 0
        self._draining = False
        self._poll: Any = None
        if _epoll is not None:
            self._poll = _epoll()
            self._watcher = self._loop.io(self._poll.fileno(), 1)
            self._watcher.start(self.drain)

    def add(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever `fd` can be read, until `remove`."""
        self._readers[fd] = reader
        if self._poll is not None:
            self._poll.register(fd, 1)
        else:
            watcher = self._watchers[fd] = self._loop.io(fd, 1)
            watcher.start(self._read_one, fd)

    def remove(self, fd: int) -> None:
        """Forget `fd`; call it before the descriptor is closed."""
        if self._readers.pop(fd, None) is None:
            return
        if self._poll is not None:
            self._poll.unregister(fd)
        else:
            watcher = self._watchers.pop(fd)
            watcher.stop()
            watcher.close()

    def drain(self) -> None:
        """Read every socket that is ready. Safe to call from greenlets and hub callbacks; not re-entered."""
        if self._draining or self._poll is None:
            return
        self._draining = True
        try:
            self.clock.check()
            readers = self._readers
            for fd, _ in self._poll.poll(0, 4096):
                reader = readers.get(fd)
                if reader is not None:
                    reader()
            self._drained_ns = time.monotonic_ns()
        except Exception:  # a hub callback must never raise
            logger.exception("reading a stream failed")
        finally:
            self._draining = False

    def drain_due(self) -> None:
        """Drain if that was last done more than 1 ms ago."""
        if time.monotonic_ns() - self._drained_ns > DRAIN_DUE_NS:
            self.drain()

    def _read_one(self, fd: int) -> None:
        self.clock.check()
        reader = self._readers.get(fd)
        if reader is not None:
            reader()


_collectors: dict[int, Collector] = {}


def collector() -> Collector:
    """The collector of the running hub (one per process and thread)."""
    key = id(gevent.get_hub())
    found = _collectors.get(key)
    if found is None:
        found = _collectors[key] = Collector()
    return found
