"""Who holds a slot and KV room: the way of each sequence from the queue to its end.

KV: a sequence takes room for its whole prompt when it is let in, and one token a step (shared prefixes are counted for
each). When the next step does not fit, the youngest is preempted: it loses its KV, goes back to the head of the queue,
and its prompt and the tokens it already produced are prefilled again; tokens that were sent are not sent twice.
"""

from __future__ import annotations

from collections import deque

from locust_llm.sim.decode_batch import DecodeBatch
from locust_llm.sim.pauses import Pauses
from locust_llm.sim.prefix_cache import PrefixCache
from locust_llm.sim.sequence import Outcome, Sequence
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.tally import Tally


class Scheduler:
    """Moves sequences between queue, prefill, decode and pauses; every call that needs the time is told it."""

    def __init__(self, settings: EngineSettings, tally: Tally) -> None:
        self._settings = settings
        self._tally = tally
        self._cache = PrefixCache(settings.prefix_cache_tokens) if settings.prefix_cache_tokens is not None else None
        self._entering = 0
        self._waiting: deque[Sequence] = deque()
        self._kv_blocked = False  # the head of the queue waits for KV, not for a slot
        self.prefilling: dict[Sequence, None] = {}
        self.decoding = DecodeBatch()
        self.pauses = Pauses()
        self.running = 0  # sequences that hold a slot
        self.kv_used = 0  # tokens

    @property
    def waiting(self) -> int:
        """Sequences without a slot."""
        return len(self._waiting) + self._entering

    @property
    def queued(self) -> int:
        """Sequences that wait although they would be let in if there were room; below 0 while slots are free."""
        return self.waiting - (0 if self._kv_blocked else self._settings.slots - self.running)

    @property
    def admits_next(self) -> bool:
        """Whether the next boundary lets somebody in."""
        return bool(self._waiting) and self.running < self._settings.slots and not self._kv_blocked

    # Boundaries

    def wake(self, now_ns: int) -> list[Sequence]:
        """Brings back whoever has paused long enough; returns those that decode again."""
        resumed = []
        for sequence in self.pauses.woken(now_ns):
            if sequence.state == "entering":
                self._entering -= 1
                self.enqueue(sequence)
            elif sequence.state == "slow":
                self._prefill(sequence)
            else:
                self.decoding.join(sequence)
                resumed.append(sequence)
        return resumed

    def make_room(self, now_ns: int) -> None:
        """Preempts the youngest until one more token for every decoding sequence fits."""
        capacity = self._settings.kv_tokens
        while capacity is not None and self.kv_used + len(self.decoding) > capacity:
            sequence = next(reversed(self.prefilling)) if self.prefilling else self.decoding.youngest()
            self._leave_slot(sequence, now_ns)
            sequence.state = "waiting"
            sequence.preemptions += 1
            self._tally.preemptions += 1
            self._waiting.appendleft(sequence)

    def admit(self, now_ns: int) -> None:
        """Gives slots to those that wait, first come, first served."""
        slots, capacity = self._settings.slots, self._settings.kv_tokens
        self._kv_blocked = False
        while self._waiting and self.running < slots:
            sequence = self._waiting[0]
            context = sequence.prompt_tokens + sequence.tokens
            # One token of room for everybody in a slot, or this one would be preempted before its first token.
            if capacity is not None and self.running and self.kv_used + context + self.running + 1 > capacity:
                self._kv_blocked = True
                return
            self._waiting.popleft()
            self.running += 1
            self.kv_used += context
            if sequence.started_ns is None:
                sequence.started_ns = now_ns
            if sequence.slow_ns and not sequence.preemptions:
                sequence.state = "slow"
                self.pauses.add(sequence, now_ns + sequence.slow_ns)
            else:
                self._prefill(sequence)

    # A sequence's way

    def enter(self, sequence: Sequence, joins_ns: int) -> None:
        """The sequence joins the queue later."""
        self._entering += 1
        sequence.joined_ns = joins_ns
        self.pauses.add(sequence, joins_ns)

    def enqueue(self, sequence: Sequence) -> None:
        """The sequence joins the queue now."""
        sequence.state = "waiting"
        self._waiting.append(sequence)

    def complete_prefill(self, sequence: Sequence, now_ns: int) -> bool:
        """The prompt is done and gives a token, unless none is wanted; True when that ends the sequence."""
        if self._cache is not None:
            self._cache.store(sequence.blocks)
        if sequence.last_ns is None:
            self._tally.prompt_tokens += sequence.prompt_tokens
            self._tally.cached_tokens += sequence.cached_tokens if sequence.cached_tokens is not None else 0
        if sequence.target == 0:
            self._leave_slot(sequence, now_ns)
            self._end(sequence, sequence.ends_as, now_ns)
            return True
        del self.prefilling[sequence]
        sequence.tokens += 1
        sequence.last_ns = now_ns
        if sequence.first_ns is None:
            sequence.first_ns = now_ns
        self.decoding.join(sequence)
        return sequence.tokens == sequence.next_stop and self.stop(sequence, now_ns)

    def stop(self, sequence: Sequence, now_ns: int) -> bool:
        """A decoding sequence has reached its next stop: it pauses, or ends (True)."""
        if sequence.stall_at is None:
            self._leave_slot(sequence, now_ns)
            self._end(sequence, sequence.ends_as, now_ns)
            return True
        self.decoding.leave(sequence, now_ns)
        sequence.state, sequence.stall_at = "stalled", None
        self.pauses.add(sequence, now_ns + sequence.stall_ns)
        return False

    def cancel(self, sequence: Sequence, now_ns: int) -> None:
        """Takes a sequence out, wherever it is."""
        self._kv_blocked = False  # whoever is first in the queue then may fit: the next boundary looks again
        if sequence.state == "entering":
            self._entering -= 1
        elif sequence.state == "waiting":
            self._waiting.remove(sequence)
        else:
            self._leave_slot(sequence, now_ns)
        self._end(sequence, "cancelled", now_ns)

    def _prefill(self, sequence: Sequence) -> None:
        sequence.state = "prefilling"
        cached = 0
        if self._cache is not None:
            cached = self._cache.cached_tokens(sequence.blocks, sequence.prompt_tokens)
            if not sequence.preemptions:
                sequence.cached_tokens = cached
        sequence.prefill_left = sequence.prompt_tokens + sequence.tokens - cached
        self.prefilling[sequence] = None

    def _leave_slot(self, sequence: Sequence, now_ns: int) -> None:
        if sequence.state == "decoding":
            self.decoding.leave(sequence, now_ns)
        elif sequence.state == "prefilling":
            del self.prefilling[sequence]
        # The newest token's KV is written only by the step that reads it.
        unwritten = 1 if sequence.state in ("decoding", "stalled") else 0
        self.kv_used -= sequence.prompt_tokens + sequence.tokens - unwritten
        self.running -= 1

    def _end(self, sequence: Sequence, outcome: Outcome, now_ns: int) -> None:
        sequence.state, sequence.outcome, sequence.ended_ns = "ended", outcome, now_ns
        self._tally.count(outcome)
