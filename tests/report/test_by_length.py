"""Tables by length: where they are shown, and that they come back from the document."""

from __future__ import annotations

import json

from locust_llm.report.console import WIDTH, summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.html import html_of
from locust_llm.report.run import RunView
from tests.measure.build import fed, record, usage


def _view(*lengths: int) -> RunView:
    events = [100.0 + 20 * i for i in range(30)]
    answers = (record(events, n=30, usage=usage(30, tokens, cached_tokens=0)) for tokens in lengths)
    return RunView(fed(*answers), state="stopped")


def test_the_console_has_a_table_where_lengths_differ() -> None:
    text = summary_text(_view(50, 1000, 1000))
    told = text[text.index("By input tokens") :].splitlines()
    assert " ".join(told[0].split()) == "By input tokens TTFT n TTFT p50 TTFT p95 TPOT n TPOT p50 TPOT p95"
    assert told[1].split() == ["1–64", "1", "100*", "100*", "1", "20.0*", "20.0*"]
    assert told[2].split() == ["513–1,024", "2", "100*", "100*", "2", "20.0*", "20.0*"]
    assert max(map(len, told)) <= WIDTH
    assert "By output tokens" not in text  # all of one length
    assert "By cached share" not in text


def test_cached_prompts_stand_apart() -> None:
    events = [100.0 + 20 * i for i in range(30)]
    told = [record(events, n=30, usage=usage(30, 100, cached_tokens=cached)) for cached in (0, 10, 90)]
    lines = summary_text(RunView(fed(*told), state="stopped")).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("By cached share of input"))
    assert [" ".join(line.split()[:2]) for line in lines[head + 1 : head + 4]] == ["nothing 1", "0–25 %", "75–100 %"]


def test_equal_requests_have_none() -> None:
    view = _view(500, 501)
    assert "By input tokens" not in summary_text(view)
    assert "By length" not in html_of(view)


def test_the_document_gives_them_again() -> None:
    view = _view(50, 1000, 4000)
    content = json.loads(json.dumps(document(view), allow_nan=False))
    rows = [row for row in content["by_length"] if row["axis"] == "input"]
    assert [(row["over"], row["up_to"], row["ttft"]["n"]) for row in rows] == [
        (0, 64, 1),
        (512, 1024, 1),
        (2048, 4096, 1),
    ]
    assert abs(rows[0]["ttft"]["p50"] - 100) < 0.2
    again = view_of(content)
    assert again.stats.by_length.to_dict() == view.stats.by_length.to_dict()


def test_the_report_has_them() -> None:
    page = html_of(_view(50, 1000))
    assert "<h2>By length" in page
    assert "513–1,024" in page
