"""Live: what happened in which wall-clock second, while the requests still run.

Theory of operation. A stream tells its number of tokens only when it ends, but its events come all along. While it
runs, `progress` counts its events, unweighed, in the second each arrived; when it ends, `end` takes those counts back
and lays its N tokens on its events instead. A reader weighs the events that are still unweighed with their name's
tokens per event. So everything stored is a whole number, corrections are signed, and it does not matter in which
process or in which order they are added. A request that was cut off and never told its tokens keeps its events
unweighed.

Live percentiles (`window`) get each sample once, in the second it arrived, from running requests too.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure import metrics
from locust_llm.measure.arrivals import SECOND_NS, by_second, gaps_ms, tokens_through
from locust_llm.measure.buckets import check
from locust_llm.measure.counts import Counts
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.series import Series
from locust_llm.measure.timeline import Timeline
from locust_llm.measure.window import E2E, ITL, TTFT, WINDOW_S, Window

_DOUBLE: Final = 8

Bins = list[tuple[int, int, int]]


class _Running:
    """What the series already hold of one running request."""

    __slots__ = ("bins", "drained", "events", "seen", "several")

    def __init__(self, events: array[int]) -> None:
        self.events = events  # held so that its id stays its own
        self.seen = 0
        self.bins: list[tuple[int, int]] = []
        self.drained = 0
        self.several = False


class Live:
    """The per-second half of RunStats. `stop_ns` is the instant from which on tokens are drain."""

    __slots__ = ("_ended", "_finished", "_origin", "_running", "_window", "offset_ns", "series", "stop_ns")

    def __init__(self, offset_ns: int) -> None:
        self.offset_ns = offset_ns
        self.stop_ns: int | None = None
        self.series = Series()
        self._window = Window()
        self._running: dict[int, _Running] = {}
        self._ended: dict[int, array[int]] = {}
        self._origin: int | None = None
        self._finished: int | None = None

    def second(self, at_ns: int) -> int:
        """The wall-clock second of a monotonic instant."""
        return (at_ns + self.offset_ns) // SECOND_NS

    def progress(self, timeline: Timeline, counts: Counts) -> None:
        """Count the output events that a running request has got since the last call."""
        events = timeline.event_ns
        if id(events) in self._ended:
            return
        running = self._running.get(id(events))
        if running is None:
            running = self._running[id(events)] = _Running(events)
        first = running.seen
        bins = by_second(events, first, self.offset_ns)
        if not running.several and any(timeline.event_choice[first:]):
            running.several = True
        choices = timeline.event_choice if running.several else None
        self._feed_window(events, choices, first, timeline.transit.sent_ns, bins)
        for second, begin, end in bins:
            if self._origin is None or second >= self._origin:
                running.bins.append((second, end - begin))
                self.series.at(second).add_open(timeline.name, end - begin)
        late = self._late(events, first)
        running.drained += late
        counts.drained_events += late
        running.seen = len(events)

    def end(self, record: RequestRecord, counts: Counts, gaps: bytes | None) -> None:
        """A request has ended: its outcome, and its tokens in place of what `progress` had counted.

        `gaps`: its gaps in ms as doubles, when they are known and valid, so that they need not be computed again.
        """
        self._end(record, counts)
        events = record.event_ns
        running = self._running.pop(id(events), None)
        self._ended[id(events)] = events
        seen = 0
        if running is not None:
            seen = running.seen
            counts.drained_events -= running.drained
            for second, number in running.bins:
                self.series.at(second).add_open(record.name, -number)
        if record.input_tokens:
            at_ns = events[0] if events else record.ended_ns
            self.series.at(self.second(at_ns)).input_tokens += record.input_tokens
            if self.stop_ns is not None and at_ns >= self.stop_ns:
                counts.drained_input_tokens += record.input_tokens
        if not events:
            self._arrive_at_end(record, counts)
            return
        bins = by_second(events, 0, self.offset_ns)
        if seen < len(events) and not metrics.buffered(record):
            if gaps is not None and record.event_choice is None:
                self._feed_ttft(events, seen, record.transit.sent_ns, bins)
                self._feed_itl(gaps[max(seen - 1, 0) * _DOUBLE :], None, seen, bins)
            else:
                self._feed_window(events, record.event_choice, seen, record.transit.sent_ns, bins)
        self._arrive(record, counts, bins)

    def _end(self, record: RequestRecord, counts: Counts) -> None:
        second = self.second(record.ended_ns)
        row = self.series.at(second)
        if record.outcome is Outcome.SUCCESS:
            row.succeeded += 1
            if self.stop_ns is not None and record.ended_ns >= self.stop_ns:
                counts.drained_succeeded += 1
            histograms = self._window.at(second)
            e2e = metrics.e2e_ms(record)
            if histograms is not None and e2e is not None and e2e >= 0:
                histograms[E2E].add(e2e)
        elif record.outcome is Outcome.FAILED:
            row.failed += 1
            row.add_error(record.error or "unknown")
        else:
            row.cancelled += 1

    def _arrive(self, record: RequestRecord, counts: Counts, bins: Bins) -> None:
        """The tokens of the record's events, or its unweighed events, in their seconds."""
        through = tokens_through(record)
        done = 0
        for second, begin, end in bins:
            before = self._origin is not None and second < self._origin
            if through is None:
                if not before:
                    self.series.at(second).add_open(record.name, end - begin)
                continue
            upto = through(end)
            tokens, done = upto - done, upto
            if before:
                counts.before_tokens += tokens
            else:
                self.series.at(second).output_tokens += tokens
        late = self._late(record.event_ns, 0)
        if late and through is None:
            counts.drained_events += late
        elif late and through is not None:
            counts.drained_tokens += done - through(len(record.event_ns) - late)

    def _arrive_at_end(self, record: RequestRecord, counts: Counts) -> None:
        """Tokens of an answer without output events (not streamed): they arrived with its end."""
        tokens = record.output_tokens
        if tokens:
            self.series.at(self.second(record.ended_ns)).output_tokens += tokens
            if self.stop_ns is not None and record.ended_ns >= self.stop_ns:
                counts.drained_tokens += tokens

    def _late(self, events: array[int], first: int) -> int:
        """How many of the events from `first` on came after the stop request."""
        stop_ns = self.stop_ns
        if stop_ns is None or events[-1] < stop_ns:
            return 0
        return sum(at_ns >= stop_ns for at_ns in events[first:])

    def _feed_window(
        self, events: array[int], choices: array[int] | None, first: int, sent_ns: int | None, bins: Bins
    ) -> None:
        """TTFT and gaps of the events from `first` on, in the seconds they arrived in."""
        self._feed_ttft(events, first, sent_ns, bins)
        gaps, positions = gaps_ms(events, choices, first)
        try:
            check(gaps)
        except ValueError:
            return  # a clock fault: `add` counts it
        self._feed_itl(gaps.tobytes(), positions, first, bins)

    def _feed_ttft(self, events: array[int], first: int, sent_ns: int | None, bins: Bins) -> None:
        if first == 0 and sent_ns is not None and events[0] >= sent_ns:
            histograms = self._window.at(bins[0][0])
            if histograms is not None:
                histograms[TTFT].add((events[0] - sent_ns) * 1e-6)

    def _feed_itl(self, gaps: bytes, positions: NDArray[np.int64] | None, first: int, bins: Bins) -> None:
        """Gaps (doubles, ms) that end at `positions`; None: at max(first, 1) and every event after it."""
        window = self._window
        base = max(first, 1)
        for second, begin, end in bins:
            if end <= base:
                continue
            if positions is None:
                low, high = max(begin - base, 0), end - base
            else:
                low, high = positions.searchsorted((begin, end))
            histograms = window.at(second)
            if histograms is not None and high > low:
                histograms[ITL].add_checked(gaps[low * _DOUBLE : high * _DOUBLE])

    def forget_ended(self) -> None:
        """Whoever looks at running requests has begun a new round, in which those that have ended are not."""
        self._ended.clear()

    def finish(self, until: int) -> None:
        """Keep the percentiles of all seconds up to `until`, and let the histograms go that no window needs."""
        first = self._finished + 1 if self._finished is not None else self.series.first
        if first is None:
            return
        for second in range(max(first, until - WINDOW_S), until + 1):
            self.series.at(second).percentiles = self._window.percentiles(second)
            self._finished = second
        self._window.forget(until - WINDOW_S + 2)

    def reset(self, origin: int) -> None:
        """Begin anew: of the requests still running, what arrived before the second `origin` counts no more."""
        self._origin = origin
        self.stop_ns = None
        self.clear()
        for running in self._running.values():
            running.bins.clear()
            running.drained = 0

    def clear(self) -> None:
        """Forget all seconds, but not the running requests."""
        self.series.clear()
        self._window.clear()

    def pack(self, names: list[str]) -> list[Any]:
        """Everything as plain values."""
        return [self.series.carried, self.series.pack(names), self._window.pack()]

    def merge_packed(self, packed: list[Any], names: list[str]) -> None:
        """Add what `pack` of another process gave."""
        carried, rows, window = packed
        self.series.carried += carried
        self.series.merge_packed(rows, names)
        self._window.merge_packed(window)
