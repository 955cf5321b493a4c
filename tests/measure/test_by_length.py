"""ByLength: which bucket an answer is in, that memory is bounded, and that workers' and documents' parts add up."""

from __future__ import annotations

import pytest

from locust_llm.measure.by_length import AXES, CACHED, INPUT, LONGEST, OUTPUT, ByLength
from locust_llm.measure.catalogue import TPOT, TTFT
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.stats import RunStats
from tests.measure.build import OFFSET, T0, fed, record, usage


def answer(tokens_in: int | None, n: int = 40, cached: int | None = None, first: float = 100.0) -> RequestRecord:
    events = [first + 20.0 * i for i in range(n)]
    return record(events, n=n, usage=usage(n, tokens_in, cached_tokens=cached))


# id, axis, record, the title of its bucket
PLACES = [
    ("one token", INPUT, answer(1), "1–64"),
    ("the end of a bucket", INPUT, answer(64), "1–64"),
    ("the begin of the next", INPUT, answer(65), "65–128"),
    ("in the middle", INPUT, answer(3000), "2,049–4,096"),
    ("the longest", INPUT, answer(LONGEST), "65,537–131,072"),
    ("longer than all", INPUT, answer(10 * LONGEST), "over 131,072"),
    ("nothing came in", INPUT, answer(0), "1–64"),
    ("output", OUTPUT, answer(10, n=200), "129–256"),
    ("nothing cached", CACHED, answer(100, cached=0), "nothing"),
    ("a little cached", CACHED, answer(100, cached=1), "0–25 %"),
    ("a quarter", CACHED, answer(100, cached=25), "0–25 %"),
    ("over a quarter", CACHED, answer(100, cached=26), "25–50 %"),
    ("all", CACHED, answer(100, cached=100), "75–100 %"),
    ("more than all", CACHED, answer(100, cached=300), "75–100 %"),
]


@pytest.mark.parametrize(("axis", "each", "title"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES])
def test_the_bucket_of_an_answer(axis: str, each: RequestRecord, title: str) -> None:
    ((bucket, histograms),) = fed(each).by_length.rows(axis)
    assert bucket.title == title
    assert histograms[TTFT].max == pytest.approx(100.0)
    assert histograms[TPOT].max == pytest.approx(20.0)


# id, record, axes it is in
UNTOLD = [
    ("no input told", answer(None), {OUTPUT}),
    ("no cache told", answer(10), {INPUT, OUTPUT}),
    ("failed", record((100,), outcome=Outcome.FAILED, usage=usage(1, 10)), set()),
    ("warm-up", record((100, 120), n=2, warmup=True, usage=usage(2, 10)), set()),
]


@pytest.mark.parametrize(("each", "axes"), [case[1:] for case in UNTOLD], ids=[case[0] for case in UNTOLD])
def test_what_told_no_length_is_in_no_bucket(each: RequestRecord, axes: set[str]) -> None:
    stats = fed(each)
    assert {axis for axis in AXES if list(stats.by_length.rows(axis))} == axes


def test_short_answers_stay_out_of_tpot_as_everywhere() -> None:
    ((_, histograms),) = fed(answer(10, n=5)).by_length.rows(INPUT)
    assert (histograms[TTFT].count, histograms[TPOT].count) == (1, 0)


def test_memory_is_bounded() -> None:
    held = ByLength()
    for tokens in range(0, 400_000, 997):
        held.add(answer(tokens, n=2, cached=tokens // 2), 1.0, 2.0)
    assert len(list(held.rows(INPUT))) <= 13
    assert len(list(held.rows(CACHED))) <= 5


def test_workers_and_documents_add_up() -> None:
    answers = [answer(30 * i, n=20 + i, cached=i, first=100.0 + i) for i in range(1, 40)]
    whole, master, again = fed(*answers), RunStats(OFFSET), ByLength()
    worker = RunStats(OFFSET, lag_s=None)
    for i, each in enumerate(answers):
        worker.started(each.name, each.started_ns)
        worker.add(each)
        if i % 7 == 0:
            master.merge_delta(worker.take_delta())
    master.merge_delta(worker.take_delta())
    again.merge_dict(whole.by_length.to_dict())
    assert master.by_length.to_dict() == whole.by_length.to_dict()
    assert again.to_dict() == whole.by_length.to_dict()
    master.reset(T0)
    assert master.by_length.to_dict() == []
