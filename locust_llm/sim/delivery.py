"""The engine on the wall clock: lets it come up to now and writes what it makes.

Theory of operation. The engine's time is CLOCK_MONOTONIC in nanoseconds. An alarm rings at the end of each step; the
engine then advances to now, and every stream of the step gets its event by a write of its own, straight to the socket.
The schedule is absolute: a late ring does not shift the steps that follow, so that the load the engine models stays
true. How late the writes were is kept, since an overloaded simulator measures only itself.

Real engines emit in steps, all streams in one burst, and so does this one. With `spread`, each stream is delayed by its
own constant share of `decode_ms`, so that no two tokens leave together: what a client looks like to many independent
servers. Shares follow the golden ratio, which fills the interval evenly for any number of streams.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from heapq import heappop, heappush

from locust_llm.sim.alarm import Alarm
from locust_llm.sim.engine import Engine
from locust_llm.sim.metrics import Metrics
from locust_llm.sim.reply import STAMP, WORDS, Reply
from locust_llm.sim.sequence import Outcome, Sequence, Tick
from locust_llm.sim.settings import ServerSettings

_GOLDEN = 0.6180339887498949
_NS_PER_MS = 1_000_000


class Delivery:
    """Hands the tokens of one engine to the replies that stand in its sequences' tags."""

    def __init__(self, engine: Engine, metrics: Metrics, settings: ServerSettings) -> None:
        self.tokens_sent = 0
        self._engine = engine
        self._metrics = metrics
        self._stamped = settings.emit_send_time
        self._spread_ns = engine.settings.decode_ms * _NS_PER_MS if settings.spread else 0.0
        self._pending: list[tuple[int, int, Sequence, Outcome | None]] = []  # heap by due time, used by `spread`
        self._pushed = 0
        self._late_ns: deque[int] = deque(maxlen=4096)

    def start(self) -> None:
        """Begins; only in a running loop."""
        self._alarm = Alarm(asyncio.get_running_loop(), self._ring)

    def close(self) -> None:
        """Stops for good."""
        self._alarm.close()

    def come_up(self) -> int:
        """Advances the engine to now and sends what is due; returns that now. `rearm` must follow."""
        now_ns = time.monotonic_ns()
        while (tick := self._engine.advance(now_ns)) is not None:
            self._metrics.observe(tick)
            if self._spread_ns:
                self._put_off(tick)
            else:
                self._send(tick)
        if self._pending:
            self._send_due(now_ns)
        return now_ns

    def rearm(self) -> None:
        """Sets the alarm for what comes next."""
        at_ns = self._engine.next_ns()
        if self._pending and (at_ns is None or self._pending[0][0] < at_ns):
            at_ns = self._pending[0][0]
        self._alarm.set(at_ns)

    def late_ms(self) -> tuple[float, float] | None:
        """p50 and p99 of how late the last writes were (of each step's last one); None before the first."""
        late_ns = sorted(self._late_ns)
        if not late_ns:
            return None
        return late_ns[len(late_ns) // 2] / _NS_PER_MS, late_ns[len(late_ns) * 99 // 100] / _NS_PER_MS

    def _ring(self) -> None:
        self.come_up()
        self.rearm()

    def _send(self, tick: Tick) -> None:
        for sequence in tick.emitted:
            self._send_token(sequence, sequence.outcome)
        self.tokens_sent += len(tick.emitted)
        for sequence in tick.ended:
            if not sequence.tokens:
                sequence.tag.end(sequence.outcome)
        self._late_ns.append(time.monotonic_ns() - tick.time_ns)

    def _send_token(self, sequence: Sequence, outcome: Outcome | None) -> None:
        """One token, and the end of the answer when it is the last."""
        reply: Reply = sequence.tag
        head = reply.head
        if head is None or outcome is not None:
            reply.emit(outcome)
            if outcome is not None:
                reply.end(outcome)
            return
        sent = reply.sent
        reply.sent = sent + 1
        word = STAMP % time.monotonic_ns() if self._stamped else WORDS[sent & 63]
        reply.write(head + word + reply.tail)

    def _put_off(self, tick: Tick) -> None:
        for sequence in tick.emitted:
            due_ns = tick.time_ns + round(sequence.number * _GOLDEN % 1 * self._spread_ns)
            self._pushed += 1
            heappush(self._pending, (due_ns, self._pushed, sequence, sequence.outcome))
        for sequence in tick.ended:
            if not sequence.tokens:
                sequence.tag.end(sequence.outcome)

    def _send_due(self, now_ns: int) -> None:
        pending = self._pending
        while pending and pending[0][0] <= now_ns:
            due_ns, _, sequence, outcome = heappop(pending)
            if sequence.tag.is_open:
                self._send_token(sequence, outcome)
                self.tokens_sent += 1
                self._late_ns.append(time.monotonic_ns() - due_ns)
