"""One timer with microsecond precision on an asyncio loop.

Theory of operation. libuv's and epoll's own timers round to milliseconds, which would blur every step of the engine. A
Linux timerfd is exact and is just one more readable descriptor to the loop; before Python 3.13 it is reached through
ctypes. Elsewhere the loop's own timer serves, and the steps are up to a millisecond late.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable

_TFD_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_TFD_TIMER_ABSTIME = 1
_NS_PER_S = 1_000_000_000


class _Itimerspec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class Alarm:
    """Calls `ring` once at the monotonic nanosecond given to `set`; setting it again replaces the time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._at_ns: int | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_FLAGS)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._readable)

    def set(self, at_ns: int | None) -> None:
        """Sets, moves or (with None) clears the time. A time in the past rings at once."""
        if at_ns == self._at_ns:
            return
        self._at_ns = at_ns
        if self._fd >= 0:
            seconds, nanoseconds = divmod(at_ns, _NS_PER_S) if at_ns is not None else (0, 0)
            spec = _Itimerspec(0, 0, seconds, nanoseconds)
            self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None)
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if at_ns is not None:
            delay_s = max(0.0, (at_ns - time.monotonic_ns()) / _NS_PER_S)
            self._handle = self._loop.call_later(delay_s, self._fire)

    def close(self) -> None:
        """Stops for good."""
        self.set(None)
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
            self._fire()

    def _fire(self) -> None:
        self._at_ns = None
        self._ring()
