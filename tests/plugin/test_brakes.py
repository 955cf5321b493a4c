"""Brakes: a test stops by itself, in one process and with workers, says why, and keeps its figures."""

from __future__ import annotations

import json
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from locust.exception import StopUser

from locust_llm.measure.record import Outcome, RequestRecord, Usage
from locust_llm.plugin.brakes import LAST, REPORT_KEY, Brakes
from tests.measure.build import record
from tests.plugin.endings import get_json, running_engine, settled_counts
from tests.plugin.gated import ENGINE, FAILING, GATED, SIM, USERS, gates, processes, run
from tests.side_by_side import side_by_side

# -- by themselves -------------------------------------------------------------------------------------------------


class Stopped(Brakes):
    """Brakes that count how often they would stop the test."""

    stops = 0

    def _stop(self) -> None:
        self.stops += 1


def brakes(
    *, requests: int = 0, tokens: int = 0, errors: float | None = None, worker: bool = False, run: str = "r1"
) -> Stopped:
    settings = SimpleNamespace(max_requests=requests, max_total_tokens=tokens, stop_on_errors=errors)
    sent: list[tuple[str, dict[str, Any]]] = []
    runner = SimpleNamespace(send_message=lambda kind, data: sent.append((kind, data)), sent=sent)
    session = SimpleNamespace(
        environment=SimpleNamespace(runner=runner),
        settings=settings,
        listener=SimpleNamespace(running=set()),
        is_worker=worker,
        is_master=False,
        run=run,
    )
    return Stopped(session)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greenlets run where they are spawned."""
    monkeypatch.setattr("locust_llm.plugin.brakes.gevent", SimpleNamespace(spawn=lambda run: run()))


def ended(outcome: Outcome = Outcome.SUCCESS, tokens: tuple[int | None, int | None] = (None, None)) -> RequestRecord:
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
    return record([1, 2, 3], n=tokens[1], outcome=outcome, usage=usage)


def test_requests_are_admitted_up_to_the_limit_and_end_before_the_stop() -> None:
    tried = brakes(requests=3)
    for _ in range(3):
        tried.admit()
    tried._on_ended(ended(), 1)
    with pytest.raises(StopUser):
        tried.admit()
    assert tried.reason == "Stopped: 3 requests were sent (--llm-max-requests)."
    assert tried.stops == 0
    tried._on_ended(ended(Outcome.CANCELLED), 1)
    assert tried.stops == 0
    tried._on_ended(ended(), 1)
    tried._on_ended(ended(), 1)
    assert tried.stops == 1


def test_without_limits_nothing_stops() -> None:
    tried = brakes()
    for _ in range(200):
        tried.admit()
        tried._on_ended(ended(Outcome.FAILED, (1000, 1000)), 1)
    assert (tried.reason, tried.stops) == (None, 0)


def test_tokens_are_those_told_and_the_events_of_the_others() -> None:
    tried = brakes(tokens=100)
    tried._on_ended(ended(tokens=(50, 20)), 1)  # 70
    tried._on_ended(ended(Outcome.CANCELLED), 1)  # three events: 73
    tried.session.listener.running = [SimpleNamespace(event_ns=[0] * 26)]  # type: ignore[arg-type]
    tried._check_tokens()
    assert tried.reason is None
    tried.session.listener.running = [SimpleNamespace(event_ns=[0] * 27)]  # type: ignore[arg-type]
    tried._check_tokens()
    assert tried.reason == "Stopped: 100 tokens were used (--llm-max-total-tokens 100)."
    with pytest.raises(StopUser):
        tried.admit()
    assert tried.stops == 1


FAILED, SUCCESS, CANCELLED = Outcome.FAILED, Outcome.SUCCESS, Outcome.CANCELLED
ERRORS = [
    # (id, share, outcomes, whether it stops)
    ("ten at once", 0.2, [FAILED] * 10, True),
    ("nine", 0.2, [FAILED] * 9 + [SUCCESS] * 100, False),
    ("ten among fifty", 0.2, ([FAILED] + [SUCCESS] * 4) * 10, True),
    ("ten among sixty", 0.2, ([FAILED] + [SUCCESS] * 5) * 20, False),
    ("cancelled ones are no outcomes", 0.2, ([FAILED] + [CANCELLED] * 9) * 10, True),
    ("cancelled ones are no failures", 0.2, [CANCELLED] * 100, False),
    ("one per cent is one of fifty", 0.01, [FAILED], True),
    ("all", 1.0, [FAILED] * 49 + [SUCCESS] + [FAILED] * 49, False),
    ("every one", 1.0, [FAILED] * 50, True),
]


@pytest.mark.parametrize(
    ("share", "outcomes", "stops"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS]
)
def test_errors_are_counted_over_the_last_outcomes(share: float, outcomes: list[Outcome], stops: bool) -> None:
    tried = brakes(errors=share)
    for outcome in outcomes:
        tried._on_ended(ended(outcome), 1)
    assert (tried.failing, tried.stops) == (stops, int(stops))


def test_a_new_test_begins_anew() -> None:
    tried = brakes(requests=1)
    tried.admit()
    tried._on_ended(ended(), 1)
    tried.begin()
    assert tried.reason is None
    tried.admit()
    tried._on_ended(ended(), 1)
    assert tried.stops == 2


def report(worker: Brakes) -> dict[str, Any]:
    data: dict[str, Any] = {}
    worker._on_report_to_master("w", data)
    told: dict[str, Any] = json.loads(json.dumps(data))
    return told


def test_the_master_adds_up_what_its_workers_tell() -> None:
    master = brakes(requests=10, tokens=1000, errors=0.5)
    workers = [brakes(requests=10, tokens=1000, errors=0.5, worker=True) for _ in range(2)]
    for worker in workers:
        for _ in range(4):
            worker.admit()
            worker._on_ended(ended(tokens=(50, 50)), 1)
    for name, worker in zip("ab", workers, strict=True):
        master._on_worker_report(name, report(worker))
    master._on_worker_report("a", report(workers[0]))  # told again, counted once
    assert (master.reason, master.stops) == (None, 0)
    workers[0].admit()
    workers[1].admit()
    for name, worker in zip("ab", workers, strict=True):
        master._on_worker_report(name, report(worker))
    assert master.reason == "Stopped: 10 requests were sent (--llm-max-requests 10)."
    assert master.stops == 1


def test_the_master_sees_the_errors_and_tokens_of_all() -> None:
    for told, reason in (
        ([3, 600, []], "1200 tokens were used (--llm-max-total-tokens 1000)"),
        ([3, 9, [True] * 13], "26 of the last 26 requests failed (--llm-stop-on-errors 50%)"),
    ):
        master = brakes(tokens=1000, errors=0.5)
        for worker in "ab":
            assert master.reason is None
            master._on_worker_report(worker, {REPORT_KEY: {"run": "r1", "told": told}})
        assert master.reason == f"Stopped: {reason}."


def test_a_report_of_another_run_counts_nothing() -> None:
    master = brakes(requests=1)
    master._on_worker_report("a", {REPORT_KEY: {"run": "r0", "told": [5, 5, []]}})
    master._on_worker_report("a", {})
    assert master.reason is None


def test_a_worker_that_pulls_a_brake_tells_the_master_at_once() -> None:
    worker, master = brakes(errors=0.1, worker=True), brakes(errors=0.1)
    for _ in range(5):
        worker._on_ended(ended(FAILED), 1)
    assert worker.stops == 0
    ((kind, message),) = worker.environment.runner.sent
    assert kind == "llm_brake"
    master._on_brake(SimpleNamespace(data={**message, "run": "r0"}))
    assert master.reason is None
    master._on_brake(SimpleNamespace(data=message))
    assert (master.reason, master.failing, master.stops) == (worker.reason, True, 1)


def test_what_a_worker_has_not_told_is_bounded() -> None:
    worker = brakes(worker=True)
    for _ in range(500):
        worker._on_ended(ended(FAILED), 1)
    assert report(worker)[REPORT_KEY]["told"][2] == [True] * LAST
    assert worker._untold == deque(maxlen=LAST)


# -- end to end ----------------------------------------------------------------------------------------------------

ON_ERRORS = ["--llm-stop-on-errors", "12%"]
LIMITS = [
    ("requests", GATED, ["--llm-max-requests", "25"], 0, "Stopped: 25 requests were sent (--llm-max-requests)."),
    ("tokens", GATED, ["--llm-max-total-tokens", "200"], 0, "tokens were used (--llm-max-total-tokens 200)."),
    ("errors", FAILING, ON_ERRORS, 1, "(--llm-stop-on-errors 12%)."),
    ("errors, the gate met so far", FAILING, [*ON_ERRORS, *gates("ttft:p50<60s")], 3, "errors 12%)."),
    ("errors, the gate breached", FAILING, [*ON_ERRORS, *gates("errors<1%")], 1, "Breached: errors<1%."),
    ("requests, judged", GATED, ["--llm-max-requests", "25", *gates("errors<1%")], 0, "The gate is met."),
]  # fmt: skip


@side_by_side
@pytest.mark.parametrize(
    ("locustfile", "args", "code", "said"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_a_run_stops_by_itself_and_keeps_its_figures(
    folder: Path, locustfile: str, args: list[str], code: int, said: str
) -> None:
    result = run(folder, locustfile, *SIM, *USERS, "--run-time", "100s", "--llm-json", "run.json", *args)
    assert said in result.output.replace("\n            ", " ")
    assert result.exit_code == code, result.output
    content = json.loads((folder / "run.json").read_text())
    assert "stopped" in {finding["key"] for finding in content["findings"]}
    (total,) = (each for each in content["names"] if each["name"] is None)
    counts = total["counts"]
    assert counts["started"] == counts["succeeded"] + counts.get("failed", 0) + counts.get("cancelled", 0)
    if "--llm-max-requests" in args:
        assert counts["started"] == counts["succeeded"] == 25
    elif "--llm-max-total-tokens" in args:
        assert counts["output_tokens"] + counts["input_tokens"] >= 200
    else:
        assert counts["failed"] >= 6


@side_by_side
def test_not_one_request_too_many_is_sent_even_when_nothing_waits_for_the_last(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder, *ENGINE.split()))
    args = ["--host", engine.url, "--llm-no-preflight", "--llm-max-tokens", "6", "--stop-timeout", "0"]
    many = ["--headless", "--users", "20", "--spawn-rate", "100", "--llm-model", "sim", "--llm-max-requests", "70"]
    result = run(folder, GATED.replace("constant(0.05)", "constant(0)"), *args, *many)
    assert result.exit_code == 0, result.output
    counts = settled_counts(engine.url)
    assert (counts["received"], counts["finished"]) == (70, 70)


SHAPED = (
    GATED
    + """
