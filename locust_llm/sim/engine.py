"""A simulated continuous-batching inference engine: pure, seeded, and without a clock of its own.

Theory of operation. Time is integer nanoseconds and comes in with every call: the server hands in the monotonic clock,
a virtual experiment whatever it likes. The engine works in steps. A step begins at a boundary: paused sequences whose
time has come return, waiting ones are let in (first come, first served, while there are slots and KV room), and the
batch is fixed: every decoding sequence for one token, prompt chunks with the rest of the token budget. At the step's
end every decoding sequence has one more token, and a prompt that is complete gives its first. Who arrives meanwhile
waits for the next boundary; who cancels leaves at once, but the step takes its time.

A step begins lazily, on the first call that needs it: everybody handed in for the same instant is in its batch.

While nothing but decoding goes on all steps are equal, and `advance(bulk=True)` takes them in one go: an hour of load
costs as much as its requests, not its tokens. Counting in integers makes both ways agree to the nanosecond.
"""

from __future__ import annotations

from random import Random
from typing import Any

from locust_llm.sim.faults import draw_fault
from locust_llm.sim.front_door import FrontDoor
from locust_llm.sim.scheduler import Scheduler
from locust_llm.sim.sequence import Outcome, Refusal, Sequence, Tick
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.step_time import step_ms
from locust_llm.sim.tally import Tally

_NS_PER_MS = 1_000_000


