"""Billing as it is told: the audit and the cost on the console, in the document and in the report."""

from __future__ import annotations

import json

import pytest

from locust_llm.measure.record import TokenSource
from locust_llm.measure.stats import RunStats
from locust_llm.measure.tokens import count_words
from locust_llm.report.console import summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.html import html_of
from locust_llm.report.lines import lines
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, fed, record, usage

EVENTS = [100.0 + 20 * i for i in range(40)]
PRICES = {"llm_price_in": 2.0, "llm_price_out": 10.0, "llm_price_cached": None}


def _view(billed: int, options: dict[str, float | None] | None = None) -> RunView:
    stats = RunStats(OFFSET, counter=count_words)
    for _ in range(10):
        answer = record(EVENTS, n=billed, text="word " * 40, usage=usage(billed, 100))
        stats.started("chat", answer.started_ns)
        stats.add(answer)
    return RunView(stats, state="stopped", options=options if options is not None else {})


def test_the_audit_is_told() -> None:
    said = "440 output tokens billed, 400 counted by tokenizer (+10.0%) in 10 answers, of which 10 differ"
    view = _view(44)
    assert f"audit       {said}\n" in summary_text(view)
    assert said in html_of(view)
    again = view_of(json.loads(json.dumps(document(view))))
    assert said in summary_text(again)


def test_the_cost_is_told() -> None:
    view = _view(40, PRICES)
    text = summary_text(view)
    # 1,000 tokens in and 400 out
    assert "cost        0.00600 for the run · 0.600 per 1,000 requests · 15.0 per million output tokens\n" in text
    content = json.loads(json.dumps(document(view)))
    assert content["cost"]["total"] == pytest.approx(0.006)
    assert "0.600 per 1,000 requests" in html_of(view)
    assert "\ncost " in summary_text(view_of(content))


def test_without_prices_and_tokenizer_nothing_is_told() -> None:
    view = RunView(fed(record(EVENTS, n=40, usage=usage(40, 100))), state="stopped", options={"llm_price_in": None})
    text = summary_text(view)
    assert "\naudit " not in text
    assert "\ncost " not in text
    assert document(view)["cost"] is None


# id, where N comes from, TPOT's title
SOURCES = [
    ("usage", TokenSource.USAGE, "TPOT (ms)"),
    ("events", TokenSource.CHUNKS, "TPOT (ms, estimated)"),
    ("tokenizer", TokenSource.TOKENIZER, "TPOT (ms, estimated)"),
]


@pytest.mark.parametrize(("source", "title"), [case[1:] for case in SOURCES], ids=[case[0] for case in SOURCES])
def test_an_estimate_is_marked_as_one(source: TokenSource, title: str) -> None:
    view = RunView(fed(record(EVENTS, n=40, source=source)), state="stopped")
    assert title in [line.title for line in lines(view, None)]
