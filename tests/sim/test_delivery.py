"""Writing what the engine makes: a client that leaves in the middle of a burst, and stamps that are true."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from locust_llm.sim.delivery import Delivery
from locust_llm.sim.engine import Engine
from locust_llm.sim.metrics import Metrics
from locust_llm.sim.sequence import Outcome, Sequence
from locust_llm.sim.settings import EngineSettings, ServerSettings
from tests.service import Service
from tests.sim.talking import CHAT, DEADLINE_S, chat, connect, port_of, wait_for_counts


class NotedReply:
    """Stands for a reply: notes its tokens, and may do something at the first."""

    head = None

    def __init__(self, at_first: Callable[[], None] = lambda: None) -> None:
        self.emitted = 0
        self.ended: list[Outcome] = []
        self._at_first = at_first

    def emit(self, outcome: Outcome | None) -> None:
        self.emitted += 1
        if self.emitted == 1:
            self._at_first()

    def end(self, outcome: Outcome) -> None:
        self.ended.append(outcome)


def test_who_leaves_in_the_middle_of_a_burst_gets_nothing_more() -> None:
    async def main() -> None:
        engine = Engine(EngineSettings(prefill_tps=float("inf"), decode_ms=1.0), time.monotonic_ns())
        delivery = Delivery(engine, Metrics(engine, "sim"), ServerSettings())
        delivery.start()
        sequences: list[Sequence] = []

        def second_leaves() -> None:
            sequences[1].tag = None

        done = asyncio.Event()
        replies = [NotedReply(second_leaves), NotedReply(), NotedReply()]
        replies[2].end = lambda outcome: done.set()  # type: ignore[method-assign]
        now_ns = delivery.come_up()
        for reply in replies:
            sequence = engine.submit(now_ns, 1, 3, tag=reply)
            assert isinstance(sequence, Sequence)
            sequences.append(sequence)
        delivery.rearm()
        await asyncio.wait_for(done.wait(), DEADLINE_S)
        delivery.close()
        assert [reply.emitted for reply in replies] == [3, 0, 3]
        assert replies[0].ended == ["length"]
        assert delivery.tokens_sent == 6

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="kernel receive times are Linux only")
def test_a_stamp_is_the_time_of_its_write(sim_server: Callable[..., Service]) -> None:
    """In a burst of 60 streams the kernel has the first one's token before the last one's is stamped.

    A loop that writes at the end of its turn, as uvloop does by itself, would make every stamp too early.
    """
    url = sim_server("--slots", "64", "--prefill-tps", "inf", "--decode-ms", "20", "--emit-send-time").url
    first = watch(url, 1_000_000)
    wait_for_counts(url, running=1)
    others = [connect(url) for _ in range(58)]
    for other in others:
        other.request("POST", CHAT, json.dumps(chat(max_tokens=1_000_000, stream=True)))
    wait_for_counts(url, running=59)
    last = watch(url, 40)
    assert last.stdout is not None
    late_pairs = json.loads(last.stdout.read())  # it ends by itself
    last.communicate()
    early_pairs = json.loads(first.communicate(timeout=DEADLINE_S)[0])
    for other in others:
        other.close()
    for stamp_ns, arrived_ns in early_pairs + late_pairs:
        assert arrived_ns > stamp_ns - 200_000  # the clocks are compared to some microseconds
    # The nearest stamp of the first stream before one of the last is of the same burst.
    arrived_of = dict(early_pairs)
    bursts = [
        (arrived_of[max(early_ns for early_ns in arrived_of if early_ns < late_ns)], late_ns)
        for late_ns, _ in late_pairs
        if min(arrived_of) < late_ns
    ]
    assert len(bursts) > 10
    assert sum(arrived_ns < late_ns for arrived_ns, late_ns in bursts) > 0.9 * len(bursts)


def watch(url: str, max_tokens: int) -> subprocess.Popen[bytes]:
    """A process that reads one stream; it tells what it saw when its standard input ends."""
    script = Path(__file__).with_name("watch_stream.py")
    command = [sys.executable, str(script), str(port_of(url)), str(max_tokens)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
