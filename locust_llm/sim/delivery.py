"""The engine on the wall clock: lets it come up to now and writes what it makes.

Theory of operation. The engine's time is CLOCK_MONOTONIC in nanoseconds. An alarm rings at the end of each step; the
engine then advances to now, and every stream of the step gets its event by a write of its own, straight to the socket.
The schedule is absolute: a late ring does not shift the steps that follow, so that the load the engine models stays
true. Writing takes turns of a few milliseconds with the rest of the loop, so that a burst, or a machine that is too
slow, does not keep requests and disconnects waiting. How late the writes were is kept, since an overloaded simulator
measures only itself.

Real engines emit in steps, all streams in one burst, and so does this one. With `spread`, each stream is delayed by its
own constant share of `decode_ms`, so that no two tokens leave together: what a client looks like to many independent
servers. Shares follow the golden ratio, which fills the interval evenly for any number of streams.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from operator import itemgetter

from locust_llm.sim.alarm import Alarm
from locust_llm.sim.engine import Engine
from locust_llm.sim.metrics import Metrics
from locust_llm.sim.reply import STAMP, WORDS, Reply
from locust_llm.sim.sequence import Outcome, Sequence, Tick
from locust_llm.sim.settings import ServerSettings

_GOLDEN = 0.6180339887498949
_NS_PER_MS = 1_000_000
_TURN_NS = 2 * _NS_PER_MS
_SPIN_NS = 30_000  # what is due so soon is waited for: going through the loop and back costs about as much


class Delivery:
    """Hands the tokens of one engine to the replies that stand in its sequences' tags."""

    def __init__(self, engine: Engine, metrics: Metrics, settings: ServerSettings) -> None:
        self.tokens_sent = 0
        self._engine = engine
        self._metrics = metrics
        self._stamped = settings.emit_send_time
        self._spread_ns = engine.settings.decode_ms * _NS_PER_MS if settings.spread else 0.0
        self._pending: deque[tuple[int, Sequence, Outcome | None]] = deque()  # due, whose, and its end if it is that
        self._late_ns: deque[int] = deque(maxlen=4096)

    def start(self) -> None:
        """Begins; only in a running loop."""
        self._alarm = Alarm(asyncio.get_running_loop(), self._ring)

    def close(self) -> None:
        """Stops for good."""
        self._alarm.close()

    def come_up(self) -> int:
        """Advances the engine to now; returns that now. `rearm` must follow."""
        now_ns = time.monotonic_ns()
        while (tick := self._engine.advance(now_ns)) is not None:
            self._metrics.observe(tick)
            self._take(tick)
        return now_ns

    def rearm(self) -> None:
        """Sets the alarm for what comes next."""
        at_ns = self._engine.next_ns()
        if self._pending and (at_ns is None or self._pending[0][0] < at_ns):
            at_ns = self._pending[0][0]
        self._alarm.set(at_ns)

    def late_ms(self) -> tuple[float, float] | None:
        """p50 and p99 of how late each of the last turns' last write was; None before the first."""
        late_ns = sorted(self._late_ns)
        if not late_ns:
            return None
        return late_ns[len(late_ns) // 2] / _NS_PER_MS, late_ns[len(late_ns) * 99 // 100] / _NS_PER_MS

    def _ring(self) -> None:
        self._send(self.come_up())
        self.rearm()

    def _take(self, tick: Tick) -> None:
        """Notes the writes of a tick: a token each, and the ends of those that never wanted any."""
        writes = [(tick.time_ns, sequence, sequence.outcome) for sequence in tick.emitted]
        writes += [(tick.time_ns, sequence, sequence.outcome) for sequence in tick.ended if not sequence.tokens]
        if self._spread_ns:
            writes = [(due_ns + self._share_ns(sequence), sequence, outcome) for due_ns, sequence, outcome in writes]
            writes.sort(key=itemgetter(0))
        self._pending += writes

    def _share_ns(self, sequence: Sequence) -> int:
        return round(sequence.number * _GOLDEN % 1 * self._spread_ns)

    def _send(self, now_ns: int) -> None:
        """Writes what is due, for one turn at most, which ends with the engine's step."""
        pending, due_ns = self._pending, 0
        step_ends_ns = self._engine.next_ns()
        turn_ends_ns = now_ns + _TURN_NS if step_ends_ns is None else min(now_ns + _TURN_NS, step_ends_ns)
        while pending and pending[0][0] <= now_ns + _SPIN_NS and now_ns < turn_ends_ns:
            due_ns, sequence, outcome = pending.popleft()
            while (now_ns := time.monotonic_ns()) < due_ns:
                pass
            reply: Reply | None = sequence.tag
            if reply is None:  # its client has gone
                continue
            if outcome is not None or reply.head is None:
                self._send_unplain(reply, sequence, outcome)
            else:
                word = STAMP % now_ns if self._stamped else WORDS[reply.sent & 63]
                reply.write(reply.head + word + reply.tail)
                reply.sent += 1
                self.tokens_sent += 1
        if due_ns:
            self._late_ns.append(time.monotonic_ns() - due_ns)

    def _send_unplain(self, reply: Reply, sequence: Sequence, outcome: Outcome | None) -> None:
        if sequence.tokens:
            reply.emit(outcome)
            self.tokens_sent += 1
        if outcome is not None:
            reply.end(outcome)