class Engine:
    """One simulated engine. Calls must come in the order of their times, `advance` before whatever else is due."""

    def __init__(self, settings: EngineSettings, now_ns: int = 0) -> None:
        problem = settings.problem()
        if problem is not None:
            raise ValueError(problem)
        self.settings = settings
        self.tally = Tally()
        self.now_ns = now_ns  # the last boundary, or the last call while idle
        self._random = Random(settings.seed)
        self._door = FrontDoor(settings, now_ns)
        self._scheduler = Scheduler(settings, self.tally)
        # The step under way; `_step_ns` is None between steps.
        self._step_ns: int | None = None
        self._streams = 0
        self._chunks: list[tuple[Sequence, int]] = []
        self._resumed: list[Sequence] = []

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return self._scheduler.waiting

    @property
    def kv_used(self) -> int:
        """Tokens held in KV."""
        return self._scheduler.kv_used

    def tokens_of(self, sequence: Sequence) -> int:
        """Tokens the sequence has produced up to the last boundary."""
        return self._scheduler.decoding.tokens_of(sequence)

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
        """Hands in a request of at least one prompt token. `max_tokens` 0 ends it with its prefill, as embeddings do.

        `blocks` feed the prefix cache; `tag` is the caller's own.
        """
        s = self.settings
        self._reach(now_ns)
        self.tally.received += 1
        limit = max_tokens if max_tokens is not None else self._door.default_limit(prompt_tokens)
        refusal = self._door.refusal(now_ns, prompt_tokens + limit, self._scheduler.queued)
        if refusal is not None:
            self.tally.count(refusal.reason)
            return refusal
        natural = None if ignore_eos else s.answers.draw(self._random)
        ends_as: Outcome = "length" if natural is None or natural > limit else "stop"
        target = limit if natural is None else min(limit, natural)
        sequence = Sequence(self.tally.received, now_ns, prompt_tokens, target, ends_as, blocks or [], tag)
        fault = draw_fault(s.faults, self._random)
        if fault is not None:
            sequence.meet(fault, self._random)
        if s.entry_ms:
            self._scheduler.enter(sequence, now_ns + round(s.entry_ms * _NS_PER_MS))
        else:
            self._scheduler.enqueue(sequence)
        return sequence

    def cancel(self, now_ns: int, sequence: Sequence) -> None:
        """The client went away: the sequence leaves at once. Does nothing when it has already ended."""
        self._reach(now_ns)
        if sequence.state != "ended":
            self._scheduler.cancel(sequence, self.now_ns)

    def next_ns(self) -> int | None:
        """When `advance` will next have something to do: a step's end or a pause's; `None` while idle.

        Begins the step that is due, so hand in first whatever arrives at this instant.
        """
        if self._step_ns is None and not self._begin():
            return self._scheduler.pauses.next_ns()
        assert self._step_ns is not None
        return self.now_ns + self._step_ns

    def advance(self, until_ns: int, bulk: bool = False) -> Tick | None:
        """The next tick that ends at or before `until_ns`; `None` when there is none: call it until then.

        Between two calls requests may be handed in or cancelled at the tick's time; the step that follows begins only
        afterwards, and none begins at `until_ns` itself.
        """
        while self._step_ns is None:
            if self.now_ns >= until_ns:
                return None
            if not self._begin():
                wakes_ns = self._scheduler.pauses.next_ns()
                self.now_ns = until_ns if wakes_ns is None else min(until_ns, wakes_ns)
        if self.now_ns + self._step_ns > until_ns:
            return None
        steps = self._equal_steps(self._step_ns, until_ns) if bulk else 1
        return self._finish(steps, self._step_ns)

    def _reach(self, now_ns: int) -> None:
        """Moves to the time of a call: a step that was due earlier has begun by then."""
        if self._step_ns is None and now_ns > self.now_ns and not self._begin():
            self.now_ns = now_ns
        if now_ns < self.now_ns or (self._step_ns is not None and now_ns >= self.now_ns + self._step_ns):
            raise ValueError(f"advance to {now_ns} ns before handing in or cancelling at that time")

    def _begin(self) -> bool:
        """Fixes the batch of the step that begins now; False when there is nothing to run."""
        s, scheduler = self.settings, self._scheduler
        self._resumed = scheduler.wake(self.now_ns)
        scheduler.make_room(self.now_ns)
        scheduler.admit(self.now_ns)
        self._streams = len(scheduler.decoding)
        self._chunks = []
        budget = s.step_tokens - self._streams
        for sequence in scheduler.prefilling:
            if budget == 0:
                break
            tokens = min(sequence.prefill_left, budget)
            self._chunks.append((sequence, tokens))
            budget -= tokens
        if not self._streams and not self._chunks:
            return False
        duration_ms = step_ms(s, self._streams, scheduler.kv_used, s.step_tokens - self._streams - budget)
        if s.step_jitter:
            duration_ms *= 1 + s.step_jitter * (2 * self._random.random() - 1)
        self._step_ns = max(1, round(duration_ms * _NS_PER_MS))
        return True

    def _equal_steps(self, step_ns: int, until_ns: int) -> int:
        """How many steps like the current one follow each other up to `until_ns`, until one changes anything."""
        s, scheduler, streams = self.settings, self._scheduler, self._streams
        if self._chunks or self._resumed or scheduler.admits_next or s.step_jitter or s.decode_context_ms:
            return 1
        if len(scheduler.decoding) != streams or not streams:  # somebody cancelled: the next step is shorter
            return 1
        steps = min((until_ns - self.now_ns) // step_ns, scheduler.decoding.steps_to_stop())
        wakes_ns = scheduler.pauses.next_ns()
        if wakes_ns is not None:
            steps = min(steps, -((self.now_ns - wakes_ns) // step_ns))
        if s.kv_tokens is not None:
            steps = min(steps, (s.kv_tokens - scheduler.kv_used) // streams)
        return max(1, steps)

    def _finish(self, steps: int, step_ns: int) -> Tick:
        scheduler = self._scheduler
        self._step_ns = None
        self.now_ns = now_ns = self.now_ns + steps * step_ns
        self.tally.steps += steps
        scheduler.kv_used += steps * len(scheduler.decoding)
        emitted = scheduler.decoding.members()
        # For those that had paused, last_ns is still the time of the token before the pause.
        gaps_ns = [now_ns - s.last_ns for s in self._resumed if s.state == "decoding" and s.last_ns is not None]
        ended = [sequence for sequence in scheduler.decoding.advance(steps) if scheduler.stop(sequence, now_ns)]
        firsts = 0
        for sequence in self._completed_prompts():
            if sequence.target > 0:
                emitted.append(sequence)
                if sequence.last_ns is None:
                    firsts += 1
                else:
                    gaps_ns.append(now_ns - sequence.last_ns)
            if scheduler.complete_prefill(sequence, now_ns):
                ended.append(sequence)
        self.tally.tokens += steps * len(emitted)
        return Tick(now_ns, steps, step_ns, emitted, ended, firsts, gaps_ns)

    def _completed_prompts(self) -> list[Sequence]:
        """Counts the chunks of the step that ended; returns the sequences whose prompt is done with it."""
        completed = []
        for sequence, tokens in self._chunks:
            if sequence.state == "prefilling":  # not cancelled meanwhile
                sequence.prefill_left -= tokens
                if sequence.prefill_left == 0:
                    completed.append(sequence)
        return completed
