"""What Locust's `request` listeners hear of one request."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest
from locust.env import Environment
from locust.exception import StopUser

from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit, Usage
from locust_llm.plugin import events, rows

MS = 1_000_000
RECORD = RequestRecord(
    name="ask",
    outcome=Outcome.SUCCESS,
    url="http://h/v1/chat/completions",
    started_wall_s=1_700_000_000.25,
    transit=Transit(sent_ns=1_000 * MS, end_ns=1_140 * MS),
    event_ns=array("q", [1_100 * MS, 1_120 * MS, 1_120 * MS, 1_135 * MS]),
    done_ns=1_136 * MS,
    ended_ns=1_140 * MS,
    usage=Usage(9, 4),
    output_tokens=4,
    streamed_tokens=4,
    token_source=TokenSource.USAGE,
)
FAILED = replace(RECORD, outcome=Outcome.FAILED, error="HTTP 429 rate_limit_exceeded")


class Heard:
    """An Environment with a runner, rows kept apart, and a listener that keeps what it hears."""

    def __init__(self, *, listening: bool = True) -> None:
        self.environment = Environment()
        self.environment.create_local_runner()
        rows.keep_metrics_apart(self.environment.stats)
        self.said: list[dict[str, Any]] = []
        if listening:
            self.environment.events.request.add_listener(lambda **said: self.said.append(said))

    def fire(self, record: RequestRecord, **more: Any) -> None:
        events.fire(self.environment, record, **{"context": {}, **more})

    def kinds(self) -> list[tuple[str, Any]]:
        return [(said["request_type"], said["response_time"]) for said in self.said]

    def counts(self) -> dict[str, tuple[int, int]]:
        entries = self.environment.stats.entries
        return {kind: (entry.num_requests, entry.num_failures) for (_, kind), entry in entries.items()}


def test_one_event_for_each_figure_and_each_interval() -> None:
    heard = Heard()
    heard.fire(RECORD)
    tpot = pytest.approx(35 / 3)
    assert heard.kinds() == [("TTFT", 100), ("ITL", 20), ("ITL", 0), ("ITL", 15), ("TPOT", tpot), ("E2E", 135)]


def test_an_event_has_what_listeners_for_httpuser_expect() -> None:
    heard = Heard()
    heard.fire(RECORD, context={"user": "u7"})
    for said in heard.said:
        assert said["name"] == "ask"
        assert said["response"] is RECORD
        assert said["url"] == "http://h/v1/chat/completions"
        assert said["start_time"] == 1_700_000_000.25
        assert said["context"] == {"user": "u7"}
        assert said["exception"] is None
    assert [said["response_length"] for said in heard.said] == [0, 0, 0, 0, 0, 4]


def test_rows_are_the_same_whether_somebody_listens_or_not() -> None:
    loud, quiet = Heard(), Heard(listening=False)
    for heard in (loud, quiet):
        heard.fire(RECORD)
        heard.fire(FAILED)
    assert loud.counts() == quiet.counts() == {"TTFT": (1, 0), "ITL": (3, 0), "TPOT": (1, 0), "E2E": (2, 1)}
    itl = [heard.environment.stats.entries["ask", "ITL"] for heard in (loud, quiet)]
    assert dict(itl[0].response_times) == dict(itl[1].response_times) == {20: 1, 0: 1, 15: 1}


def test_d09_a_failed_request_gives_no_time_and_no_metric() -> None:
    heard = Heard()
    for _ in range(60):
        heard.fire(FAILED)
    for _ in range(40):
        heard.fire(RECORD)
    assert {(said["request_type"], said["response_time"]) for said in heard.said if said["exception"]} == {
        ("E2E", None)
    }
    entry = heard.environment.stats.entries["ask", "E2E"]
    assert (entry.num_requests, entry.num_failures, entry.avg_response_time) == (100, 60, 135)
    assert heard.environment.stats.entries["ask", "TTFT"].num_requests == 40


def test_the_exception_of_a_failure_is_its_label() -> None:
    heard = Heard()
    heard.fire(FAILED)
    (said,) = heard.said
    assert isinstance(said["exception"], events.LLMError)
    assert (str(said["exception"]), repr(said["exception"])) == (FAILED.error, FAILED.error)
    assert said["exception"].record is FAILED
    heard.fire(FAILED, exception=ValueError("mine"))
    assert repr(heard.said[1]["exception"]) == "ValueError('mine')"
    assert len(heard.environment.stats.errors) == 2


def test_a_cancelled_request_says_nothing() -> None:
    heard = Heard()
    heard.fire(replace(RECORD, outcome=Outcome.CANCELLED))
    assert (heard.said, heard.counts()) == ([], {})


ODD = [
    ("no output event", replace(RECORD, event_ns=array("q"), output_tokens=0, streamed_tokens=0), [("E2E", 136)]),
    ("one event", replace(RECORD, event_ns=array("q", [1_261 * MS]), output_tokens=1, streamed_tokens=1),
     [("TTFT", 261), ("E2E", 261)]),
    ("tokens unknown", replace(RECORD, event_ns=array("q", [1_261 * MS]), output_tokens=None, streamed_tokens=None),
     [("TTFT", 261), ("E2E", 261)]),
    ("never sent", replace(RECORD, transit=Transit(), event_ns=array("q")), [("E2E", None)]),
    ("not streamed", replace(RECORD, streamed=False, event_ns=array("q")), None),
]  # fmt: skip


@pytest.mark.parametrize(("record", "wanted"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_d38_d69_nothing_but_finite_numbers(record: RequestRecord, wanted: list[Any] | None) -> None:
    """Locust would raise amid its bookkeeping: Aggregated + 1, row + 0."""
    heard = Heard()
    heard.fire(record)
    assert wanted is None or heard.kinds() == wanted
    assert all(time is None or 0 <= time < 1e9 for _, time in heard.kinds())
    assert heard.environment.stats.total.num_requests == 1


def test_every_output_of_the_embedded_engine_says_so() -> None:
    heard = Heard()
    heard.fire(RECORD, simulated=True)
    heard.fire(FAILED, simulated=True)
    assert {said["name"] for said in heard.said} == {"ask (SIMULATED)"}


def test_a_listener_that_steers_the_user_leaves_no_row_behind() -> None:
    heard = Heard()

    def stop(request_type: str, **_: Any) -> None:
        if request_type == "TTFT":
            raise StopUser

    heard.environment.events.request.add_listener(stop)
    with pytest.raises(StopUser):
        heard.fire(RECORD)
    assert heard.counts() == {"TTFT": (1, 0), "ITL": (3, 0), "TPOT": (1, 0), "E2E": (1, 0)}
