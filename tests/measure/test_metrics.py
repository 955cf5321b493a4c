"""The definitions, by hand: each table holds the events of one request and what every metric of it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from locust_llm.measure import metrics
from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit
from tests.measure.build import MS, T0, ns, record, usage

TWENTY = tuple(range(300, 700, 20))

TABLE: list[Any] = [
    pytest.param(
        record((214, 234), n=2),
        {"ttft": 214, "ttst": 20, "itl": [20], "tpot": 20, "e2e": 234, "tps": 2 / 0.234},
        id="D03-two-tokens",
    ),
    pytest.param(
        record((300, 320, 340, 360, 380, 400, 420), n=7, first_visible_ns=ns(400)),
        {"ttft": 300, "ttfc": 400, "itl": [20] * 6, "tpot": 20},
        id="D04-reasoning-first",
    ),
    pytest.param(
        record((300, 320), n=2),
        {"ttft": 300, "ttfc": None},
        id="D04-reasoning-only",
    ),
    pytest.param(
        record((100, 140, 180), n=12),
        {"itl": [40, 40], "tpot": 80 / 11, "itl_token": None},
        id="D05-many-tokens-an-event",
    ),
    pytest.param(
        record((100, 140, 180), n=12, tokens=(4, 4, 4)),
        {"itl": [40, 40], "tpot": 10, "itl_token": ([10, 10], [4, 4])},
        id="D05-tokens-told",
    ),
    pytest.param(
        record(tuple(range(500, 590, 10)), n=16),
        {"tpot": 80 / 15, "itl": [10] * 8},
        id="D25-first-event-holds-eight",
    ),
    pytest.param(
        record(tuple(range(500, 590, 10)), n=16, tokens=(8, *[1] * 8)),
        {"tpot": 10, "itl_token": ([10] * 8, [1] * 8)},
        id="D25-tokens-told",
    ),
    pytest.param(
        record((300, 320, 340), n=3, done_ns=ns(343), ended=344),
        {"ttft": 300, "itl": [20, 20], "tpot": 20, "e2e": 340, "residence": 344},
        id="D26-bookkeeping-events-are-outside",
    ),
    pytest.param(
        record((100, 105, 120, 125, 145), n=5, choices=(0, 1, 0, 1, 1)),
        {"ttft": 100, "itl": [20, 20, 20], "tpot": 20, "e2e": 145},
        id="D35-two-choices",
    ),
    pytest.param(
        record((100, 105, 120, 125, 145), n=5, choices=(1, 0, 1, 0, 0)),
        {"ttft": 100, "itl": [20, 20, 20], "tpot": 20},
        id="D35-the-second-speaks-first",
    ),
    pytest.param(
        record((100, 100, 130, 130), n=8, choices=(0, 1, 0, 1), tokens=(2, 3, 2, 1)),
        {"itl": [30, 30], "itl_token": ([15, 30], [2, 1]), "tpot": 60 / 3},
        id="D35-choices-in-one-event-with-tokens",
    ),
    pytest.param(
        record((1261,), n=1),
        {"ttft": 1261, "ttst": None, "itl": [], "tpot": None, "e2e": 1261},
        id="D38-one-token",
    ),
    pytest.param(
        record((900,), n=50),
        {"ttft": 900, "itl": [], "tpot": None, "e2e": 900, "tps": 50 / 0.9},
        id="D38-one-burst",
    ),
    pytest.param(
        record((900, 900), n=50),
        {"itl": [0], "tpot": None},
        id="D38-two-events-in-one-read",
    ),
    pytest.param(
        record((900, 950), n=50, choices=(0, 1)),
        {"itl": [], "tpot": None},
        id="D38-one-event-a-choice",
    ),
    pytest.param(
        record((), n=0, done_ns=ns(100), ended=101),
        {"ttft": None, "itl": [], "tpot": None, "e2e": 100, "tps": 0},
        id="D37-empty",
    ),
    pytest.param(
        record((), n=40, streamed=False, ended=900),
        {"ttft": None, "itl": [], "tpot": None, "e2e": 900, "tps": 40 / 0.9},
        id="D59-not-streamed",
    ),
    pytest.param(
        record((500, 520, 540), n=103, streamed_tokens=3, hidden_reasoning=True),
        {"ttft": 500, "tpot": 20, "tps": 103 / 0.54},
        id="hidden-reasoning",
    ),
    pytest.param(
        RequestRecord(
            name="chat",
            outcome=Outcome.SUCCESS,
            transit=Transit(sent_ns=T0),
            event_ns=record((500, 520, 540)).event_ns,
            output_tokens=103,
            token_source=TokenSource.USAGE,
        ),
        {"ttft": 500, "tpot": None, "itl": [20, 20]},
        id="summarised-thinking",
    ),
    pytest.param(
        record((1000, *(1000 + i / 4 for i in range(1, 12))), n=12),
        {"ttft": None, "ttfc": None, "itl": [], "tpot": None, "e2e": 1002.75},
        id="D24-buffered",
    ),
    pytest.param(
        record(tuple(1000 + i / 4 for i in range(8)), n=8),
        {"ttft": 1000, "itl": [0.25] * 7, "tpot": 0.25},
        id="D24-eight-events-may-be-fast",
    ),
    pytest.param(
        record(tuple(100 + i / 4 for i in range(12)), n=12),
        {"ttft": 100},
        id="D24-a-fast-answer-is-not-a-held-back-one",
    ),
    pytest.param(
        record((100.4, 100.9, 101.5, 103.0), n=4),
        {"itl": [0.5, 0.6, 1.5], "ttft": 100.4},
        id="D67-below-a-millisecond",
    ),
    pytest.param(
        record((250, 270), n=2, scheduled=-500, started=-100, sent=0),
        {
            "ttft": 250,
            "ttft_from_start": 350,
            "ttft_from_schedule": 750,
            "e2e": 270,
            "e2e_from_schedule": 770,
            "schedule_delay": 400,
            "connect": 100,
            "residence": 370,
        },
        id="clocks-that-start-earlier",
    ),
    pytest.param(
        record((800, 2000), n=2, transit=Transit(headers_ns=ns(50), reused=True), started=-1),
        {"ttft": 800, "e2e": 2000, "headers": 50, "connect": None},
        id="D11-headers-are-not-a-token",
    ),
    pytest.param(
        record((800,), n=1, transit=Transit(reused=True, stale_retries=1), started=-30),
        {"connect": 30},
        id="D78-a-stale-retry-is-connecting",
    ),
    pytest.param(
        record((100,), n=1, transit=Transit(max_lag_ns=250_000)),
        {"client_delay": 0.25},
        id="D21-own-delay",
    ),
    pytest.param(
        record((100,), n=1),
        {"client_delay": None},
        id="own-delay-not-measured",
    ),
    pytest.param(
        record(TWENTY, n=20, outcome=Outcome.FAILED, error="truncated stream"),
        {
            "ttft": None,
            "ttfc": None,
            "ttst": None,
            "itl": [],
            "itl_token": None,
            "tpot": None,
            "e2e": None,
            "tps": None,
        },
        id="D01-D02-failed",
    ),
    pytest.param(
        record(TWENTY, n=20, outcome=Outcome.CANCELLED),
        {"ttft": None, "itl": [], "tpot": None, "e2e": None, "residence": 680},
        id="D15-cancelled",
    ),
]

METRICS = {
    "ttft": metrics.ttft_ms,
    "ttfc": metrics.ttfc_ms,
    "ttst": metrics.ttst_ms,
    "tpot": metrics.tpot_ms,
    "e2e": metrics.e2e_ms,
    "tps": metrics.tps,
    "ttft_from_start": metrics.ttft_from_start_ms,
    "ttft_from_schedule": metrics.ttft_from_schedule_ms,
    "e2e_from_schedule": metrics.e2e_from_schedule_ms,
    "schedule_delay": metrics.schedule_delay_ms,
    "connect": metrics.connect_ms,
    "headers": metrics.headers_ms,
    "residence": metrics.residence_ms,
    "client_delay": metrics.client_delay_ms,
}


@pytest.mark.parametrize(("request_record", "expected"), TABLE)
def test_metrics(request_record: RequestRecord, expected: dict[str, Any]) -> None:
    for key, value in expected.items():
        if key == "itl":
            assert metrics.itl_ms(request_record).tolist() == pytest.approx(value), key
        elif key == "itl_token":
            found = metrics.itl_per_token_ms(request_record)
            assert (found is None) == (value is None), key
            if found is not None:
                assert found[0].tolist() == pytest.approx(value[0])
                assert found[1].tolist() == value[1]
        else:
            found = METRICS[key](request_record)
            assert found == (pytest.approx(value) if value is not None else None), key


def test_two_requests_d29() -> None:
    """D29: 72 tokens in 0.692 s and 2107 in 1.727 s: the tokens' own speed is not the mean of the speeds."""
    a, b = record((0.1, 692), n=72), record((0.1, 1727), n=2107)
    speeds = [metrics.tps(a), metrics.tps(b)]
    assert speeds == pytest.approx([72 / 0.692, 2107 / 1.727])
    assert sum(speed or 0 for speed in speeds) / 2 == pytest.approx(662.0, abs=0.1)


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        pytest.param((1,) * 19 + (0,), True, id="95-percent"),
        pytest.param((1,) * 18 + (0, 0), False, id="90-percent"),
    ],
)
def test_itl_per_token_needs_nearly_all_token_counts(tokens: tuple[int, ...], told: bool) -> None:
    found = metrics.itl_per_token_ms(record(tuple(range(0, 400, 20)), n=20, tokens=tokens))
    assert (found is not None) == told
    if found is not None:
        assert np.all(found[1] > 0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param((), 0, id="none"),
        pytest.param((5,), 0, id="one"),
        pytest.param((5, 5, 5, 9, 9), 3, id="two-reads"),
    ],
)
def test_coalesced_events(events: tuple[float, ...], expected: int) -> None:
    assert metrics.coalesced_events(record(events)) == expected


def test_the_last_token_ends_e2e_and_the_stream_ends_residence() -> None:
    """0 <= TTFT <= E2E <= stream end - sent."""
    found = record((100, 120), n=2, started=-7, ended=4320, usage=usage(2))
    ttft, e2e, residence = metrics.ttft_ms(found), metrics.e2e_ms(found), metrics.residence_ms(found)
    assert ttft is not None
    assert e2e is not None
    assert 0 <= ttft <= e2e <= residence - 7
    assert found.ended_ns - found.started_ns == 4327 * MS
