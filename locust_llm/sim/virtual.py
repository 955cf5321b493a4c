"""Load on the engine's virtual clock: hours of closed- or open-loop traffic in seconds, with nothing in between.

    run = ClosedLoop(Engine(settings), Work(prompt_tokens=500, max_tokens=200), seed=1)
    run.set_users(8)
    run.run_for(60.0)
    rows = run.rows                       # one per ended request
    tokens = run.tokens_between(0, 60 * 10**9)

A closed loop has users who each send, wait for the whole answer, think, and send again. An open loop sends at given
times whatever happens. Both give what the engine did, exactly: no network, no client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from locust_llm.sim.engine import Engine
from locust_llm.sim.sequence import Refusal, Sequence, Tick

_NS_PER_S = 1_000_000_000
_FOREVER_NS = 1 << 62


class Demand(NamedTuple):
    """What one request asks for. `max_tokens` None leaves it to the engine."""

    prompt_tokens: int
    max_tokens: int | None = None
    blocks: list[int] | None = None


class Served(NamedTuple):
    """One ended request. Times in ns of the virtual clock; None where it never came so far.

    `outcome` is "length", "stop", a fault's name, "cancelled", or "refused" (then `status` says how).
    """

    user: int  # closed loop: whose; open loop: the arrival's index
    arrived_ns: int
    started_ns: int | None  # got a slot
    first_ns: int | None
    last_ns: int | None
    ended_ns: int
    prompt_tokens: int
    tokens: int
    outcome: str
    status: int = 200

    @property
    def succeeded(self) -> bool:
        """Whether the answer is complete."""
        return self.outcome in ("length", "stop")


@dataclass(frozen=True, slots=True)
class Work:
    """Draws demands: lengths are uniform within ± `spread` of the mean, so that requests do not stay in step."""

    prompt_tokens: int = 500
    max_tokens: int | None = 256
    spread: float = 0.0

    def draw(self, random: Random) -> Demand:
        """The next request's lengths."""
        if not self.spread:
            return Demand(self.prompt_tokens, self.max_tokens)
        limit = self.max_tokens if self.max_tokens is None else self._around(self.max_tokens, random)
        return Demand(self._around(self.prompt_tokens, random), limit)

    def _around(self, mean: int, random: Random) -> int:
        return max(1, round(mean * random.uniform(1 - self.spread, 1 + self.spread)))


class VirtualLoad(ABC):
    """What both loops share: arrivals in time order go in, ticks come out and become rows."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now_ns = engine.now_ns  # up to where everything has been played
        self.rows: list[Served] = []  # in the order of their ends
        self.ticks: list[tuple[int, int, int, int]] = []  # (time_ns, steps, step_ns, sequences that got a token a step)
        self._arrivals: list[tuple[int, int]] = []  # heap of (at ns, user)

    def run_until(self, until_ns: int) -> None:
        """Plays everything that happens up to and including `until_ns`."""
        self._play(until_ns)

    def run_for(self, seconds: float) -> None:
        """Plays the next seconds."""
        self._play(self.now_ns + round(seconds * _NS_PER_S))

    def drain(self) -> None:
        """Plays on until every request that arrived, or is still to arrive, has ended."""
        self._play(_FOREVER_NS, drain=True)

    def _play(self, until_ns: int, drain: bool = False) -> None:
        engine = self.engine
        while not (drain and not self._arrivals and not engine.tally.in_flight):
            due_ns = self._arrivals[0][0] if self._arrivals else _FOREVER_NS
            tick = engine.advance(min(due_ns, until_ns), bulk=True)
            if tick is not None:
                self._note(tick)
            elif due_ns <= until_ns:
                self._arrive(*heappop(self._arrivals))
            else:
                self.now_ns = until_ns
                return
        self.now_ns = engine.now_ns

    def tokens_between(self, start_ns: int, stop_ns: int) -> int:
        """Tokens that came in (start, stop], of all requests, whatever became of them."""
        total = 0
        for time_ns, steps, step_ns, sequences in self.ticks:
            # Steps end at time_ns − i · step_ns, i = 0 … steps − 1.
            newest = max(0, -((stop_ns - time_ns) // step_ns))
            oldest = min(steps - 1, (time_ns - start_ns - 1) // step_ns)
            total += max(0, oldest - newest + 1) * sequences
        return total

    @abstractmethod
    def _demand(self, user: int) -> Demand: ...

    def _ended(self, user: int, now_ns: int) -> None:  # noqa: B027 - a hook that open load has no use for
        """A user's request has ended, or was refused."""

    def _arrive(self, at_ns: int, user: int) -> None:
        demand = self._demand(user)
        taken = self.engine.submit(at_ns, demand.prompt_tokens, demand.max_tokens, blocks=demand.blocks, tag=user)
        if isinstance(taken, Refusal):
            row = Served(user, at_ns, None, None, None, at_ns, demand.prompt_tokens, 0, "refused", taken.status)
            self.rows.append(row)
            self._ended(user, at_ns)

    def _note(self, tick: Tick) -> None:
        self.ticks.append((tick.time_ns, tick.steps, tick.step_ns, len(tick.emitted)))
        for sequence in tick.ended:
            self.rows.append(_row(sequence, tick.time_ns))
            self._ended(sequence.tag, tick.time_ns)


