"""Outcomes: rows of records, labels, and packing for the way from worker to master."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from locust_llm.analysis.outcomes import Fate, Outcomes, ended
from locust_llm.measure.record import Outcome, RequestRecord
from tests.analysis.build import done, failed
from tests.measure.build import OFFSET, WALL_0, record


def test_a_record_becomes_a_row_on_the_wall_clock() -> None:
    answer = record([300.0, 400.0, 500.0], n=3, sent=100.0, started=50.0, ended=600.0)
    row = ended(answer, user=7, offset_ns=OFFSET, met=True)
    assert (row.user, row.fate, row.met, row.error) == (7, Fate.SUCCESS, 1, None)
    assert [row.started_s, row.first_s, row.last_s, row.ended_s] == pytest.approx(
        [WALL_0 + s for s in (0.05, 0.3, 0.5, 0.6)]
    )
    assert (row.tokens, row.decode_tokens) == (3.0, 2.0)
    assert [row.ttft_ms, row.decode_ms, row.tpot_ms, row.e2e_ms] == pytest.approx([200.0, 200.0, 100.0, 400.0])
    assert math.isnan(row.input_tokens)


# id, what the record says besides, fate
FATES: list[tuple[str, dict[str, Any], Fate]] = [
    ("429", {"outcome": Outcome.FAILED, "status": 429, "error": "HTTP 429"}, Fate.REFUSED),
    ("503", {"outcome": Outcome.FAILED, "status": 503, "error": "HTTP 503"}, Fate.REFUSED),
    ("529", {"outcome": Outcome.FAILED, "status": 529, "error": "HTTP 529"}, Fate.REFUSED),
    ("400", {"outcome": Outcome.FAILED, "status": 400, "error": "HTTP 400"}, Fate.FAILED),
    ("no status", {"outcome": Outcome.FAILED, "error": "connection refused"}, Fate.FAILED),
    (
        "cut off after 503's headers came in a stream",
        {"outcome": Outcome.FAILED, "status": 503, "events": [1.0]},
        Fate.FAILED,
    ),
    ("cancelled", {"outcome": Outcome.CANCELLED}, Fate.CANCELLED),
]


@pytest.mark.parametrize(("facts", "fate"), [case[1:] for case in FATES], ids=[case[0] for case in FATES])
def test_fates(facts: dict[str, Any], fate: Fate) -> None:
    facts = dict(facts)
    told: RequestRecord = record(facts.pop("events", []), ended=5.0, **facts)
    row = ended(told, user=0, offset_ns=0)
    assert row.fate is fate
    assert row.met == -1
    assert math.isnan(row.ttft_ms)


def test_errors_are_counted_most_frequent_first() -> None:
    table = Outcomes()
    table.extend([failed(0, 0.0, 1.0, error="a"), *[failed(0, 0.0, 1.0, Fate.REFUSED, "b")] * 2, done(0, 0.0, 1.0)])
    table.add(failed(0, 0.0, 1.0, Fate.CANCELLED, "c"))
    assert list(table.errors(table.rows).items()) == [("b", 2), ("a", 1)]
    assert len(table) == 5


def test_packing_equals_adding() -> None:
    first = [failed(1, 0.0, 1.0, error="x"), done(1, 1.0, 2.0)]
    second = [failed(2, 0.0, 1.0, error="y"), failed(2, 1.0, 2.0, error="x"), done(2, 2.0, 3.0)]
    one, master = Outcomes(), Outcomes()
    one.extend(first + second)
    for rows in (first, second):
        worker = Outcomes()
        worker.extend(rows)
        master.merge_packed(worker.pack())
        worker.clear()
        assert len(worker) == 0
    assert master.errors(master.rows) == one.errors(one.rows) == {"x": 2, "y": 1}
    for name in one.rows.dtype.names or ():
        np.testing.assert_array_equal(master.rows[name], one.rows[name])


def test_an_empty_table_packs() -> None:
    master = Outcomes()
    master.merge_packed(Outcomes().pack())
    assert len(master.rows) == 0
