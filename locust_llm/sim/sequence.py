"""What goes into the engine and what comes out: a sequence (one request), a refusal, a tick (one or more steps)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, NamedTuple

from locust_llm.sim.faults import Fault

_NS_PER_S = 1_000_000_000

State = Literal["entering", "waiting", "slow", "prefilling", "decoding", "stalled", "ended"]
Outcome = Literal["length", "stop", "reset", "error", "truncate", "cancelled"]


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. `tokens` is brought up to date whenever it stops decoding, not at every step."""

    number: int
    arrived_ns: int
    prompt_tokens: int
    target: int  # tokens it will have produced when it ends
    ends_as: Outcome  # what its end will be, unless the client cancels
    blocks: list[int] = field(default_factory=list)
    tag: Any = None  # the caller's own; the engine never looks at it
    state: State = "entering"
    outcome: Outcome | None = None
    tokens: int = 0
    cached_tokens: int | None = None  # prompt tokens that needed no prefill; None without a prefix cache
    preemptions: int = 0
    joined_ns: int | None = None  # joined the queue, where that is later than it arrived
    started_ns: int | None = None  # got a slot, for the first time
    first_ns: int | None = None
    last_ns: int | None = None  # its latest token, kept like `tokens`
    ended_ns: int | None = None  # when it ended; for a cancelled one, the boundary before
    slow_ns: int = 0
    stall_at: int | None = None  # tokens after which it pauses, once
    stall_ns: int = 0
    prefill_left: int = 0
    offset: int = 0  # while decoding: steps of the engine − offset = its tokens
    stop_step: int = 0  # while decoding: the engine step after which it pauses or ends

    @property
    def next_stop(self) -> int:
        """The token count at which it leaves the decoding batch."""
        return self.target if self.stall_at is None else self.stall_at

    def meet(self, fault: Fault, random: Random) -> None:
        """Plans a fault, at a drawn token before the last where it can be."""
        at_tokens = random.randint(1, max(1, self.target - 1))
        if fault.kind == "slow":
            self.slow_ns = round(fault.seconds * _NS_PER_S)
        elif fault.kind == "stall":
            if self.target > 1:  # a one-token answer has no middle
                self.stall_at, self.stall_ns = at_tokens, round(fault.seconds * _NS_PER_S)
        elif self.target > 0:
            self.target, self.ends_as = at_tokens, fault.kind


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request the engine did not take: HTTP status, why, and how long to wait (429 and 503 only)."""

    status: int
    reason: Literal["rate_limit", "queue_full", "too_long"]
    retry_after_s: int | None = None


class Event(NamedTuple):
    """One request's share of a tick. `kind`: "first", "tokens" or an outcome (then `tokens` is 0)."""

    time_ns: int
    number: int
    kind: str
    tokens: int


class Tick(NamedTuple):
    """The end of `steps` equal steps: each sequence in `emitted` got that many tokens, those in `ended` are done.

    More than one step is told at once only in bulk, when nothing but decoding happened: the i-th token of each then
    came at `time_ns − (steps − i) · step_ns`.
    """

    time_ns: int
    steps: int
    step_ns: int
    emitted: list[Sequence]
    ended: list[Sequence]
    firsts: int  # sequences in `emitted` that got their very first token
    gaps_ns: list[int]  # for those in `emitted` that had paused: the time since their last token; the others: step_ns

    def events(self) -> Iterator[Event]:
        """The same as single events, in a fixed order."""
        for sequence in self.emitted:
            kind = "first" if sequence.first_ns == self.time_ns else "tokens"
            yield Event(self.time_ns, sequence.number, kind, self.steps)
        for sequence in self.ended:
            yield Event(self.time_ns, sequence.number, sequence.outcome or "", 0)