from locust import LoadTestShape

class Flat(LoadTestShape):
    def tick(self):
        return (2, 50)
"""
)


@side_by_side
def test_a_shape_is_stopped_too(folder: Path) -> None:
    result = run(folder, SHAPED, *SIM, "--headless", "--llm-max-requests", "20", *gates("errors<1%"))
    assert "20 succeeded" in result.output
    assert result.exit_code == 0, result.output


@side_by_side
@pytest.mark.parametrize(
    ("locustfile", "args", "code"),
    [
        pytest.param(GATED, ["--llm-max-requests", "60"], 0, id="requests"),
        pytest.param(FAILING, ["--llm-stop-on-errors", "10%"], 1, id="errors"),
        pytest.param(GATED, ["--llm-max-total-tokens", "400"], 0, id="tokens", marks=pytest.mark.long),
    ],
)
def test_workers(folder: Path, stack: ExitStack, locustfile: str, args: list[str], code: int) -> None:
    engine = stack.enter_context(running_engine(folder, *ENGINE.split()))
    load = ["--host", engine.url, "--llm-max-tokens", "6", "--stop-timeout", "20", *USERS, "--llm-json", "run.json"]
    result = run(folder, locustfile, *load, *processes(), "--run-time", "100s", *args)
    assert result.exit_code == code, result.output
    assert "Stopped: " in result.output
    content = json.loads((folder / "run.json").read_text())
    (total,) = (each for each in content["names"] if each["name"] is None)
    counts = total["counts"]
    assert not content["run"]["incomplete"]
    assert counts["started"] == counts["succeeded"] + counts.get("failed", 0) + counts.get("cancelled", 0)
    assert get_json(f"{engine.url}/sim/counts")["received"] == counts["started"] + 1  # and the preflight
    if "--llm-max-requests" in args:
        assert counts["started"] >= 60
