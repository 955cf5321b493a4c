"""Play: scripted requests on a fake clock, seen by RunStats as a running test sees them: second by second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from locust_llm.measure.record import Usage
from locust_llm.measure.stats import RunStats
from locust_llm.measure.timeline import Timeline
from tests.measure.build import SECOND, T0, ns


@dataclass
class Script:
    """One request: when it starts, when its events come, when and how it ends (ms after T0); `end` None: never."""

    start: float
    events: list[float] = field(default_factory=list)
    end: float | None = None
    outcome: str = "success"
    tokens: int | None = None
    input_tokens: int | None = None
    name: str = "chat"
    warmup: bool = False


def stream(start: float, *, first: float, gap: float, events: int, tokens: int | None = None, **more: str) -> Script:
    """A stream that is answered in full, and ends with its last event."""
    times = [start + first + i * gap for i in range(events)]
    return Script(start, times, times[-1], tokens=tokens if tokens is not None else events, **more)


class Play:
    """Runs scripts through RunStats. `at` (second → what to do then) happens before that second's tick."""

    def __init__(self, stats: RunStats, scripts: Iterable[Script]) -> None:
        self.stats = stats
        self._waiting = sorted(scripts, key=lambda script: script.start)
        self._running: list[tuple[Script, Timeline]] = []

    def until(self, second: int, begin: int = 1, at: dict[int, Callable[[], None]] | None = None) -> None:
        """All that happens up to the end of this second of the run, with a look at each running request a second."""
        for now in range(begin, second + 1):
            self._to(now * 1000.0)
            if at is not None and now in at:
                at[now]()
            for _, timeline in self._running:
                self.stats.progress(timeline)
            self.stats.tick(T0 + now * SECOND, [timeline for _, timeline in self._running])

    def cut(self, at_ms: float, keep: int = 0) -> None:
        """Cancel all running requests but the first `keep`."""
        self._to(at_ms)
        for _, timeline in self._running[keep:]:
            self.stats.add(timeline.freeze(ns(at_ms), cancelled=True))
        del self._running[keep:]

    def _to(self, now_ms: float) -> None:
        while self._waiting and self._waiting[0].start <= now_ms:
            script = self._waiting.pop(0)
            timeline = Timeline(script.name, started_ns=ns(script.start), warmup=script.warmup)
            timeline.transit.sent_ns = ns(script.start)
            self.stats.started(script.name, ns(script.start), warmup=script.warmup)
            self._running.append((script, timeline))
        left = []
        for script, timeline in self._running:
            for event in script.events[len(timeline.event_ns) :]:
                if event <= now_ms:
                    timeline.output(ns(event))
            if script.end is None or script.end > now_ms:
                left.append((script, timeline))
                continue
            self._end(script, timeline)
        self._running = left

    def _end(self, script: Script, timeline: Timeline) -> None:
        assert script.end is not None
        timeline.report(Usage(output_tokens=script.tokens, input_tokens=script.input_tokens))
        if script.outcome == "success":
            timeline.done(ns(script.end))
        else:
            timeline.fail(script.outcome)
        self.stats.add(timeline.freeze(ns(script.end)))
