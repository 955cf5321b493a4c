"""StampClock: kernel receive times (CLOCK_REALTIME) on the monotonic clock.

Theory of operation. With SO_TIMESTAMPING the kernel notes when a packet arrived, in wall time. We keep the offset
wall - monotonic and subtract it. The offset is compared with a fresh reading before each drain of the sockets. A
difference that slewing (NTP) can have made since the last reading is followed; a larger one is a step of the wall
clock, and the reads of that drain then carry the time of the read instead, since nobody can say on which side of the
step they arrived.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from typing import Any

SOL_SOCKET = 1
SO_TIMESTAMPING = 37
RX_SOFTWARE_AND_REPORT = (1 << 3) | (1 << 4)
ANCILLARY_BYTES = 128

FOLLOW_NS = 2_000
"""A difference that is the noise of reading two clocks."""
SLEW_PARTS = 1_000
"""The kernel slews its wall clock by at most 1 in 2,000; twice that is certainly a step."""
STEP_NS = 20_000
FUTURE_NS = 1_000_000

_timespec = struct.Struct("@ll").unpack_from


def ask_for_stamps(socket: Any) -> Any:
    """Have the kernel stamp what `socket` receives, where it can (Linux); returns the socket."""
    if sys.platform == "linux":
        socket.setsockopt(SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE_AND_REPORT)
    return socket


class StampClock:
    """Converts kernel stamps; one per process. `steps` counts the steps of the wall clock that were seen."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self.steps = 0
        self.trusted = True
        self.offset_ns = self._measure()
        self._checked_ns = monotonic_ns()

    def _measure(self) -> int:
        """Wall - monotonic: of several readings the one taken fastest."""
        best: tuple[int, int] | None = None
        for _ in range(7):
            before = self._monotonic_ns()
            wall = self._wall_ns()
            after = self._monotonic_ns()
            if best is None or after - before < best[0]:
                best = (after - before, wall - (before + after) // 2)
        assert best is not None
        return best[1]

    def check(self) -> None:
        """Follow the wall clock; call before each drain. Sets `trusted` to False for a drain that a step touches."""
        self.trusted = True
        now_ns = self._monotonic_ns()
        difference = self._wall_ns() - now_ns - self.offset_ns
        if -FOLLOW_NS <= difference <= FOLLOW_NS:
            self._checked_ns = now_ns
            return
        fresh = self._measure()
        if abs(fresh - self.offset_ns) > STEP_NS + (now_ns - self._checked_ns) // SLEW_PARTS:
            self.steps += 1
            self.trusted = False
        self.offset_ns = fresh
        self._checked_ns = now_ns

    def monotonic(self, ancillary: list[tuple[int, int, bytes]], now_ns: int) -> int | None:
        """The packet's arrival in monotonic ns, or None when the kernel gave none that can be used.

        `now_ns` is the time of the read: no packet arrives after it was read, so a stamp from the future becomes
        `now_ns` if it is a little off, and is not used if it is more.
        """
        if not ancillary or not self.trusted:
            return None
        seconds, nanoseconds = _timespec(ancillary[0][2])
        if seconds == 0:
            return None
        stamp: int = seconds * 1_000_000_000 + nanoseconds - self.offset_ns
        if stamp > now_ns:
            return now_ns if stamp - now_ns < FUTURE_NS else None
        return stamp
