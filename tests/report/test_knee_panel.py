"""The Knee panel's values, and the steps that a run document gives back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from locust_llm.analysis.knee import read_steps
from locust_llm.analysis.rate import RateVerdict
from locust_llm.analysis.step import Attainment, ServerLoad, Status, StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.report.columns import live
from locust_llm.report.document import DocumentError, document, view_of
from locust_llm.report.html import report
from locust_llm.report.knee_panel import panel
from locust_llm.report.run import RunView
from locust_llm.report.step_tables import table_text
from tests.report import runs
from tests.report.stepped import rate_view, sweep, user_step

FINITE = {"allow_nan": False}


def run_of(*steps: StepResult, verdict: Verdict | RateVerdict | None = None, **more: Any) -> RunView:
    return runs.view_of(runs.small_run(), steps=steps, verdict=verdict, **more)


def whole() -> RunView:
    return run_of(*sweep(), verdict=read_steps(sweep(), 64, complete=True))


def told_of(view: RunView) -> dict[str, Any]:
    found = panel(view)
    assert found is not None
    return found


def test_a_run_without_steps_has_no_panel() -> None:
    assert panel(run_of()) is None
    assert live(run_of())["steps"] is None


def test_before_the_first_step_ends_the_panel_says_what_is_awaited() -> None:
    told = told_of(run_of(step_now="step of 4 users: too few outcomes", state="running"))
    assert (told["now"], told["points"], told["verdict"], told["facts"]) == (
        "step of 4 users: too few outcomes",
        [],
        None,
        [],
    )


def test_points_stand_by_rising_load_with_their_intervals() -> None:
    """A search runs its steps in another order; a step may have no interval; a probe is not on the curve."""
    probe = user_step(8, output_factor=2.0)
    points = told_of(run_of(user_step(8), user_step(2), user_step(4, users=3.9), probe))["points"]
    assert [(point["x"], point["load"]) for point in points] == [(2, 2), (3.9, 4), (8, 8)]
    assert (points[0]["low"], points[0]["high"]) == (None, None)
    assert points[2]["low"] < points[2]["throughput"] < points[2]["high"]
    assert [point["ttft_p95"] for point in points] == [80, 80, 80]


def test_marks_are_at_the_users_that_ran() -> None:
    steps = tuple(replace(step, users=0.5 * step.users) for step in sweep())
    told = told_of(run_of(*steps, verdict=read_steps(sweep(), 64, complete=True)))["marks"]
    assert (told["best"], told["bracket"]) == (8, [4, 11.5])


def test_facts_are_the_numbers_of_the_verdict() -> None:
    facts = dict(told_of(whole())["facts"])
    assert facts == {
        "Verdict": "knee",
        "Knee": "14 users, of the fitted curve",
        "Bracket": "8 to 23 users",
        "Zone (power within 5 %)": "11.1 to 17.6 users",
        "Best step, 16 users": "499 tok/s, 4.99 req/s",
        "Cause": "slots or KV capacity",
        "Users, before → past": "23 → 64",
        "Share refused": "0",
        "Requests in flight": "23 → 64, growth 1.00",
        "Streams decoding": "14 → 14, growth 0.00",
        "TPOT (ms)": "25.8 → 25, growth -0.03",
        "Throughput": "542 → 560, growth 0.03",
    }


ENDS = [
    ("no knee", [1, 2, 4], "no knee in range", "Bracket", "2 users and more"),
    ("no step below", [32, 64], "at or below the lowest load", "Bracket", "up to 64 users"),
]


@pytest.mark.parametrize(("loads", "kind", "fact", "text"), [e[1:] for e in ENDS], ids=[e[0] for e in ENDS])
def test_open_ends(loads: list[int], kind: str, fact: str, text: str | None) -> None:
    steps = tuple(map(user_step, loads))
    told = told_of(run_of(*steps, verdict=read_steps(steps, 64, complete=True)))
    facts = dict(told["facts"])
    assert facts["Verdict"] == kind
    assert facts.get(fact) == text
    assert told["marks"]["knee"] is None


def test_rates_stand_at_what_was_offered() -> None:
    told = told_of(rate_view())
    assert (told["rates"], told["x"], told["y"]) == (True, "requests/s offered", "output tok/s")
    assert [point["x"] for point in told["points"]] == [2, 4, 8, 11.31, 16]
    assert [point["status"] for point in told["points"][2:]] == ["steady", "overloaded", "overloaded"]
    assert told["marks"] == {"sustained": 8, "overloaded": 11.31}
    assert dict(told["facts"])["Served while overloaded"] == "8 requests/s"
    assert told["columns"][0] == {"key": "load", "title": "rate", "unit": "req/s"}


def test_requests_where_nothing_is_streamed() -> None:
    told = told_of(run_of(user_step(1, unit="req/s")))
    assert (told["y"], told["unit"]) == ("req/s", "req/s")


STORED = [
    ("a sweep", whole),
    ("rates", rate_view),
    ("no verdict", lambda: run_of(user_step(2))),
    (
        "all that a step can hold",
        lambda: run_of(
            user_step(
                1,
                status=Status.DRIFTING,
                errors={"HTTP 429": 3},
                attainment=Attainment(0.9, None, "too few batches"),
                server=ServerLoad(3.5, 1.0, 0.9, 2),
                batches=(1.0, 2.0),
                why="halves differ",
            )
        ),
    ),
]


@pytest.mark.parametrize("make", [s[1] for s in STORED], ids=[s[0] for s in STORED])
def test_a_run_document_gives_steps_and_verdict_back(make: Any) -> None:
    view = make()
    told = view_of(json.loads(json.dumps(document(view), **FINITE)))
    assert told.steps == view.steps
    assert told.verdict == view.verdict
    assert table_text(told) == table_text(view)
    assert json.dumps(report(told)["steps"], **FINITE) == json.dumps(report(view)["steps"], **FINITE)


def test_older_documents_have_no_steps_and_damaged_ones_say_so() -> None:
    content = document(whole())
    del content["step_results"]
    assert view_of(content).steps == ()
    damaged = document(whole())
    damaged["step_results"]["steps"][0]["status"] = "strange"
    with pytest.raises(DocumentError, match="damaged"):
        view_of(damaged)
