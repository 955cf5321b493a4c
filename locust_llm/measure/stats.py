"""RunStats: the figures of a run, per request name and in total; exact, live, and mergeable over workers.

Theory of operation. Everything kept is a sum (whole numbers, histogram counts), a minimum or a maximum, so parts may
be added in any order: RunStats of one process equals the merge of any split of its requests. A worker's RunStats holds
only what came since its last report: `take_delta` hands it over and leaves it empty, `merge_delta` adds it on the
master. Memory is bounded by the number of names, not of requests.

A request passes through `started`, `progress` (about once a second while it runs) and `add` (once, when it has ended).
Distributions and counts are per name; the series by second (see `live`) is of all names together. All times are
nanoseconds of the monotonic clock; `offset_ns` = wall - monotonic, taken once, gives the wall-clock second. Workers
whose wall clocks differ by d have their rows d apart: a step of the load is then smeared over d; sums and histograms
are not touched.

Warm-up requests are counted apart and are in no other figure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec

from locust_llm.measure import metrics, slo
from locust_llm.measure.arrivals import SECOND_NS
from locust_llm.measure.blocks import Block, Blocks
from locust_llm.measure.by_length import ByLength
from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.counts import Counts, count, count_audit, count_slo
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.live import Live
from locust_llm.measure.name_stats import NameStats
from locust_llm.measure.probe_log import ProbeLog
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.series import Point, Series
from locust_llm.measure.smoothness import STALL_MS
from locust_llm.measure.timeline import Timeline
from locust_llm.measure.tokens import Counter, local_count

LOCAL_LAG_S: Final = 2
"""Seconds after which a second's figures are complete when the requests run in this process."""

REPORT_LAG_S: Final = 5
"""The same on a master: one report interval (3 s) more."""


class Rules(TypedDict, total=False):
    """What a run's figures follow; see RunStats."""

    min_tokens: int
    slos: Sequence[slo.Slo]
    apart: Iterable[str]
    stall_ms: float
    counter: Counter | None
    sides: Sequence[str]


