"""Playing an engine on its virtual clock: submit at given times, collect the events."""

from __future__ import annotations

from dataclasses import dataclass

from locust_llm.sim.engine import Engine
from locust_llm.sim.sequence import Event, Refusal, Sequence
from locust_llm.sim.settings import EngineSettings

MS = 1_000_000
S = 1_000_000_000
FAR_NS = 10**15


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of a scripted run; `cancelled_ns` when its client leaves."""

    at_ns: int
    prompt_tokens: int = 10
    max_tokens: int = 5
    cancelled_ns: int | None = None
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Played:
    """What a scripted run gave: each arrival's sequence or refusal, in their order, and all events."""

    engine: Engine
    taken: list[Sequence | Refusal]
    events: list[Event]

    def sequence(self, index: int) -> Sequence:
        """The sequence of one arrival, which must have been taken."""
        taken = self.taken[index]
        assert isinstance(taken, Sequence)
        return taken

    def sequences(self) -> list[Sequence]:
        """Every sequence that was taken."""
        return [taken for taken in self.taken if isinstance(taken, Sequence)]


def play(settings: EngineSettings, arrivals: list[Arrival], *, bulk: bool = False) -> Played:
    """Plays arrivals and cancellations in the order of their times, then on to the end of the last answer."""
    engine = Engine(settings)
    taken: dict[int, Sequence | Refusal] = {}
    events: list[Event] = []

    def come_up(until_ns: int) -> None:
        while (tick := engine.advance(until_ns, bulk)) is not None:
            events.extend(tick.events())

    script = [(arrival.at_ns, 0, index) for index, arrival in enumerate(arrivals)]
    script += [(a.cancelled_ns, 1, index) for index, a in enumerate(arrivals) if a.cancelled_ns is not None]
    for at_ns, cancels, index in sorted(script):
        come_up(at_ns)
        arrival = arrivals[index]
        if not cancels:
            blocks = list(arrival.blocks)
            taken[index] = engine.submit(at_ns, arrival.prompt_tokens, arrival.max_tokens, blocks=blocks)
            continue
        sequence = taken[index]
        if isinstance(sequence, Sequence):
            engine.cancel(at_ns, sequence)
    come_up(FAR_NS)
    return Played(engine, [taken[index] for index in range(len(arrivals))], events)


def ttft_ms(sequence: Sequence) -> float:
    """Arrival to first token."""
    assert sequence.first_ns is not None
    return (sequence.first_ns - sequence.arrived_ns) / MS


def tpot_ms(sequence: Sequence) -> float:
    """Mean time of the tokens after the first."""
    assert sequence.first_ns is not None
    assert sequence.last_ns is not None
    return (sequence.last_ns - sequence.first_ns) / (sequence.tokens - 1) / MS
