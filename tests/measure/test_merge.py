"""Any split of requests into workers, any moments and any order of reports give the same RunStats."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import msgpack
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.record import Clock, TokenSource, Usage
from locust_llm.measure.stats import REPORT_LAG_S, RunStats
from locust_llm.measure.timeline import Timeline
from tests.measure.build import OFFSET, SECOND, T0, ns

END_S = 45


@dataclass
class Request:
    """A request that a test steps through: events, looks at it while it runs, end."""

    name: str
    start: int
    gaps: list[int]
    looks: list[int]
    choice: list[int]
    end: str
    tokens: int | None
    told: bool
    lag: int
    warmup: bool
    timeline: Timeline = field(init=False)

    def begin(self, stats: RunStats) -> None:
        self.timeline = Timeline(self.name, started_ns=ns(self.start), warmup=self.warmup, max_tokens=50)
        self.timeline.transit.sent_ns = ns(self.start + 1)
        self.timeline.transit.max_lag_ns = self.lag * 1_000_000
        self.timeline.transit.clock = Clock.READ
        stats.started(self.name, ns(self.start), warmup=self.warmup)

    def run_to(self, position: int) -> None:
        """The events up to `position` arrive."""
        at = self.start + 1
        for index, gap in enumerate(self.gaps[:position]):
            at += gap
            if index >= len(self.timeline.event_ns):
                self.timeline.output(ns(at), self.choice[index % len(self.choice)])
                if self.told:
                    self.timeline.weigh_last(1 + index % 3, TokenSource.LOGPROBS)

    def finish(self, stats: RunStats) -> None:
        self.run_to(len(self.gaps))
        ended = ns(self.start + 2 + sum(self.gaps))
        if self.tokens is not None:
            self.timeline.report(Usage(input_tokens=10, output_tokens=self.tokens, cached_tokens=3))
        if self.end == "failed":
            self.timeline.fail("HTTP 500")
        else:
            self.timeline.done(ended)
        stats.add(self.timeline.freeze(ended, cancelled=self.end == "cancelled"))


requests = st.builds(
    Request,
    name=st.sampled_from(("chat", "rag", "mixed")),
    start=st.integers(0, 20_000),
    gaps=st.lists(st.integers(0, 1500), max_size=12),
    looks=st.lists(st.integers(0, 12), max_size=3).map(sorted),
    choice=st.sampled_from(([0], [0, 1], [1, 0, 0])),
    end=st.sampled_from(("success", "success", "failed", "cancelled")),
    tokens=st.one_of(st.none(), st.integers(0, 60)),
    told=st.booleans(),
    lag=st.sampled_from((0, 0, 9)),
    warmup=st.sampled_from((False, False, False, True)),
)


def steps(request: Request) -> list[tuple[str, int]]:
    looks = [("look", position) for position in request.looks]
    return [("begin", 0), *looks, ("finish", 0)]


def do(request: Request, step: tuple[str, int], stats: RunStats) -> None:
    what, position = step
    if what == "begin":
        request.begin(stats)
    elif what == "look":
        request.run_to(position)
        stats.progress(request.timeline)
    else:
        request.finish(stats)


def tick_through(stats: RunStats) -> None:
    """Every second of the run, so that each keeps its percentiles."""
    for second in range(END_S):
        stats.tick(T0 + second * SECOND, ())


def contents(stats: RunStats) -> dict[str, Any]:
    """All that can be read, but the sums of floats."""
    tick_through(stats)
    histograms = {
        (metric.key, name, lagged): stats.histogram(metric.key, name, lagged=lagged).to_dict()
        for metric in DISTRIBUTIONS
        for name in (None, *sorted(stats.names))
        for lagged in (True, False)
    }
    sums = {key: histogram.pop("sum") for key, histogram in histograms.items()}
    points = [
        {key: round(value, 9) if key == "output_tokens" else value for key, value in asdict(point).items()}
        for point in stats.points()
    ]
    return {
        "histograms": histograms,
        "sums": sums,
        "counts": {name: asdict(stats.counts(name)) for name in (None, *stats.names)},
        "points": points,
        "marks": (stats.first_sent_s, stats.stopped_s, stats.all_running_s),
    }


def assert_same(a: RunStats, b: RunStats) -> None:
    left, right = contents(a), contents(b)
    sums = left.pop("sums"), right.pop("sums")
    assert sums[0].keys() == sums[1].keys()
    for key, value in sums[0].items():
        assert math.isclose(value, sums[1][key], rel_tol=1e-9, abs_tol=1e-9), key
    assert left == right


@settings(max_examples=50, deadline=None)
@given(st.lists(requests, max_size=8), st.integers(1, 4), st.data())
def test_any_split_any_reports_any_order(all_requests: list[Request], workers: int, data: st.DataObject) -> None:
    alone = RunStats(OFFSET, lag_s=REPORT_LAG_S)
    for request in all_requests:
        for step in steps(request):
            do(request, step, alone)

    parts = [RunStats(OFFSET, lag_s=None) for _ in range(workers)]
    reports: list[bytes] = []
    todo = [(request, steps(request), data.draw(st.integers(0, workers - 1))) for request in all_requests]
    while todo:
        request, left, worker = todo[data.draw(st.integers(0, len(todo) - 1))]
        do(request, left.pop(0), parts[worker])
        todo = [entry for entry in todo if entry[1]]
        if data.draw(st.booleans()):
            reports.append(msgpack.packb(parts[worker].take_delta()))
    reports += [msgpack.packb(part.take_delta()) for part in parts]

    master = RunStats(OFFSET, lag_s=REPORT_LAG_S)
    for report in data.draw(st.permutations(reports)):
        master.merge_delta(msgpack.unpackb(report, strict_map_key=False))
    assert_same(master, alone)


@settings(max_examples=50, deadline=None)
@given(st.lists(requests, max_size=6))
def test_looking_at_running_requests_changes_nothing_in_the_end(all_requests: list[Request]) -> None:
    """But for a burst that was looked at halfway: nobody could know then that it would be one (D24)."""
    assume(not any(len(request.gaps) > 8 and sum(request.gaps[1:]) <= 5 for request in all_requests))
    looked, not_looked = RunStats(OFFSET), RunStats(OFFSET)
    for request in all_requests:
        for step in steps(request):
            do(request, step, looked)
        for step in (("begin", 0), ("finish", 0)):
            do(request, step, not_looked)
    assert_same(looked, not_looked)


@settings(max_examples=50, deadline=None)
@given(st.lists(requests, max_size=8))
def test_invariants(all_requests: list[Request]) -> None:
    """started = succeeded + failed + cancelled + in flight; the series holds every token once; peak >= mean."""
    stats = RunStats(OFFSET)
    for request in all_requests:
        for step in steps(request):
            do(request, step, stats)
            counts = stats.counts()
            assert counts.started == counts.succeeded + counts.failed + counts.cancelled + counts.in_flight
    counts = stats.counts()
    assert counts.in_flight == 0
    tick_through(stats)
    points = list(stats.points())
    partial = sum(stats.counts(name).partial_events * stats.tokens_per_event(name) for name in stats.names)
    tokens = sum(point.output_tokens for point in points)
    assert math.isclose(tokens, counts.output_tokens + counts.partial_tokens + partial, abs_tol=1e-6)
    assert sum(point.input_tokens for point in points) == counts.input_tokens
    assert sum(point.started for point in points) == counts.started
    assert sum(point.succeeded for point in points) == counts.succeeded
    assert all(point.in_flight >= 0 and point.output_tokens >= 0 for point in points)
    if points:
        assert max(point.output_tokens for point in points) >= tokens / len(points) - 1e-9
        assert points[-1].in_flight == 0
