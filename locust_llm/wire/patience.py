"""Patience: the deadlines of one request: the next output event, the whole, and the end of what is decided already.

Only output events count as progress, so keep-alive comments cannot hold a dead stream open. An answer that its finish
reason has completed, or that has failed, is read on for a short while only: for its usage, and so that its connection
can be used again.
"""

from __future__ import annotations

import time
from typing import Final

from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures

LOOK_S: Final = 0.5
"""The longest sleep between two looks at a stream: parsing waits that long at most, stamps do not."""

COMPLETE_NS: Final = 2_000_000_000
FAILED_NS: Final = 50_000_000
"""How long to read on after the finish reason, and after a failure."""


class Patience:
    """Watches the timeline of one running request. Timeouts are seconds, 0 = none; times inside, monotonic ns."""

    __slots__ = ("_decided_ns", "_stall_ns", "_timeline", "_total_ns")

    def __init__(self, timeline: Timeline, stall_s: float, total_s: float) -> None:
        self._timeline = timeline
        self._stall_ns = int(stall_s * 1e9)
        self._total_ns = timeline.started_ns + int(total_s * 1e9) if total_s else None
        self._decided_ns: int | None = None

    def _due(self) -> tuple[int, str] | None:
        """(when patience ends, what is to blame then); None: never."""
        timeline = self._timeline
        total_ns = self._total_ns
        due = None if total_ns is None else (total_ns, failures.TIMEOUT)
        if timeline.error is not None or (timeline.finish_reasons and timeline.complete):
            if self._decided_ns is None:
                self._decided_ns = time.monotonic_ns()
            stall_ns = self._decided_ns + (COMPLETE_NS if timeline.error is None else FAILED_NS)
        elif not self._stall_ns:
            return due
        elif timeline.event_ns:
            stall_ns = timeline.event_ns[-1] + self._stall_ns
        else:
            sent_ns = timeline.transit.sent_ns
            stall_ns = (sent_ns if sent_ns is not None else time.monotonic_ns()) + self._stall_ns
        return due if due is not None and due[0] < stall_ns else (stall_ns, failures.STALL)

    def left_s(self) -> float | None:
        """How long patience lasts from now; None: for ever."""
        due = self._due()
        return None if due is None else max((due[0] - time.monotonic_ns()) / 1e9, 0.001)

    def wait_s(self) -> float:
        """How long to sleep before looking again."""
        left = self.left_s()
        return LOOK_S if left is None else min(LOOK_S, left)

    def over(self) -> bool:
        """Whether patience has ended."""
        due = self._due()
        return due is not None and due[0] <= time.monotonic_ns()

    def verdict(self) -> str:
        """The label of the deadline that comes first."""
        due = self._due()
        return failures.TIMEOUT if due is None else due[1]
