"""Smoothness: the largest gap, stalls, and whether a reader waits; of hand-made answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from locust_llm.measure.catalogue import MAX_GAP
from locust_llm.measure.expression import ExpressionError, parse_time
from locust_llm.measure.figures import FIGURES
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.smoothness import max_gap_ms, reader_waits
from locust_llm.measure.stats import RunStats
from tests.measure.build import OFFSET, fed, record

OF = {figure.key: figure.of for figure in FIGURES}

EVEN = tuple(range(100, 1100, 50))  # 20 tokens, exactly at the reader's pace
QUICK = tuple(range(100, 500, 20))
PAUSED_EARLY = (100, 120, 140, 500, 520)
PAUSED_LATE = (*range(100, 1100, 10), 1400)  # a gap of 310 ms, but 100 tokens are there to read

# id, record, largest gap in ms, whether the reader waits
ANSWERS = [
    ("quick", record(QUICK, n=20), 20.0, False),
    ("just in time", record(EVEN, n=20), 50.0, False),
    ("a little late", record((*EVEN[:-1], EVEN[-1] + 1), n=20), 51.0, True),
    ("paused before there was anything to read", record(PAUSED_EARLY, n=5), 360.0, True),
    ("paused with a page in hand", record(PAUSED_LATE, n=101), 310.0, False),
    ("slow all along", record((100, 200, 300), n=3), 100.0, True),
    ("two tokens an event", record((100, 200, 300), n=6), 100.0, False),
    ("told event by event", record((100, 300, 360), n=7, tokens=[5, 1, 1]), 200.0, False),
    ("told, and it came late", record((100, 300, 360), n=7, tokens=[3, 3, 1]), 200.0, True),
    ("more events than tokens", record((100, 140, 180, 220), n=2), 40.0, True),
    ("tokens unknown", record((100, 140, 180)), 40.0, False),
    ("one event", record((100,), n=1), None, None),
    ("two choices", record((100, 101, 300, 301), n=4, choices=[0, 1, 0, 1]), 200.0, None),
    ("failed", record(PAUSED_EARLY, n=5, outcome=Outcome.FAILED), None, None),
    ("not streamed", record((100, 900), n=5, streamed=False), None, None),
]


@pytest.mark.parametrize(("answer", "gap", "waits"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_an_answers_smoothness(answer: RequestRecord, gap: float | None, waits: bool | None) -> None:
    assert max_gap_ms(answer) == (pytest.approx(gap) if gap is not None else None)
    assert reader_waits(answer) is waits
    stats = fed(answer)
    assert stats.histogram(MAX_GAP).max == (pytest.approx(gap) if gap is not None else None)
    assert OF["smooth_share"](stats, None) == (None if waits is None else float(not waits))


def test_stalls_are_counted_per_thousand_tokens() -> None:
    stats = fed(record(PAUSED_EARLY, n=5), record(PAUSED_LATE, n=101), record(QUICK, n=20))
    assert OF["stalls_per_1000"](stats, None) == pytest.approx(1000 * 2 / 126)
    assert OF["smooth_share"](stats, None) == pytest.approx(2 / 3)


# id, limit in ms, stalls
LIMITS = [("shorter", 19.0, 19), ("exactly", 20.0, 0), ("longer", 1000.0, 0)]


@pytest.mark.parametrize(("limit_ms", "stalls"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_the_limit_is_the_options(limit_ms: float, stalls: int) -> None:
    stats = RunStats(OFFSET, stall_ms=limit_ms)
    stats.started("chat", 0)
    stats.add(record(QUICK, n=20))
    assert stats.counts().stalls == stalls


def test_workers_add_up() -> None:
    answers = [record(PAUSED_EARLY, n=5), record(PAUSED_LATE, n=101), record(QUICK, n=20, name="other")]
    whole, master = fed(*answers), RunStats(OFFSET)
    for answer in answers:
        master.merge_delta(fed(answer, lag_s=None).take_delta())
    for key in ("stalls_per_1000", "smooth_share"):
        for name in (None, "chat", "other"):
            assert OF[key](master, name) == OF[key](whole, name)
    assert master.histogram(MAX_GAP).to_dict() == whole.histogram(MAX_GAP).to_dict()


TIMES: Sequence[tuple[str, float]] = [("250ms", 250.0), ("0.5s", 500.0), ("900us", 0.9), (" 1 s", 1000.0)]


@pytest.mark.parametrize(("text", "ms"), TIMES)
def test_a_time_is_read(text: str, ms: float) -> None:
    assert parse_time(text) == pytest.approx(ms)


@pytest.mark.parametrize("text", ["250", "ms", "-1ms", "0s", "nan ms", "20%", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_time(text)
