"""How gates and goodput are told: console, Markdown, JUnit, GitHub, the run document and the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.judgement import GateResult, GateStatus, Judgement
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.slo import parse_slo
from locust_llm.measure.stats import RunStats
from locust_llm.report.columns import gates, headline, live
from locust_llm.report.console import WIDTH, summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.gates import figure_text, gates_dict, judgement_of, verdict_text
from locust_llm.report.github import workflow_commands
from locust_llm.report.junit import junit_xml
from locust_llm.report.markdown import summary_markdown
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, ns
from tests.report import runs

MET, BREACHED, UNJUDGED = GateStatus.MET, GateStatus.BREACHED, GateStatus.UNJUDGED
NONE = NoInterval("too short")


def result(
    gate: str,
    status: GateStatus,
    value: float | None = None,
    interval: Interval | NoInterval = NONE,
    *,
    n: int = 400,
    beyond: bool = False,
    reason: str | None = None,
) -> GateResult:
    return GateResult(parse_gate(gate), status, value, beyond, n, interval, reason)


GOOD = result("ttft:p95<500ms", MET, 312.4, Interval(300.0, 324.0, 12))
FIGURES = [
    (GOOD, "312.4 ms (300 to 324 within this run, 12 batches), n 400"),
    (result("e2e:p90<4s", MET, 3120.0, n=1400), "3.12 s, n 1,400, no interval: too short"),
    (result("ttft:p5<9us", MET, 0.0085), "8.5 us, n 400, no interval: too short"),
    (result("errors<1%", MET, 0.0, Interval(0.0, 0.0075, 10)), "0 % (0 to 0.75 within this run, 10 batches), n 400"),
    (result("output_throughput>=1200", MET, 1234.4, NONE), "1,234 tok/s, n 400, no interval: too short"),
    (result("goodput>=2req/s", BREACHED, 1.5, NONE), "1.5 req/s, n 400, no interval: too short"),
    (result("goodput>=95%", BREACHED, 0.5, NONE), "50 %, n 400, no interval: too short"),
    (
        result("ttft:p95<500ms", UNJUDGED, None, Interval(310.0, math.inf, 12), beyond=True),
        "above every success, among the failures (310 or more within this run, 12 batches), n 400",
    ),
    (result("x/ttft:p95<500ms", UNJUDGED, None, NONE, n=0), "no figure"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "text"), FIGURES, ids=[str(told.gate) for told, _ in FIGURES])
def test_the_figure_in_words(told: GateResult, text: str) -> None:
    assert figure_text(told) == text


BAD = result("chat/errors<1%", BREACHED, 0.25, Interval(0.2, 0.3, 12))
UNSURE = result("tpot:p99<25ms", UNJUDGED, 20.0, n=90, reason="90 samples are too few for TPOT p99 (368 needed)")

VERDICTS = [
    (Judgement((GOOD,)), 0, "The gate is met."),
    (Judgement((GOOD, GOOD)), 0, "All 2 gates are met."),
    (Judgement((GOOD, BAD, UNSURE)), 1, "Breached: chat/errors<1%."),
    (Judgement((GOOD, UNSURE)), 3, "Could not be judged: tpot:p99<25ms."),
    (Judgement((UNSURE,), reason="worker 1 was lost"), 3, "The run could not be judged: worker 1 was lost."),
    (Judgement((GOOD,), overloaded="overloaded: 3 a second piled up"), 1, "Overloaded: 3 a second piled up."),
    (Judgement((BAD,), overloaded="overloaded"), 1, "Overloaded; breached: chat/errors<1%."),
]


@pytest.mark.parametrize(("judgement", "code", "sentence"), VERDICTS, ids=[case[2] for case in VERDICTS])
def test_the_verdict(judgement: Judgement, code: int, sentence: str) -> None:
    assert (judgement.exit_code, verdict_text(judgement)) == (code, sentence)


@pytest.mark.parametrize("judgement", [case[0] for case in VERDICTS], ids=[case[2] for case in VERDICTS])
def test_plain_values_and_back(judgement: Judgement) -> None:
    assert judgement_of(json.loads(json.dumps(gates_dict(judgement), allow_nan=False))) == judgement


@pytest.mark.parametrize("told", [told for told, _ in FIGURES], ids=[str(told.gate) for told, _ in FIGURES])
def test_every_result_goes_through_json(told: GateResult) -> None:
    content = json.loads(json.dumps(gates_dict(Judgement((told,))), allow_nan=False))
    assert judgement_of(content).results == (told,)
    assert content["results"][0]["limit"] == told.gate.limit


def view(judgement: Judgement | None, **more: object) -> RunView:
    return runs.view_of(runs.small_run(), judgement=judgement, **more)


HOSTILE = replace(BAD, gate=parse_gate("a\x00|*<b>\ud800&]]>/errors<1%"))


def test_console() -> None:
    lines = summary_text(view(Judgement((GOOD, BAD, UNSURE)))).splitlines()
    at = lines.index("met         ttft:p95<500ms: 312.4 ms (300 to 324 within this run, 12 batches), n 400")
    assert lines[at + 1 :] == [
        "breached    chat/errors<1%: 25 % (20 to 30 within this run, 12 batches), n 400",
        "not judged  tpot:p99<25ms: 20 ms, n 90, no interval: too short; 90 samples are too few for TPOT p99"
        " (368 needed)",
        "gates       Breached: chat/errors<1%.",
    ]
    assert max(map(len, lines)) <= WIDTH


def test_without_gates_and_slos_nothing_is_said_of_them() -> None:
    for text in (summary_text(view(None)), summary_markdown(view(None))):
        assert "gate" not in text.lower()
        assert "goodput" not in text.lower()
    assert live(view(None))["gates"] is None
    assert document(view(None))["gates"] is None
    assert "goodput" not in {figure["key"] for figure in headline(view(None))}


def test_markdown() -> None:
    lines = summary_markdown(view(Judgement((GOOD, HOSTILE, UNSURE)))).splitlines()
    assert lines[2] == "❌ **Breached: a\x00\\|\\*\\<b\\>\ud800&]]\\>/errors\\<1%.**".replace("]]", "\\]\\]")
    assert lines[6] == ("| ✅ met | ttft:p95\\<500ms | 312.4 ms (300 to 324 within this run, 12 batches), n 400 |  |")
    assert lines[7].startswith("| ❌ breached | a")
    assert lines[8].endswith("| 90 samples are too few for TPOT p99 (368 needed) |")
    assert all(line.replace("\\|", "").count("|") == 5 for line in lines[4:9])


def test_junit() -> None:
    judgement = Judgement((GOOD, HOSTILE, UNSURE))
    run = view(judgement, target="http://me:hunter2@host/v1?key=hunter2", simulated=True, started_wall_s=0.0)
    text = junit_xml(replace(run, stopped_wall_s=61.5), judgement)
    assert "hunter2" not in text
    root = ElementTree.fromstring(text.encode())
    (suite,) = root
    told = [suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time", "timestamp")]
    assert told == ["3", "1", "1", "0", "61.500", "1970-01-01T00:00:00"]
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["error"]]
    assert cases[0].get("classname") == "locust_llm.SIMULATED"
    assert cases[1].get("name") == "a?|*<b>?&]]>/errors<1%"
    error = cases[2].find("error")
    assert error is not None
    assert error.get("message") == "90 samples are too few for TPOT p99 (368 needed)"
    assert "LLM figures" in (suite.findtext("system-out") or "")
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["exit code"] == "1"
    assert properties["target"] == "http://***@host/v1?key=***"


def test_junit_of_a_run_that_could_not_be_judged_has_only_errors() -> None:
    reason = "worker 1 was lost"
    judgement = Judgement(tuple(replace(each, status=UNJUDGED, reason=reason) for each in (GOOD, BAD)), reason)
    cases = list(ElementTree.fromstring(junit_xml(view(judgement), judgement)).iter("testcase"))
    assert [case.find("error").get("message") for case in cases] == [  # type: ignore[union-attr]
        "The run could not be judged: worker 1 was lost."
    ] * 2


def test_junit_of_overload_has_a_case_of_its_own() -> None:
    judgement = Judgement((GOOD,), overloaded="overloaded: 3 a second piled up")
    cases = list(ElementTree.fromstring(junit_xml(view(judgement), judgement)).iter("testcase"))
    assert [case.find("failure") is not None for case in cases] == [False, True]


def test_github() -> None:
    assert list(workflow_commands(Judgement((GOOD,)))) == []
    lines = list(
        workflow_commands(Judgement((GOOD, replace(BAD, gate=parse_gate("a\n%/errors<1%")), UNSURE)), ("SIMULATED",))
    )
    assert lines == [
        "::error title=LLM gate SIMULATED breached::a%0A%25/errors<1%25: 25 %25 (20 to 30 within this run, 12"
        " batches), n 400",
        "::warning title=LLM gate SIMULATED not judged::tpot:p99<25ms: 20 ms, n 90, no interval: too short;"
        " 90 samples are too few for TPOT p99 (368 needed)",
    ]  # fmt: skip
    assert list(workflow_commands(Judgement((UNSURE, UNSURE), "worker 1 was lost"))) == [
        "::warning title=LLM gate::The run could not be judged: worker 1 was lost."
    ]
    assert list(workflow_commands(Judgement((GOOD,), overloaded="overloaded"))) == [
        "::error title=LLM gate::Overloaded."
    ]


def test_the_document_holds_gates_slos_and_blocks_and_gives_them_back() -> None:
    judgement = Judgement((GOOD, BAD, UNSURE))
    content = json.loads(json.dumps(document(view(judgement, slos=("ttft<150ms",))), allow_nan=False))
    assert content["gates"]["exit_code"] == 1
    assert content["slos"] == ["ttft<150ms"]
    again = view_of(content)
    assert (again.judgement, again.slos) == (judgement, ("ttft<150ms",))
    blocks = again.stats.blocks()
    assert blocks is not None
    assert blocks.to_dict() == content["names"][-1]["blocks"]
    assert content["names"][0]["blocks"] is None
    assert document(again)["names"] == content["names"]


def test_a_document_of_an_older_version_has_none_of_them() -> None:
    content = json.loads(json.dumps(document(view(None))))
    del content["gates"], content["slos"], content["names"][0]["blocks"], content["names"][1]["blocks"]
    again = view_of(content)
    assert (again.judgement, again.slos, again.stats.blocks()) == (None, (), None)


def with_slos() -> RunView:
    """Of three outcomes one meets the SLOs; a fourth was cut off in time."""
    slos = [parse_slo("ttft<150ms"), parse_slo("e2e<1s")]
    stats = RunStats(OFFSET, min_tokens=1, lag_s=0, slos=slos)
    for each in runs.small_run():
        stats.started(each.name, each.started_ns)
        stats.add(each)
    stats.tick(ns(2999), ())
    stats.mark_stop(ns(2000))
    return RunView(stats, state="stopped", slos=tuple(map(str, slos)))


def test_goodput_stands_in_headline_console_and_markdown() -> None:
    told = with_slos()
    figure = next(each for each in headline(told) if each["key"] == "goodput")
    assert (figure["value"], figure["n"]) == (0.5, 3)
    assert figure["note"] == "whole run, 33.33% of 3 meet ttft<150ms and e2e<1s"
    assert "goodput     0.500 req/s · 33.3 % of 3 meet ttft<150ms and e2e<1s" in summary_text(told).splitlines()
    assert "Goodput: 0.500 req/s · 33.3 % of 3 meet ttft\\<150ms and e2e\\<1s" in summary_markdown(told).splitlines()


def test_gates_stand_provisional_while_the_test_runs() -> None:
    wanted = tuple(map(parse_gate, ("errors<90%", "errors<1%", "chat/ttft:p95<1s", "nobody/ttft:p50<1s")))
    many = [record for _ in range(10) for record in runs.small_run()]
    running = runs.view_of(many, state="running", gates=wanted)
    told = gates(running)
    assert told is not None
    assert [result["status"] for result in told["results"]] == [
        "met so far",
        "breached so far",
        "too early to tell",  # ten failures are in the way of a p95
        "too early to tell",
    ]
    assert told["status"] == "breached so far"
    assert told["sentence"].startswith("Provisional: 1 breached so far, 1 met so far, 2 too early to tell.")
    assert told["results"][0]["measured"] == "33.33 %"
    assert told["results"][0]["interval"] == "none: the test runs"
    assert json.dumps(live(running)["gates"], allow_nan=False)
    assert gates(replace(running, state="stopped")) is None  # over, and not judged
    assert gates(replace(running, gates=())) is None


@pytest.mark.parametrize(("result", "text"), FIGURES)
def test_figure_and_interval_stand_apart_for_tables(result: GateResult, text: str) -> None:
    told = gates_dict(Judgement((result,)))["results"][0]
    assert told["measured"] in text
    assert told["interval"].removeprefix("none: ") in text or told["measured"] == "no figure"
