"""What a client can know of a path."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from locust_llm.analysis.calibration_path import Path, path_of
from locust_llm.measure.record import Clock, Outcome, RequestRecord, Transit
from locust_llm.report.calibration_path import path_dict, path_text

MS = 1_000_000


def record(
    *arrivals_ms: float, reused: bool = True, clock: Clock = Clock.KERNEL, late_ms: int = 1, **told: Any
) -> RequestRecord:
    transit = Transit(sent_ns=MS, reused=reused, clock=clock, tcp_ns=None if reused else 2 * MS)
    transit.max_lag_ns = late_ms * MS if clock is Clock.KERNEL else None
    events = array("q", [int((1 + at) * MS) for at in arrivals_ms])
    return RequestRecord(**({"name": "x", "outcome": Outcome.SUCCESS, "transit": transit, "event_ns": events} | told))


FIRST = record(30, 50, 70, reused=False)
SECOND = record(20, 40, 60)
REFUSED = record(outcome=Outcome.FAILED, error="HTTP 429")


def path(*records: RequestRecord, **told: Any) -> Path:
    transits = [Transit(tcp_ns=ns, tls_ns=told.get("tls"), dns_ns=1000) for ns in (2 * MS, 3 * MS, 4 * MS)]
    return path_of("http://h/v1", "m", proxy=told.get("proxy", False), connections=transits, records=records)


def test_a_good_path() -> None:
    found = path(FIRST, SECOND, SECOND)
    assert (found.rtt_ms, found.tcp_ms, found.tls_ms, found.dns_ms) == (2.0, 3.0, None, 0.001)
    assert (found.reused, found.reusable) == (2, 2)
    assert (found.first_ms, found.apart_ms, found.coalesced, found.events) == (20.0, 20.0, 0, 6)
    assert found.conclusions == ["TTFT and E2E hold one round trip, about 2.00 ms, that the server has no part in."]


CONCLUSIONS = [
    pytest.param((FIRST, record(20, 40, reused=False)), {}, "Only 0 of 1 requests found", id="not-kept"),
    pytest.param((FIRST, record(20, 20, 20)), {}, "came in one burst", id="burst"),
    pytest.param((FIRST, record(20, 20, 40)), {}, "25.0 % of the events came together", id="coalesced"),
    pytest.param((FIRST, record(20, 20, 40)), {}, "the server or the path groups them", id="their-fault"),
    pytest.param((FIRST, record(20, 20, 40, late_ms=30)), {}, "client read up to 30 ms late", id="our-fault"),
    pytest.param((FIRST, record(20, streamed=False)), {}, "came in one body", id="whole"),
    pytest.param((FIRST, record(20, 40, clock=Clock.READ)), {}, "does not stamp", id="read-clock"),
    pytest.param((FIRST, REFUSED), {}, "1 of 2 requests failed: HTTP 429", id="429"),
    pytest.param((FIRST, SECOND), {"proxy": True}, "to the proxy", id="proxy"),
]


@pytest.mark.parametrize(("records", "told", "words"), CONCLUSIONS)
def test_what_follows_for_a_load_test(records: tuple[RequestRecord, ...], told: dict[str, Any], words: str) -> None:
    found = path(*records, **told)
    assert words in " ".join(found.conclusions)
    assert words in path_text(found)


def test_nothing_that_was_not_seen_is_told() -> None:
    found = path(record(outcome=Outcome.FAILED, error="stall", reused=False))
    assert (found.first_ms, found.apart_ms, found.coalesced_share) == (None, None, None)
    assert path_dict(found)["first_ms"] is None
    assert "None" not in path_text(found)
