"""RunStats: the figures of a run, per request name and in total; exact, live, and mergeable over workers.

Theory of operation. Everything kept is a sum (whole numbers, histogram counts), a minimum or a maximum, so parts may
be added in any order: RunStats of one process equals the merge of any split of its requests. A worker's RunStats holds
only what came since its last report: `take_delta` hands it over and leaves it empty, `merge_delta` adds it on the
master. Memory is bounded by the number of names, not of requests.

A request passes through `started`, `progress` (about once a second while it runs) and `add` (once, when it has ended).
Its output events are counted in the wall-clock second they arrived in (see `arrivals`). All times are nanoseconds of
the monotonic clock; `offset_ns` = wall - monotonic, taken once, gives the wall-clock second. Workers whose wall clocks
differ by d have their rows d apart: a step of the load is then smeared over d; sums and histograms are not touched.

Warm-up requests are counted apart and are in no other figure.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from locust_llm.measure import metrics
from locust_llm.measure.arrivals import SECOND_NS, Running, by_second, gaps_ns, tokens_through
from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS, SPLIT_BY_LAG, TPOT
from locust_llm.measure.counts import Counts, tally
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import Clock, Outcome, RequestRecord, TokenSource
from locust_llm.measure.series import Point, Series
from locust_llm.measure.timeline import Timeline
from locust_llm.measure.window import E2E, ITL, TTFT, WINDOW_S, Window

LAG_LIMIT_NS: Final = 5_000_000
"""A request counts as lagged when its stamps were read, not the kernel's, and this process was later than this."""

LOCAL_LAG_S: Final = 2
"""Seconds after which a second's figures are complete when the requests run in this process."""

REPORT_LAG_S: Final = 5
"""The same on a master: one report interval (3 s) more."""


class _Name:
    """What is kept of one request name. `lagged` holds the samples of SPLIT_BY_LAG that the client's delay touched."""

    __slots__ = ("counts", "histograms", "lagged")

    def __init__(self) -> None:
        self.counts = Counts()
        self.histograms: dict[str, Histogram] = {}
        self.lagged: dict[str, Histogram] = {}


