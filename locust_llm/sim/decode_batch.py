"""The sequences that decode, and when each next pauses or ends.

Every member gains exactly one token a step, so its count is `steps − offset` and costs nothing to keep; the step at
which it stops is known when it joins and stands in a heap. Entries of sequences that left early stay in the heap until
they come to its top.
"""

from __future__ import annotations

from heapq import heappop, heappush

from locust_llm.sim.sequence import Sequence


class DecodeBatch:
    """Members in the order they joined."""

    def __init__(self) -> None:
        self.steps = 0  # taken by the engine since its start
        self._members: dict[Sequence, None] = {}
        self._stops: list[tuple[int, int, Sequence]] = []  # heap of (stop step, number, sequence)

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> list[Sequence]:
        """A list of its own, oldest first."""
        return list(self._members)

    def youngest(self) -> Sequence:
        """The member that joined last."""
        return next(reversed(self._members))

    def tokens_of(self, sequence: Sequence) -> int:
        """What the sequence has produced so far, member or not."""
        return self.steps - sequence.offset if sequence.state == "decoding" else sequence.tokens

    def join(self, sequence: Sequence) -> None:
        """From the next step on it gains a token a step."""
        sequence.state = "decoding"
        sequence.offset = self.steps - sequence.tokens
        sequence.stop_step = sequence.offset + sequence.next_stop
        self._members[sequence] = None
        heappush(self._stops, (sequence.stop_step, sequence.number, sequence))

    def leave(self, sequence: Sequence, boundary_ns: int) -> None:
        """Takes a member out, bringing its count and the time of its last token up to date."""
        del self._members[sequence]
        sequence.tokens = self.steps - sequence.offset
        sequence.last_ns = boundary_ns

    def steps_to_stop(self) -> int:
        """Steps until the first member stops; only while there are members."""
        while not self._is_live(self._stops[0]):
            heappop(self._stops)
        return self._stops[0][0] - self.steps

    def advance(self, steps: int) -> list[Sequence]:
        """Takes steps, not beyond the first stop; returns the members that have reached theirs."""
        self.steps += steps
        reached = []
        while self._stops and self._stops[0][0] <= self.steps:
            stop = heappop(self._stops)
            if self._is_live(stop):
                reached.append(stop[2])
        return reached

    def _is_live(self, stop: tuple[int, int, Sequence]) -> bool:
        return stop[2].state == "decoding" and stop[2].stop_step == stop[0]
