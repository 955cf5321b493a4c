"""Sequences that wait for a time instead of a turn: on entry, on a slow start, in a stall."""

from __future__ import annotations

from heapq import heappop, heappush

from locust_llm.sim.sequence import Sequence


class Pauses:
    """A heap by waking time. Who is cancelled meanwhile is dropped when it comes to the top."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sequence]] = []

    def add(self, sequence: Sequence, wakes_ns: int) -> None:
        """Lets the sequence sleep until then; its state says what for."""
        heappush(self._heap, (wakes_ns, sequence.number, sequence))

    def next_ns(self) -> int | None:
        """When the next sequence wakes; `None` when nobody sleeps."""
        while self._heap and self._heap[0][2].state == "ended":
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def woken(self, now_ns: int) -> list[Sequence]:
        """Takes out everybody whose time has come, in the order of those times."""
        woken = []
        while (wakes_ns := self.next_ns()) is not None and wakes_ns <= now_ns:
            woken.append(heappop(self._heap)[2])
        return woken