class RunStats:
    """The figures of one run.

    `lag_s`: seconds after which a second of the series counts as complete; None in a worker, which nobody reads.
    `slos`: the limits that each request has to meet. `apart`: request names that get blocks of their own (see `blocks`)
    beside those of all; a day's worth of them is a few hundred kilobytes a name. `probing`: keep `probe`, a few numbers
    of each request (see `probe_log`). `stall_ms`: a longer gap is a stall (see `smoothness`).
    `counter`: counts an answer's tokens for the billing audit (see `tokens`). `sides`: endings of request names; those
    that end alike get blocks together, under that ending.
    `first_sent_s`, `stopped_s`, `all_running_s`: wall-clock seconds of the run's marks, None until they happen.
    """

    def __init__(
        self,
        offset_ns: int,
        *,
        min_tokens: int = metrics.MIN_TOKENS,
        lag_s: int | None = LOCAL_LAG_S,
        slos: Sequence[slo.Slo] = (),
        apart: Iterable[str] = (),
        probing: bool = False,
        stall_ms: float = STALL_MS,
        counter: Counter | None = None,
        sides: Sequence[str] = (),
    ) -> None:
        self.slos = tuple(slos)
        self.min_tokens = min_tokens
        self.lag_s = lag_s
        self.first_sent_s: float | None = None
        self.stopped_s: float | None = None
        self.all_running_s: float | None = None
        self.reset_s: int | None = None
        self.now_s: int | None = None
        self.probe = ProbeLog()
        self.by_length = ByLength()
        self._probing = probing
        self.stall_ms = stall_ms
        self._counter = counter
        self._live = Live(offset_ns)
        self._names: dict[str, NameStats] = {}
        self._apart = frozenset(apart)
        self._sides = tuple(sides)
        self._blocks: dict[str | None, Blocks] = {}

    # -- feeding -------------------------------------------------------------------------------------------------

    def started(self, name: str, at_ns: int, *, warmup: bool = False) -> None:
        """A request was handed to the client."""
        counts = self._name(name).counts
        if warmup:
            counts.warmup_started += 1
            return
        counts.started += 1
        self.series.at(self._live.second(at_ns)).started += 1

    def progress(self, timeline: Timeline) -> None:
        """Count the output events that a running request has got since the last call.

        About once a second for each, all of them between two calls of `tick`: until the next `tick` a request that has
        ended in the meantime is known and left alone; later its events would be counted a second time.
        """
        if timeline.event_ns and not timeline.warmup:
            self._note_sent(timeline.transit.sent_ns)
            self._live.progress(timeline, self._name(timeline.name).counts)

    def add(self, record: RequestRecord) -> None:
        """A request has ended, whatever its outcome. Once for each that was `started`."""
        name = self._name(record.name)
        if record.warmup:
            name.counts.warmup_ended += 1
            return
        count(name.counts, record)
        if record.outcome is Outcome.SUCCESS:
            count_audit(name.counts, record, local_count(record, self._counter))
        met = slo.met(record, self.slos)
        if self.slos:
            drained = self._live.stop_ns is not None and record.ended_ns >= self._live.stop_ns
            count_slo(name.counts, record, met, drained=drained)
        blocks = self._blocks_at(record)
        for block in blocks:
            block.count(record.outcome, met)
        lengths = self.by_length if record.outcome is Outcome.SUCCESS else None
        gaps = name.sample(record, blocks, self.min_tokens, self.stall_ms, lengths)
        self._note_sent(record.transit.sent_ns)
        self._live.end(record, name.counts, gaps)
        if self._probing:
            self.probe.add(record, self._live.offset_ns)

    def tick(self, now_ns: int, running: Iterable[Timeline], users: int | None = None) -> None:
        """About once a second: the gauges of this second, percentiles of those that are complete, and thinning."""
        oldest = min((timeline.started_ns for timeline in running if not timeline.warmup), default=None)
        age_s = None if oldest is None else (now_ns - oldest) / SECOND_NS
        self._live.forget_ended()
        self.now_s = self._live.second(now_ns)
        self.series.at(self.now_s).gauge(age_s, users)
        if self.lag_s is not None:
            self._live.finish(self.now_s - self.lag_s)
            self.series.thin(self.now_s, self.tokens_per_event)

    def close(self) -> None:
        """Nothing more will come: even the second of the last tick is complete."""
        if self.now_s is not None and self.lag_s is not None:
            self.lag_s = 0
            self._live.finish(self.now_s)

    def mark_stop(self, at_ns: int) -> None:
        """The run was asked to stop: what arrives from now on is drain. Only the first call counts."""
        if self._live.stop_ns is None:
            self._live.stop_ns = at_ns
            self.stopped_s = self._wall_s(at_ns)

    def mark_all_users_running(self, at_ns: int) -> None:
        """All wanted users run: the steady window begins (anew, when the load is stepped)."""
        self.all_running_s = self._wall_s(at_ns)

    def reset(self, at_ns: int) -> None:
        """Begin anew with the next second; requests in flight are carried over as started.

        In a worker these are, like all it holds, the changes that its reports have not told yet; the master carries
        over what it knows. So both may reset at different moments and the number in flight stays right.
        """
        carried = {name: kept.counts.in_flight for name, kept in self._names.items()}
        self.first_sent_s = self.stopped_s = self.all_running_s = None
        self.reset_s = self._live.second(at_ns) + 1
        self._names = {}
        self._blocks = {}
        self.probe.clear()
        self.by_length.clear()
        self._live.reset(self.reset_s)
        self.carry(carried)

    def carry(self, in_flight: Mapping[str, int]) -> None:
        """Count requests that were already in flight when these figures began, by name, as started."""
        for name, number in in_flight.items():
            if number:
                self._name(name).counts.started += number
                self.series.carried += number

    # -- travelling ----------------------------------------------------------------------------------------------

    def take_delta(self) -> dict[str, Any]:
        """What came since the last call, as plain values for a message; it is no longer in here afterwards.

        One packed value, since Locust would take longer to pack and unpack thousands of small ones.
        """
        names = list(self._names)
        parts = [
            names,
            [kept.counts.pack() for kept in self._names.values()],
            [kept.pack() for kept in self._names.values()],
            self._live.pack(names),
            [[name, kept.pack()] for name, kept in self._blocks.items()],
            [self.first_sent_s, self.stopped_s, self.all_running_s],
            self.probe.pack(),
            self.by_length.pack(),
        ]
        self._names = {}
        self._blocks = {}
        self.probe.clear()
        self.by_length.clear()
        self._live.clear()
        return {"packed": zlib.compress(msgspec.msgpack.encode(parts), 1)}

    def merge_delta(self, delta: dict[str, Any]) -> None:
        """Add what `take_delta` of another RunStats gave: each exactly once, in any order."""
        names, counts, histograms, live, blocks, marks, probe, lengths = msgspec.msgpack.decode(
            zlib.decompress(delta["packed"])
        )
        for name, numbers, parts in zip(names, counts, histograms, strict=True):
            self.add_name(name, numbers, parts)
        for name_or_all, packed in blocks:
            self._blocks.setdefault(name_or_all, Blocks()).merge_packed(packed)
        self._live.merge_packed(live, names)
        self.probe.merge_packed(probe)
        self.by_length.merge_packed(lengths)
        first_sent, stopped, all_running = marks
        self.first_sent_s = _of_both(min, self.first_sent_s, first_sent)
        self.stopped_s = _of_both(max, self.stopped_s, stopped)
        self.all_running_s = _of_both(max, self.all_running_s, all_running)

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
        chosen = self._chosen(name)
        parts = [kept.histograms for kept in chosen] + ([kept.lagged for kept in chosen] if lagged else [])
        return Histogram.merged(part[key] for part in parts if key in part)

    def blocks(self, name: str | None = None) -> Blocks | None:
        """What ended in each stretch of the run, of all or of one name; None where nobody kept it (see `apart`)."""
        return self._blocks.get(name)

    def add_name(self, name: str, counts: dict[str, Any], histograms: Sequence[dict[str, bytes]]) -> None:
        """Add packed counts, and packed histograms (see `NameStats.pack`), of one name."""
        kept = self._name(name)
        kept.counts.merge_packed(counts)
        kept.merge_packed(histograms)

    def add_blocks(self, name: str | None, blocks: Blocks) -> None:
        """Add blocks that a run document tells."""
        self._blocks.setdefault(name, Blocks()).merge(blocks)

    def tokens_per_event(self, name: str) -> float:
        """What one output event of this name weighs as long as its request has not told its tokens."""
        kept = self._names.get(name)
        return kept.counts.tokens_per_event if kept is not None else 1.0

    def points(self, since: int | None = None) -> Iterator[Point]:
        """The series, second by second, up to the last complete one; only those after `since`."""
        until = self.complete_s
        if until is None:
            return iter(())
        if self.reset_s is not None:  # corrections of requests that began before may lie before
            since = max(since if since is not None else self.reset_s - 1, self.reset_s - 1)
        return self.series.points(self.tokens_per_event, until, since)

    @property
    def complete_s(self) -> int | None:
        """The latest second whose figures are complete; None before the first tick."""
        return None if self.now_s is None else self.now_s - (self.lag_s if self.lag_s is not None else 0)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _blocks_at(self, record: RequestRecord) -> list[Block]:
        """The blocks that a request ended in: that of all, its name's own, and its side's."""
        second = self._live.second(record.ended_ns)
        blocks = [self._blocks_of(None).at(second)]
        if record.name in self._apart:
            blocks.append(self._blocks_of(record.name).at(second))
        if self._sides:
            blocks += [self._blocks_of(side).at(second) for side in self._sides if record.name.endswith(side)]
        return blocks

    def _blocks_of(self, key: str | None) -> Blocks:
        blocks = self._blocks.get(key)
        if blocks is None:
            blocks = self._blocks[key] = Blocks()
        return blocks

    @property
    def series(self) -> Series:
        """What happened second by second."""
        return self._live.series

    def _note_sent(self, sent_ns: int | None) -> None:
        if sent_ns is None:
            return
        sent_s = self._wall_s(sent_ns)
        if self.first_sent_s is None or sent_s < self.first_sent_s:
            self.first_sent_s = sent_s

    def _wall_s(self, at_ns: int) -> float:
        return (at_ns + self._live.offset_ns) / SECOND_NS

    def _chosen(self, name: str | None) -> list[NameStats]:
        if name is None:
            return list(self._names.values())
        return [self._names[name]] if name in self._names else []

    def _name(self, name: str) -> NameStats:
        kept = self._names.get(name)
        if kept is None:
            kept = self._names[name] = NameStats()
        return kept


def _of_both(choose: Any, mine: Any, other: Any) -> Any:
    return other if mine is None else mine if other is None else choose(mine, other)
