"""Open load: what became of the arrivals, in every output, and when it is called overloaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from locust_llm.analysis.overload import OpenTotals, overloaded
from locust_llm.measure.stats import RunStats
from locust_llm.report.columns import live
from locust_llm.report.console import summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.open_load import panel
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, WALL_0, ns, record
from tests.report import runs

SERVED = OpenTotals(scheduled=12, sent=12, dropped=0, waiting=0, rate_rps=2.0)


def open_run(totals: OpenTotals | None = SERVED, **more: Any) -> RunView:
    """Twelve requests at two a second, each sent 30 ms after its schedule, its first token 100 ms later."""
    records = [
        record([500 * i + 130, 500 * i + 160], n=2, scheduled=500 * i, started=500 * i + 30, sent=500 * i + 30)
        for i in range(12)
    ]
    return runs.view_of(records, stop_ms=6000, open_load=totals, **more)


def test_closed_loop_says_nothing() -> None:
    view = open_run(None)
    assert (panel(view), live(view)["open_load"], document(view)["open_load"]) == (None, None, None)
    assert "open load" not in summary_text(view)


def test_all_outputs_tell_the_same() -> None:
    view = open_run()
    facts = {
        "Scheduled": "12 at 2 requests/s",
        "Sent": "12",
        "Dropped": "0",
        "Waiting for a free user": "0",
        "Schedule delay": "p50 30, p99 30 ms, n 12",
        "TTFT from schedule": "p50 130, p95 130, p99 130 ms, n 12",
        "E2E from schedule": "p50 160, p95 160, p99 160 ms, n 12",
    }
    told = live(view)["open_load"]
    assert (dict(told["facts"]), told["overloaded"]) == (facts, None)
    text = " ".join(summary_text(view).split())
    assert "open load Scheduled 12 at 2 requests/s · Sent 12 · Dropped 0" in text
    assert "Overloaded" not in text
    again = view_of(json.loads(json.dumps(document(view))))
    assert again.open_load == view.open_load
    assert live(again)["open_load"] == told


LOST = OpenTotals(scheduled=100, sent=90, dropped=6, waiting=4, rate_rps=2.0)
SENTENCE = "Overloaded: of 100 arrivals offered, 6 were dropped and 4 waited in vain for a free user."


def test_overload_is_told_everywhere() -> None:
    view = open_run(LOST)
    assert live(view)["open_load"]["overloaded"] == SENTENCE
    assert document(view)["open_load"]["overloaded"] == SENTENCE
    assert SENTENCE in " ".join(summary_text(view).split())


UNSERVED = [
    ("all served", (400, 400, 0, 0), False),
    ("four are too few to tell", (40, 36, 4, 0), False),
    ("five of forty", (40, 35, 0, 5), True),
    ("one in a hundred", (1000, 990, 5, 5), False),
    ("more than one in a hundred", (1000, 989, 5, 6), True),
]


@pytest.mark.parametrize(("totals", "over"), [u[1:] for u in UNSERVED], ids=[u[0] for u in UNSERVED])
def test_what_was_not_sent(totals: tuple[int, int, int, int], over: bool) -> None:
    assert (overloaded(RunStats(0), OpenTotals(*totals)) is not None) == over
    assert overloaded(RunStats(0), OpenTotals(*totals, stepped=True)) is None  # steps overload on purpose


def queue(starts_s: Sequence[float], service_s: float) -> RunStats:
    """One server of `service_s` a request, fed at `starts_s`: what is in flight is its queue."""
    stats, free, ends = RunStats(OFFSET, min_tokens=1, lag_s=0), 0.0, []
    for start in starts_s:
        free = max(free, start) + service_s
        ends.append((free, start))
    for start in starts_s:
        stats.started("chat", ns(1000 * start))
    waiting = sorted(ends, reverse=True)
    stats.all_running_s = float(WALL_0)
    for second in range(int(starts_s[-1]) + 1):
        while waiting and waiting[-1][0] <= second:
            ended, start = waiting.pop()
            stats.add(record([1000 * ended], n=1, started=1000 * start, sent=1000 * start, ended=1000 * ended))
        stats.tick(ns(1000 * second), [], 9)
    return stats


@pytest.mark.parametrize(("service_s", "over"), [(0.05, False), (0.14, True)])
def test_requests_that_pile_up_are_seen_while_the_test_runs(service_s: float, over: bool) -> None:
    """Ten a second for a minute, served in 50 ms each (room for all) and in 140 ms each (three a second pile up)."""
    stats = queue([0.1 * i for i in range(600)], service_s)
    told = overloaded(stats, OpenTotals(600, 600, 0, 0, rate_rps=10.0))
    assert (told is not None and "piled up" in told) == over
    assert overloaded(stats, OpenTotals(600, 600, 0, 0)) is None  # no rate that held throughout
