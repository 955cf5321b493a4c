"""The HTML report: complete, self-contained, and no text of a run gets out of its JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.stats import RunStats
from locust_llm.report.document import document
from locust_llm.report.html import SCRIPT, asset, html_of, html_report
from locust_llm.report.run import ProcessLag, RunView
from tests.web.runs import HOSTILE, LONG, hostile_view, stats_of, view_of

DATA = re.compile(r'<script type="application/json" id="llm-run">(.*?)</script>', re.S)


def data_of(page: str) -> dict[str, Any]:
    """The run that a page holds."""
    (found,) = DATA.findall(page)
    content: dict[str, Any] = json.loads(found)
    return content


def test_hostile_texts_stay_in_the_json() -> None:
    page = html_of(hostile_view())
    assert page.count("<script") == page.count("</script>") == 2
    (text,) = DATA.findall(page)
    assert not re.search(r"[<>&]|[^\x20-\x7e]", text)
    content = data_of(page)
    assert [row["name"] for row in content["table"]["rows"]] == [HOSTILE, LONG, "Aggregated"]
    assert list(content["points"]["errors"]) == [HOSTILE]
    assert content["findings"][0]["sentence"] == HOSTILE
    assert ["Model", HOSTILE] in content["about"]


def test_the_script_can_stand_in_a_page() -> None:
    assert not re.search(r"</script|<!--|<script", asset(SCRIPT), re.I)


def test_nothing_is_loaded_from_anywhere() -> None:
    page = html_of(view_of(stats_of()))
    assert "default-src 'none'" in page
    without_script = page.replace(asset(SCRIPT), "")
    assert re.findall(r"""(?:src|href)=["']?([^"'\s>]*)""", without_script) == ["data:,"]
    assert not re.search(r"@import|url\(", without_script)


def test_a_lone_surrogate_can_be_written() -> None:
    html_of(view_of(stats_of(names=("\ud800",)), models=("\udfff",))).encode()


def test_a_document_gives_the_page_of_its_run() -> None:
    view = view_of(stats_of(fails=lambda number: "HTTP 500" if number % 9 == 0 else None), simulated=True)
    told, straight = data_of(html_report(json.loads(json.dumps(document(view))))), data_of(html_of(view))
    # a document ends with its last complete second
    assert told | {"now": None} == straight | {"now": None}


VIEWS = [
    ("no run", RunView(RunStats(0))),
    ("nothing measured yet", view_of(RunStats(0), state="spawning")),
    ("only failures", view_of(stats_of(fails=lambda _: "connect failed"))),
    ("gaps", view_of(stats_of(every_s=30, seconds=90))),
]


@pytest.mark.parametrize("view", [pytest.param(view, id=name) for name, view in VIEWS])
def test_every_run_has_a_page(view: RunView) -> None:
    content = data_of(html_of(view))
    assert [figure["key"] for figure in content["headline"]]
    assert len(content["table"]["rows"]) == len(view.stats.names) + 1


def test_a_gap_is_null_and_a_silence_is_zero() -> None:
    points = data_of(html_of(view_of(stats_of(every_s=30, seconds=90))))["points"]
    silent = points["second"][20] - points["second"][0]
    assert silent == 20
    assert (points["output_tps"][20], points["ttft_p50"][20]) == (0, None)


def test_all_points_come_however_many() -> None:
    stats = stats_of(seconds=2500, every_s=50)
    content = data_of(html_of(view_of(stats)))
    assert len(content["points"]["second"]) == len(list(stats.points())) > 2000
    assert content["more"] is False


def test_marks_definitions_and_set_up_are_told() -> None:
    view = view_of(
        stats_of(),
        simulated=True,
        lost_workers=("worker_1",),
        options={"llm_max_tokens": 64, "llm_model": "", "llm_insecure": False, "llm_header": ["X-Team: ***"]},
        locust_options={"num_users": 8},
        versions={"locust": "2.47.0"},
        lag=(ProcessLag("local", 1000, 0.5, 2.0, 9.25, 0.31),),
        started_wall_s=1_790_000_000.0,
    )
    page = html_of(view)
    assert "<title>LLM load test SIMULATED INCOMPLETE</title>" in page
    content = data_of(page)
    assert content["configuration"] == [
        ["Load", [["num_users", "8"]]],
        ["Options", [["--llm-max-tokens", "64"], ["--llm-insecure", "no"], ["--llm-header", "X-Team: ***"]]],
        ["Embedded engine", []],
        ["Versions", [["locust", "2.47.0"]]],
        ["Machine", []],
        ["How late the client ran", [["local", "p50 0.5 ms, p99 2 ms, max 9.25 ms, 31% of a CPU, n 1,000"]]],
    ]
    assert ["Started", "2026-09-21 14:13:20 UTC"] in content["about"]
    assert {d["title"]: d["help"] for d in content["definitions"]} == {d.title: d.help for d in DISTRIBUTIONS}
    assert ["Failed (share)", "0.00%", "Failed / (succeeded + failed)."] in content["figures"]