class ClosedLoop(VirtualLoad):
    """Users that each wait for their answer before they send again; their number may change between runs.

    New users start spread evenly over `spawn_s`; users that are taken away finish their request first. After a refusal
    a user waits `retry_s`, or a rejecting engine would be asked without end in no time.
    """

    def __init__(
        self,
        engine: Engine,
        work: Work | Callable[[Random], Demand],
        *,
        think_s: float = 0.0,
        spawn_s: float = 0.0,
        retry_s: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(engine)
        self._draw = work.draw if isinstance(work, Work) else work
        self._random = Random(seed)
        self._think_ns = round(think_s * _NS_PER_S)
        self._spawn_ns = round(spawn_s * _NS_PER_S)
        self._retry_ns = round(retry_s * _NS_PER_S)
        self._active: set[int] = set()  # users with a request running or due
        self.users = 0

    def set_users(self, users: int, spawn_s: float | None = None) -> None:
        """From now on users 0 … users − 1 take part; new ones start over `spawn_s`, if it is not to be the loop's."""
        spawn_ns = self._spawn_ns if spawn_s is None else round(spawn_s * _NS_PER_S)
        self.users = users
        joining = [user for user in range(users) if user not in self._active]
        for place, user in enumerate(joining):
            self._active.add(user)
            heappush(self._arrivals, (self.now_ns + spawn_ns * place // len(joining), user))

    def _demand(self, user: int) -> Demand:
        return self._draw(self._random)

    def _ended(self, user: int, now_ns: int) -> None:
        if user >= self.users:
            self._active.discard(user)
            return
        pause_ns = self._think_ns
        if self.rows[-1].outcome == "refused":
            pause_ns = max(pause_ns, self._retry_ns)
        heappush(self._arrivals, (now_ns + pause_ns, user))


class OpenLoop(VirtualLoad):
    """Requests that come at given times, in any order, whatever the engine makes of them."""

    def __init__(
        self, engine: Engine, arrivals_ns: Iterable[int], work: Work | Callable[[Random], Demand], *, seed: int = 0
    ) -> None:
        super().__init__(engine)
        self._draw = work.draw if isinstance(work, Work) else work
        self._random = Random(seed)
        self._arrivals = [(at_ns, index) for index, at_ns in enumerate(sorted(arrivals_ns))]

    def _demand(self, user: int) -> Demand:
        return self._draw(self._random)


def poisson_arrivals_ns(rate_rps: float, count: int, seed: int = 0) -> list[int]:
    """Times of a Poisson process from 0 on."""
    random = Random(seed)
    at_s = 0.0
    times = []
    for _ in range(count):
        at_s += random.expovariate(rate_rps)
        times.append(round(at_s * _NS_PER_S))
    return times


def _row(sequence: Sequence, now_ns: int) -> Served:
    return Served(
        sequence.tag,
        sequence.arrived_ns,
        sequence.started_ns,
        sequence.first_ns,
        sequence.last_ns,
        now_ns,
        sequence.prompt_tokens,
        sequence.tokens,
        sequence.outcome or "",
    )
