"""Blocks: all together are the run, whatever the order, the process and the length of the run; bounded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.measure.blocks import COUNTS, KEPT, LIMIT, Blocks
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.slo import parse_slo
from locust_llm.measure.stats import RunStats
from tests.measure.build import OFFSET, ns, record

END_MS = 400_000


def answer(at: int, outcome: Outcome, name: str, ttft: int) -> RequestRecord:
    events = [at + ttft, at + ttft + 10, at + ttft + 30] if outcome is Outcome.SUCCESS else []
    error = "HTTP 500" if outcome is Outcome.FAILED else None
    return record(events, n=3, name=name, sent=at, ended=at + ttft + 40, outcome=outcome, error=error)


requests = st.lists(
    st.builds(
        answer, st.integers(0, END_MS), st.sampled_from(Outcome), st.sampled_from(["chat", "rag"]), st.integers(1, 900)
    ),
    max_size=20,
)


def stats_of(records: list[RequestRecord]) -> RunStats:
    stats = RunStats(OFFSET, min_tokens=1, slos=[parse_slo("ttft<500ms")], apart=["chat", "rag"])
    for each in records:
        stats.started(each.name, each.started_ns)
        stats.add(each)
    return stats


def plain(blocks: Blocks | None) -> dict[str, Any] | None:
    """What they hold, but the sums of floats, whose last digits depend on the order."""
    if blocks is None:
        return None
    told = blocks.to_dict()
    for histograms in told["histograms"]:
        for histogram in histograms.values():
            histogram["sum"] = round(histogram["sum"], 6)
    return told


@settings(deadline=None)
@given(requests, st.data())
def test_any_split_and_order_gives_the_same_blocks(records: list[RequestRecord], data: st.DataObject) -> None:
    alone = stats_of(records)
    parts: list[list[RequestRecord]] = [[], [], []]
    for each in data.draw(st.permutations(records)):
        parts[data.draw(st.integers(0, 2))].append(each)
    master = RunStats(OFFSET)
    for part in data.draw(st.permutations(parts)):
        master.merge_delta(stats_of(part).take_delta())
    for name in (None, "chat", "rag"):
        assert plain(master.blocks(name)) == plain(alone.blocks(name))


@settings(deadline=None)
@given(requests)
def test_together_they_are_the_run(records: list[RequestRecord]) -> None:
    stats = stats_of(records)
    for name in (None, "chat", "rag"):
        counts, rows = stats.counts(name), [block for _, block in (stats.blocks(name) or Blocks()).items()]
        told = (counts.succeeded, counts.failed, counts.cancelled, counts.slo_met, counts.slo_missed)
        assert tuple(sum(getattr(block, key) for block in rows) for key in COUNTS) == told
        for key in KEPT:
            histogram = stats.histogram(key, name)
            assert sum(block.histogram(key).count for block in rows) == histogram.count
            assert max((block.histogram(key).max or 0 for block in rows), default=0) == (histogram.max or 0)


@settings(deadline=None)
@given(requests)
def test_they_go_through_json(records: list[RequestRecord]) -> None:
    blocks = stats_of(records).blocks() or Blocks()
    assert Blocks.from_dict(msgspec.json.decode(msgspec.json.encode(blocks.to_dict()))).to_dict() == blocks.to_dict()


@pytest.mark.parametrize(
    ("length_s", "span_s"), [(1, 1), (LIMIT, 1), (LIMIT + 1, 2), (1000, 8), (86_400, 1024), (30 * 86_400, 32_768)]
)
def test_their_number_is_bounded_and_their_length_follows_the_run(length_s: int, span_s: int) -> None:
    blocks, begin = Blocks(), 1_700_000_000 // 65_536 * 65_536
    for second in range(begin, begin + length_s, max(1, length_s // 5000)):
        blocks.at(second).succeeded += 1
    blocks.at(begin + length_s - 1)
    rows = list(blocks.items())
    assert blocks.span_s == span_s
    assert min(length_s, LIMIT / 2) <= len(rows) <= LIMIT
    assert all(second % span_s == 0 for second, _ in rows)


def test_a_sample_lies_in_the_block_in_which_its_request_ended() -> None:
    stats = stats_of([record([1500, 1900, 2100], n=3, ended=2200), record([2000, 2500], n=2, ended=3001)])
    blocks = stats.blocks("chat")
    assert blocks is not None
    told = [(second - 1_700_000_000, block.histogram("ttft").max) for second, block in blocks.items()]
    assert told == [(2, 1500.0), (3, 2000.0)]


def test_only_names_that_are_wanted_have_blocks_of_their_own() -> None:
    stats = RunStats(OFFSET, apart=["rag"])
    for name in ("chat", "rag"):
        stats.started(name, 0)
        stats.add(record([100, 120], n=2, name=name))
    assert stats.blocks("chat") is None
    assert [
        sum(block.succeeded for _, block in (stats.blocks(name) or Blocks()).items()) for name in (None, "rag")
    ] == [2, 1]


def test_a_reset_forgets_them() -> None:
    stats = stats_of([record([100, 120], n=2)])
    stats.reset(ns(5000))
    assert stats.blocks() is None


def test_a_sample_that_is_refused_leaves_an_empty_histogram_that_travels() -> None:
    faulty = record([100, 90], n=2, ended=200)  # a clock that stepped back: ITL and TPOT are negative
    part, master = stats_of([faulty]), RunStats(OFFSET)
    master.merge_delta(part.take_delta())
    blocks = master.blocks()
    assert blocks is not None
    ((_, block),) = blocks.items()
    assert {key: block.histogram(key).max for key in ("ttft", "itl")} == {"ttft": 100.0, "itl": None}