class RunStats:
    """The figures of one run.

    `lag_s`: seconds after which a second of the series counts as complete; None in a worker, which nobody reads.
    """

    def __init__(
        self, offset_ns: int, *, min_tokens: int = metrics.MIN_TOKENS, lag_s: int | None = LOCAL_LAG_S
    ) -> None:
        self.offset_ns = offset_ns
        self.min_tokens = min_tokens
        self.lag_s = lag_s
        self.first_sent_s: float | None = None
        self.stopped_s: float | None = None
        self.all_running_s: float | None = None
        self.now_s: int | None = None
        self.series = Series()
        self._window = Window()
        self._names: dict[str, _Name] = {}
        self._running: dict[int, Running] = {}
        self._stop_ns: int | None = None
        self._origin_s: int | None = None
        self._finished_s: int | None = None

    # -- feeding -------------------------------------------------------------------------------------------------

    def started(self, name: str, at_ns: int, *, warmup: bool = False) -> None:
        """A request was handed to the client."""
        counts = self._name(name).counts
        if warmup:
            counts.warmup_started += 1
            return
        counts.started += 1
        self.series.at(self.second(at_ns)).started += 1

    def progress(self, timeline: Timeline) -> None:
        """Count the output events that a running request has got since the last call. About once a second for each."""
        events = timeline.event_ns
        if timeline.warmup or not events:
            return
        running = self._running.get(id(events))
        if running is None:
            running = self._running[id(events)] = Running(events)
        if running.seen == len(events):
            return
        sent_ns = timeline.transit.sent_ns
        self._note_sent(sent_ns)
        self._feed_window(events, timeline.event_choice, running.seen, sent_ns)
        for second, begin, end in by_second(events, running.seen, self.offset_ns):
            if self._origin_s is None or second >= self._origin_s:
                running.bins.append((second, end - begin))
                self.series.at(second).add_open(timeline.name, end - begin)
        late = self._late_events(events, running.seen)
        if late:
            running.drained += late
            self._name(timeline.name).counts.drained_events += late
        running.seen = len(events)

    def add(self, record: RequestRecord) -> None:
        """A request has ended, whatever its outcome. Once for each that was `started`."""
        name = self._name(record.name)
        if record.warmup:
            name.counts.warmup_ended += 1
            return
        _count(name.counts, record)
        self._sample(name, record)
        self._end(name.counts, record)
        self._arrive(name.counts, record)

    def tick(self, now_ns: int, running: Iterable[Timeline], users: int | None = None) -> None:
        """About once a second: the gauges of this second, percentiles of those that are complete, and thinning."""
        second = self.second(now_ns)
        oldest = min((timeline.started_ns for timeline in running if not timeline.warmup), default=None)
        self.series.at(second).gauge(None if oldest is None else (now_ns - oldest) / SECOND_NS, users)
        self.now_s = second
        if self.lag_s is not None:
            self._finish_seconds(second - self.lag_s)
            self.series.thin(second, self.tokens_per_event)

    def mark_stop(self, at_ns: int) -> None:
        """The run was asked to stop: what arrives from now on is drain. Only the first call counts."""
        if self._stop_ns is None:
            self._stop_ns = at_ns
            self.stopped_s = self._wall_s(at_ns)

    def mark_all_users_running(self, at_ns: int) -> None:
        """All wanted users run: the steady window begins (anew, when the load is stepped)."""
        self.all_running_s = self._wall_s(at_ns)

    def reset(self, at_ns: int) -> None:
        """Begin anew; requests in flight are carried over as started, what of them arrived before does not count."""
        carried = {name: kept.counts.in_flight for name, kept in self._names.items()}
        self._empty()
        self.first_sent_s = self.stopped_s = self.all_running_s = self._stop_ns = None
        self._origin_s = self.second(at_ns) + 1
        for running in self._running.values():
            running.bins.clear()
            running.drained = 0
        for name, in_flight in carried.items():
            if in_flight:
                self._name(name).counts.started += in_flight
                self.series.at(self.second(at_ns)).started += in_flight

    # -- travelling ----------------------------------------------------------------------------------------------

    def take_delta(self) -> dict[str, Any]:
        """What came since the last call, as plain values for a message; it is no longer in here afterwards."""
        names = list(self._names)
        delta = {
            "names": names,
            "stats": [
                [
                    kept.counts.pack(),
                    {key: histogram.pack() for key, histogram in kept.histograms.items()},
                    {key: histogram.pack() for key, histogram in kept.lagged.items()},
                ]
                for kept in self._names.values()
            ],
            "series": self.series.pack(names),
            "window": self._window.pack(),
            "marks": [self.first_sent_s, self.stopped_s, self.all_running_s, self.now_s],
        }
        self._empty()
        return delta

    def merge_delta(self, delta: dict[str, Any]) -> None:
        """Add what `take_delta` of another RunStats gave: each exactly once, in any order."""
        for label, (counts, histograms, lagged) in zip(delta["names"], delta["stats"], strict=True):
            name = self._name(label)
            name.counts.merge(Counts.unpack(counts))
            for mine, packed in ((name.histograms, histograms), (name.lagged, lagged)):
                for key, data in packed.items():
                    _histogram(mine, key).merge_packed(data)
        self.series.merge_packed(delta["series"], delta["names"])
        self._window.merge_packed(delta["window"])
        first_sent, stopped, all_running, now = delta["marks"]
        self.first_sent_s = _of_both(min, self.first_sent_s, first_sent)
        self.stopped_s = _of_both(max, self.stopped_s, stopped)
        self.all_running_s = _of_both(max, self.all_running_s, all_running)
        self.now_s = _of_both(max, self.now_s, now)

    def _empty(self) -> None:
        self._names = {}
        self.series.clear()
        self._window.clear()

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Request names, in the order of their first appearance."""
        return list(self._names)

    def counts(self, name: str | None = None) -> Counts:
        """The counts of one name (zeros when unknown), or of all."""
        total = Counts()
        for kept in self._chosen(name):
            total.merge(kept.counts)
        return total

    def histogram(self, key: str, name: str | None = None, *, lagged: bool = True) -> Histogram:
        """The samples of one distribution (a key of the catalogue), of one name or of all.

        `lagged=False` leaves out requests whose stamps the client's own delay may have touched. Raises KeyError when
        there is no such distribution.
        """
        BY_KEY[key]
        found = [kept.histograms[key] for kept in self._chosen(name) if key in kept.histograms]
        if lagged:
            found += [kept.lagged[key] for kept in self._chosen(name) if key in kept.lagged]
        return Histogram.merged(found)

    def tokens_per_event(self, name: str) -> float:
        """What one output event of this name weighs as long as its request has not told its tokens."""
        kept = self._names.get(name)
        return kept.counts.tokens_per_event if kept is not None else 1.0

    def points(self, since: int | None = None) -> Iterator[Point]:
        """The series, second by second, up to the last complete one; only those after `since`."""
        if self.now_s is None:
            return iter(())
        until = self.now_s - (self.lag_s if self.lag_s is not None else 0)
        return self.series.points(self.tokens_per_event, until, since)

    def second(self, at_ns: int) -> int:
        """The wall-clock second of a monotonic instant."""
        return (at_ns + self.offset_ns) // SECOND_NS

    def _wall_s(self, at_ns: int) -> float:
        return (at_ns + self.offset_ns) / SECOND_NS

    def _chosen(self, name: str | None) -> list[_Name]:
        if name is None:
            return list(self._names.values())
        return [self._names[name]] if name in self._names else []

    def _name(self, name: str) -> _Name:
        kept = self._names.get(name)
        if kept is None:
            kept = self._names[name] = _Name()
        return kept

    # -- the parts of `add` --------------------------------------------------------------------------------------

    def _sample(self, name: _Name, record: RequestRecord) -> None:
        """Put the record's samples into the distributions."""
        counts = name.counts
        transit = record.transit
        lagged = transit.clock is Clock.READ and transit.max_lag_ns is not None and transit.max_lag_ns > LAG_LIMIT_NS
        if lagged:
            counts.lagged += 1
        histograms = name.histograms
        for metric in DISTRIBUTIONS:
            value = metric.of(record)
            if value is None:
                continue
            key = metric.key
            if key == TPOT and (record.output_tokens or 0) < self.min_tokens:
                counts.tpot_left_out += 1
                continue
            into = name.lagged if lagged and key in SPLIT_BY_LAG else histograms
            histogram = into.get(key)
            if histogram is None:
                histogram = into[key] = Histogram()
            try:
                if isinstance(value, int | float):
                    histogram.add(value)
                elif isinstance(value, tuple):
                    histogram.add_weighted(*value)
                else:
                    histogram.add_many(value)
            except ValueError:
                counts.clock_faults += 1

    def _end(self, counts: Counts, record: RequestRecord) -> None:
        """The end of a request in the series."""
        second = self.second(record.ended_ns)
        row = self.series.at(second)
        if record.outcome is Outcome.SUCCESS:
            row.succeeded += 1
            if self._stop_ns is not None and record.ended_ns >= self._stop_ns:
                counts.drained_succeeded += 1
            e2e = metrics.e2e_ms(record)
            histograms = self._window.at(second)
            if histograms is not None and e2e is not None and e2e >= 0:
                histograms[E2E].add(e2e)
        elif record.outcome is Outcome.FAILED:
            row.failed += 1
            row.add_error(record.error or "unknown")
        else:
            row.cancelled += 1

    def _arrive(self, counts: Counts, record: RequestRecord) -> None:
        """The record's tokens in the seconds they arrived in, in place of what `progress` had counted."""
        events = record.event_ns
        running = self._running.pop(id(events), None)
        self._note_sent(record.transit.sent_ns)
        if running is not None:
            for second, number in running.bins:
                self.series.at(second).add_open(record.name, -number)
            counts.drained_events -= running.drained
        seen = running.seen if running is not None else 0
        if seen < len(events) and not metrics.buffered(record):
            self._feed_window(events, record.event_choice, seen, record.transit.sent_ns)
        if record.input_tokens:
            at = events[0] if events else record.ended_ns
            self.series.at(self.second(at)).input_tokens += record.input_tokens
        through = tokens_through(record)
        if not events:
            self._arrive_at_end(counts, record)
            return
        for second, begin, end in by_second(events, 0, self.offset_ns):
            before = self._origin_s is not None and second < self._origin_s
            if through is None:
                if not before:
                    self.series.at(second).add_open(record.name, end - begin)
            elif before:
                counts.before_tokens += through(end) - through(begin)
            else:
                self.series.at(second).output_tokens += through(end) - through(begin)
        late = self._late_events(events, 0)
        if late and through is None:
            counts.drained_events += late
        elif late and through is not None:
            counts.drained_tokens += through(len(events)) - through(len(events) - late)

    def _arrive_at_end(self, counts: Counts, record: RequestRecord) -> None:
        """Tokens of an answer without output events (not streamed): they arrived with its end."""
        tokens = record.output_tokens
        if not tokens:
            return
        self.series.at(self.second(record.ended_ns)).output_tokens += tokens
        if self._stop_ns is not None and record.ended_ns >= self._stop_ns:
            counts.drained_tokens += tokens

    def _late_events(self, events: array[int], first: int) -> int:
        """How many of the events from `first` on came after the stop request."""
        if self._stop_ns is None or events[-1] < self._stop_ns:
            return 0
        stop_ns = self._stop_ns
        return sum(at_ns >= stop_ns for at_ns in events[first:])

    def _feed_window(self, events: array[int], choices: array[int] | None, first: int, sent_ns: int | None) -> None:
        """TTFT and gaps of the events from `first` on, in the seconds they arrived in."""
        if first == 0 and sent_ns is not None and events[0] >= sent_ns:
            histograms = self._window.at(self.second(events[0]))
            if histograms is not None:
                histograms[TTFT].add((events[0] - sent_ns) * 1e-6)
        gaps, position = gaps_ns(events, choices, first)
        if len(gaps) == 0:
            return
        gaps_ms = gaps.astype(np.float64) * 1e-6
        for second, begin, end in by_second(events, first, self.offset_ns):
            histograms = self._window.at(second)
            if histograms is not None:
                low, high = position.searchsorted((begin, end))
                try:
                    histograms[ITL].add_many(gaps_ms[low:high])
                except ValueError:
                    continue  # a clock fault: `add` counts it

    def _note_sent(self, sent_ns: int | None) -> None:
        if sent_ns is None:
            return
        sent_s = self._wall_s(sent_ns)
        if self.first_sent_s is None or sent_s < self.first_sent_s:
            self.first_sent_s = sent_s

    def _finish_seconds(self, until: int) -> None:
        """Keep the percentiles of all seconds up to `until`, and let their histograms go."""
        first = self._finished_s + 1 if self._finished_s is not None else self.series.first
        if first is None:
            return
        for second in range(max(first, until - WINDOW_S), until + 1):
            self.series.at(second).percentiles = self._window.percentiles(second)
            self._finished_s = second
        self._window.forget(until - WINDOW_S + 2)


