"""A simulated continuous-batching inference engine: pure, seeded, and without a clock of its own.

Theory of operation. Time is integer nanoseconds and comes in with every call: the server hands in the monotonic clock,
a virtual experiment whatever it likes. The engine works in steps. A step begins at a boundary: paused sequences whose
time has come return, waiting ones are let in (first come, first served, while there are slots and KV room), and the
batch is fixed: every decoding sequence for one token, prompt chunks with the rest of the token budget. At the step's
end every decoding sequence has one more token, and a prompt that is complete gives its first. Who arrives meanwhile
waits for the next boundary; who cancels leaves at once, but the step takes its time.

A step begins lazily, on the first call that needs it: everybody who was handed in for the same instant is in the batch.

Every decoding sequence gains exactly one token a step, so its count is `steps − offset` and needs no work per token;
the step at which it pauses or ends is known beforehand and stands in a heap. While nothing but decoding goes on, all
steps are equal, and `advance(bulk=True)` takes them in one go: an hour of load costs as much as its requests, not its
tokens. Counting in integers makes both ways agree to the nanosecond.

KV: a sequence takes room for its whole prompt when it is let in, and one token a step. When the next step does not fit,
the youngest is preempted: it loses its KV, goes back to the head of the queue, and its prompt and the tokens it already
produced are prefilled again (recompute); tokens it has sent are not sent twice.
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import Any

from locust_llm.sim.faults import draw_fault
from locust_llm.sim.prefix_cache import PrefixCache
from locust_llm.sim.rate_limit import RateLimit
from locust_llm.sim.sequence import Outcome, Refusal, Sequence, Tick
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.tally import Tally

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


class Engine:
    """One simulated engine. Calls must come in the order of their times."""

    def __init__(self, settings: EngineSettings, now_ns: int = 0) -> None:
        problem = settings.problem()
        if problem is not None:
            raise ValueError(problem)
        self.settings = settings
        self.tally = Tally()
        self.now_ns = now_ns  # the last boundary, or the last call while idle
        self.kv_used = 0
        self._random = Random(settings.seed)
        self._limit = RateLimit(settings.rate_limit_rps, settings.rate_limit_burst, now_ns)
        self._cache = PrefixCache(settings.prefix_cache_tokens) if settings.prefix_cache_tokens is not None else None
        self._waiting: deque[Sequence] = deque()
        self._prefilling: dict[Sequence, None] = {}
        self._decoding: dict[Sequence, None] = {}
        self._parked: list[tuple[int, int, Sequence]] = []  # heap of (wakes at ns, number, sequence)
        self._stops: list[tuple[int, int, Sequence]] = []  # heap of (stop step, number, sequence); may be stale
        self._held = 0  # slots taken
        self._entering = 0
        self._kv_blocked = False  # the head of the queue waits for KV, not for a slot
        self._chunks: list[tuple[Sequence, int]] = []  # the prompt chunks of the step that is under way
        self._batch = 0  # its decoding streams when it began
        self._step_ns: int | None = None  # its duration; None between steps
        self._prefill_ns = _NS_PER_S / settings.prefill_tps

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._held

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting) + self._entering

    def tokens_of(self, sequence: Sequence) -> int:
        """Tokens the sequence has produced up to the last boundary."""
        return self.tally.steps - sequence.offset if sequence.state == "decoding" else sequence.tokens

    def submit(
        self,
        now_ns: int,
        prompt_tokens: int,
        max_tokens: int | None = None,
        *,
        ignore_eos: bool = False,
        blocks: list[int] | None = None,
        tag: Any = None,
    ) -> Sequence | Refusal:
        """Hands in a request. `max_tokens` 0 ends it with its prefill (embeddings); `blocks` feed the prefix cache."""
        self._reach(now_ns)
        self.tally.received += 1
        limit = max_tokens if max_tokens is not None else self.settings.default_max_tokens
        refusal = self._refusal(now_ns, prompt_tokens, limit)
        if refusal is not None:
            self.tally.refused += 1
            return refusal
        natural = None if ignore_eos else self.settings.answers.draw(self._random)
        target, end = (limit, "length") if natural is None or natural > limit else (natural, "stop")
        sequence = Sequence(self.tally.received, now_ns, prompt_tokens, target, end, blocks or [], tag)  # type: ignore[arg-type]
        self._inject_fault(sequence)
        if self.settings.entry_ms:
            self._entering += 1
            self._park(sequence, round(self.settings.entry_ms * _NS_PER_MS))
        else:
            self._enqueue(sequence)
        return sequence

    def cancel(self, now_ns: int, sequence: Sequence) -> None:
        """The client went away: the sequence leaves at once. Does nothing when it has already ended."""
        self._reach(now_ns)
        if sequence.state == "ended":
            return
        if sequence.state == "entering":
            self._entering -= 1
        elif sequence.state == "waiting":
            self._waiting.remove(sequence)
        self._leave(sequence)
        self._end(sequence, "cancelled")

    def next_ns(self) -> int | None:
        """When `advance` will next have something to do: a step's end or a pause's; `None` while idle.

        Begins the step that is due, so hand in first whatever arrives at this instant.
        """
        if self._step_ns is None and not self._begin():
            self._drop_dead_parked()
            return self._parked[0][0] if self._parked else None
        assert self._step_ns is not None
        return self.now_ns + self._step_ns

    def advance(self, until_ns: int, bulk: bool = False) -> Tick | None:
        """The next tick that ends at or before `until_ns`; `None` when there is none.

        Call it until it gives None. Between two calls requests may be handed in or cancelled at the tick's time: the
        step that follows begins only afterwards.
        """
        while self._step_ns is None:
            if self.now_ns >= until_ns:
                return None
            if self._begin():
                break
            self._drop_dead_parked()
            if not self._parked or self._parked[0][0] > until_ns:
                self.now_ns = until_ns
                return None
            self.now_ns = self._parked[0][0]
        assert self._step_ns is not None
        if self.now_ns + self._step_ns > until_ns:
            return None
        return self._finish_steps(self._equal_steps(until_ns) if bulk else 1)

    # Arrival

    def _reach(self, now_ns: int) -> None:
        """Moves to the time of a call: a step that was due earlier has begun by then."""
        if self._step_ns is None and now_ns > self.now_ns and not self._begin():
            self.now_ns = now_ns
        if now_ns < self.now_ns or (self._step_ns is not None and now_ns >= self.now_ns + self._step_ns):
            raise ValueError(f"advance() to {now_ns} ns before handing in or cancelling at that time")

    def _refusal(self, now_ns: int, prompt_tokens: int, limit: int) -> Refusal | None:
        s = self.settings
        room = min((n for n in (s.context_tokens, s.kv_tokens) if n is not None), default=None)
        if room is not None and prompt_tokens + limit > room:
            return Refusal(400, "too_long")
        wait_ns = self._limit.wait_ns(now_ns)
        if wait_ns > 0:
            return Refusal(429, "rate_limit", math.ceil(wait_ns / _NS_PER_S))
        free_slots = 0 if self._kv_blocked else s.slots - self._held
        if s.max_queue is not None and self.waiting >= s.max_queue + free_slots:
            return Refusal(s.queue_status, "queue_full", 1)
        self._limit.take()
        return None

    def _inject_fault(self, sequence: Sequence) -> None:
        fault = draw_fault(self.settings.faults, self._random)
        if fault is None:
            return
        at = self._random.randint(1, max(1, sequence.target - 1))
        if fault.kind == "slow":
            sequence.slow_ns = round(fault.seconds * _NS_PER_S)
        elif fault.kind == "stall":
            if sequence.target > 1:  # a one-token answer has no middle
                sequence.stall_at, sequence.stall_ns = at, round(fault.seconds * _NS_PER_S)
        elif sequence.target > 0:
            sequence.target, sequence.ends_as = at, fault.kind  # type: ignore[assignment]

    # A step

    def _begin(self) -> bool:
        """Fixes the batch of the step that begins now; False when there is nothing to run."""
        self._wake()
        self._make_room()
        self._admit()
        self._batch = len(self._decoding)
        budget = self.settings.step_tokens - self._batch
        prompt_tokens = 0
        self._chunks = []
        for sequence in self._prefilling:
            if budget == 0:
                break
            chunk = min(sequence.prefill_left, budget)
            self._chunks.append((sequence, chunk))
            budget -= chunk
            prompt_tokens += chunk
        if not self._batch and not self._chunks:
            return False
        self._step_ns = self._duration_ns(self._batch, prompt_tokens)
        return True

    def _duration_ns(self, streams: int, prompt_tokens: int) -> int:
        s = self.settings
        decode_ms = 0.0
        if streams:
            slope_ms = s.decode_slope_ms * streams
            decode_ms = s.decode_ms + slope_ms if s.decode_law == "linear" else max(s.decode_ms, slope_ms)
            decode_ms += s.decode_context_ms * self.kv_used / 1000
        duration = decode_ms * _NS_PER_MS + prompt_tokens * self._prefill_ns
        if s.step_jitter:
            duration *= 1 + s.step_jitter * (2 * self._random.random() - 1)
        return max(1, round(duration))

    def _wake(self) -> None:
        while self._parked and self._parked[0][0] <= self.now_ns:
            sequence = heappop(self._parked)[2]
            if sequence.state == "entering":
                self._entering -= 1
                self._enqueue(sequence)
            elif sequence.state == "slow":
                self._prefill(sequence)
            elif sequence.state == "stalled":
                self._decode(sequence)

    def _make_room(self) -> None:
        capacity = self.settings.kv_tokens
        while capacity is not None and self.kv_used + len(self._decoding) > capacity:
            self._preempt(next(reversed(self._prefilling or self._decoding)))

    def _preempt(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.preemptions += 1
        self.tally.preemptions += 1
        sequence.state = "waiting"
        self._waiting.appendleft(sequence)

    def _admit(self) -> None:
        s = self.settings
        self._kv_blocked = False
        while self._waiting and self._held < s.slots:
            sequence = self._waiting[0]
            context = sequence.prompt_tokens + sequence.tokens
            # One token of room for every sequence in a slot, or this one would be preempted before its first token.
            if s.kv_tokens is not None and self._held and self.kv_used + context + self._held + 1 > s.kv_tokens:
                self._kv_blocked = True
                return
            self._waiting.popleft()
            self._held += 1
            self.kv_used += context
            if sequence.started_ns is None:
                sequence.started_ns = self.now_ns
            if sequence.slow_ns and not sequence.preemptions:
                sequence.state = "slow"
                self._park(sequence, sequence.slow_ns)
            else:
                self._prefill(sequence)

    def _equal_steps(self, until_ns: int) -> int:
        """How many steps like the current one follow each other up to `until_ns`, until one changes anything."""
        s, step_ns = self.settings, self._step_ns
        assert step_ns is not None
        if (
            self._chunks
            or s.step_jitter
            or s.decode_context_ms
            or len(self._decoding) != self._batch
            or not self._batch
        ):
            return 1
        steps = (until_ns - self.now_ns) // step_ns
        while self._is_stale(self._stops[0]):
            heappop(self._stops)
        steps = min(steps, self._stops[0][0] - self.tally.steps)
        if self._parked:
            steps = min(steps, -((self.now_ns - self._parked[0][0]) // step_ns))
        if s.kv_tokens is not None:
            steps = min(steps, (s.kv_tokens - self.kv_used) // self._batch)
        return max(1, steps)

    def _finish_steps(self, steps: int) -> Tick:
        step_ns = self._step_ns
        assert step_ns is not None
        self._step_ns = None
        self.now_ns += steps * step_ns
        self.tally.steps += steps
        self.tally.tokens += steps * len(self._decoding)
        self.kv_used += steps * len(self._decoding)
        emitted, ended = list(self._decoding), []
        while self._stops and self._stops[0][0] <= self.tally.steps:
            stop = heappop(self._stops)
            if not self._is_stale(stop) and self._stop(stop[2]):
                ended.append(stop[2])
        for sequence, chunk in self._chunks:
            if sequence.state != "prefilling":  # cancelled meanwhile
                continue
            sequence.prefill_left -= chunk
            if sequence.prefill_left == 0:
                if sequence.target > sequence.tokens:
                    emitted.append(sequence)
                if self._complete_prefill(sequence):
                    ended.append(sequence)
        return Tick(self.now_ns, steps, step_ns, emitted, ended)

    # A sequence's way

    def _park(self, sequence: Sequence, pause_ns: int) -> None:
        heappush(self._parked, (self.now_ns + pause_ns, sequence.number, sequence))

    def _drop_dead_parked(self) -> None:
        while self._parked and self._parked[0][2].state == "ended":
            heappop(self._parked)

    def _is_stale(self, stop: tuple[int, int, Sequence]) -> bool:
        return stop[2].state != "decoding" or stop[2].stop_step != stop[0]

    def _enqueue(self, sequence: Sequence) -> None:
        sequence.state = "waiting"
        self._waiting.append(sequence)

    def _prefill(self, sequence: Sequence) -> None:
        sequence.state = "prefilling"
        cached = 0
        if self._cache is not None:
            cached = self._cache.cached_tokens(sequence.blocks, sequence.prompt_tokens)
            if not sequence.preemptions:
                sequence.cached_tokens = cached
        sequence.prefill_left = sequence.prompt_tokens + sequence.tokens - cached
        self._prefilling[sequence] = None

    def _complete_prefill(self, sequence: Sequence) -> bool:
        """The prompt is done and gives a token, unless none is wanted; True when that ends the sequence."""
        if self._cache is not None:
            self._cache.store(sequence.blocks)
        if sequence.first_ns is None:
            self.tally.prompt_tokens += sequence.prompt_tokens
            self.tally.cached_tokens += sequence.cached_tokens or 0
        if sequence.target == sequence.tokens:
            self._leave(sequence)
            self._end(sequence, sequence.ends_as)
            return True
        del self._prefilling[sequence]
        sequence.tokens += 1
        self.tally.tokens += 1
        sequence.last_ns = self.now_ns
        if sequence.first_ns is None:
            sequence.first_ns = self.now_ns
        self._decode(sequence)
        return sequence.tokens == sequence.next_stop and self._stop(sequence)

    def _decode(self, sequence: Sequence) -> None:
        sequence.state = "decoding"
        sequence.offset = self.tally.steps - sequence.tokens
        sequence.stop_step = sequence.offset + sequence.next_stop
        self._decoding[sequence] = None
        heappush(self._stops, (sequence.stop_step, sequence.number, sequence))

    def _stop(self, sequence: Sequence) -> bool:
        """A decoding sequence has reached its next stop: it pauses, or ends (True)."""
        if sequence.stall_at is None:
            self._leave(sequence)
            self._end(sequence, sequence.ends_as)
            return True
        self._note_tokens(sequence)
        del self._decoding[sequence]
        sequence.state, sequence.stall_at = "stalled", None
        self._park(sequence, sequence.stall_ns)
        return False

    def _note_tokens(self, sequence: Sequence) -> None:
        sequence.tokens = self.tally.steps - sequence.offset
        sequence.last_ns = self.now_ns

    def _leave(self, sequence: Sequence) -> None:
        """Gives back the slot and the KV of a sequence, wherever it is."""
        if sequence.state in ("entering", "waiting"):
            return
        if sequence.state == "decoding":
            self._note_tokens(sequence)
            del self._decoding[sequence]
        elif sequence.state == "prefilling":
            del self._prefilling[sequence]
        # The newest token's KV is written only by the step that reads it.
        unwritten = 1 if sequence.state in ("decoding", "stalled") else 0
        self.kv_used -= sequence.prompt_tokens + sequence.tokens - unwritten
        self._held -= 1

    def _end(self, sequence: Sequence, outcome: Outcome) -> None:
        sequence.state, sequence.outcome = "ended", outcome
        setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