def _count(counts: Counts, record: RequestRecord) -> None:
    """The whole numbers of one record that has ended."""
    transit = record.transit
    usage = record.usage
    if record.outcome is Outcome.SUCCESS:
        _count_success(counts, record)
    else:
        if record.outcome is Outcome.FAILED:
            counts.failed += 1
            tally(counts.errors, record.error or "unknown")
        else:
            counts.cancelled += 1
        if record.output_tokens is not None and record.token_source is not TokenSource.CHUNKS:
            counts.partial_tokens += record.output_tokens
        else:
            counts.partial_events += len(record.event_ns)
    counts.input_tokens += usage.input_tokens or 0
    if usage.cached_tokens is not None and usage.input_tokens is not None:
        counts.cache_judged_tokens += usage.input_tokens
        counts.cached_tokens += usage.cached_tokens
    counts.reasoning_tokens += usage.reasoning_tokens or 0
    counts.stale_retries += transit.stale_retries
    if transit.sent_ns is not None:
        if transit.reused and not transit.stale_retries:
            counts.connections_reused += 1
        else:
            counts.connections_new += 1
        tally(counts.clocks, transit.clock)


def _count_success(counts: Counts, record: RequestRecord) -> None:
    events = len(record.event_ns)
    tokens = record.output_tokens
    counts.succeeded += 1
    if not record.streamed:
        counts.not_streamed += 1
    elif events == 0:
        counts.empty += 1
    if metrics.buffered(record):
        counts.buffered += 1
    if record.hidden_reasoning:
        counts.hidden_reasoning += 1
    if tokens is not None:
        counts.output_tokens += tokens
        if record.max_tokens is not None:
            counts.length_judged += 1
            counts.short += tokens < record.max_tokens
    tally(counts.token_sources, record.token_source if record.token_source is not None else "unknown")
    tally(counts.finish_reasons, record.finish_reason if record.finish_reason is not None else "none")
    if record.model_answered is not None:
        tally(counts.models, record.model_answered)
        counts.model_differs += bool(record.model) and record.model_answered != record.model
    if events:
        counts.events += events
        counts.coalesced_events += metrics.coalesced_events(record)
        if record.streamed_tokens is not None and record.token_source is not TokenSource.CHUNKS:
            counts.weighed_events += events
            counts.weighed_tokens += record.streamed_tokens
        span = metrics.decode_span(record)
        if span is not None and events > 1:
            counts.decode_ns += round(span[0] * 1e6)
            counts.decode_tokens += span[1]


def _histogram(histograms: dict[str, Histogram], key: str) -> Histogram:
    found = histograms.get(key)
    if found is None:
        found = histograms[key] = Histogram()
    return found


def _of_both(choose: Any, mine: Any, other: Any) -> Any:
    return other if mine is None else mine if other is None else choose(mine, other)
