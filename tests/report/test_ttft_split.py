"""The TTFT split in every output, and in a document read again."""

from __future__ import annotations

import json

import pytest

from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.report.console import summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.html import report
from locust_llm.report.markdown import summary_markdown
from tests.report import runs


def series_of(*sums: tuple[float | None, ...]) -> ServerSeries:
    """Looks of (TTFT sum, count, queue's sum, count, prefill's sum, count)."""
    series = ServerSeries("http://host/metrics")
    for at_s, each in enumerate(sums):
        series.add(float(at_s), ServerSample("vLLM", 1.0, 0.0, None, None, None, None, *each))
    return series


# id, looks, line; the small run has two answers with TTFTs of 100 and 200 ms
LINES = [
    ("all parts", [(1.0, 5, 0.0, 5, 0.2, 5), (1.28, 7, 0.06, 7, 0.4, 7)],
     "mean 150 ms = 10.0 network and entry + 30.0 server queue + 100 prefill + 10.0 rest of the server's TTFT;"
     " n 2 ours, 2 server's"),
    ("nothing left", [(0.0, 0, 0.0, 0, 0.0, 0), (0.28, 2, 0.06, 2, 0.22, 2)],
     "mean 150 ms = 10.0 network and entry + 30.0 server queue + 110 prefill + 0 rest of the server's TTFT;"
     " n 2 ours, 2 server's"),
    ("SGLang", [(0.0, 0, 0.0, 0), (0.28, 2, 0.06, 2)],
     "mean 150 ms = 10.0 network and entry + 30.0 server queue + 110 rest of the server's TTFT (prefill in it); n 2"
     " ours, 2 server's"),
    ("none", [(None, None), (None, None)],
     "none. The metrics of vLLM have no histogram of the time to first token."),
]  # fmt: skip


@pytest.mark.parametrize(("sums", "line"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_the_line_stands_in_every_output(sums: list[tuple[float | None, ...]], line: str) -> None:
    view = runs.view_of(runs.small_run(), server=series_of(*sums))
    assert f"TTFT split {line}" in " ".join(summary_text(view).split())
    assert f"TTFT split: {line}" in summary_markdown(view)
    assert line in [text for title, text, _ in report(view)["figures"] if title == "TTFT split"]
    again = view_of(json.loads(json.dumps(document(view))))
    assert f"TTFT split: {line}" in summary_markdown(again)


def test_the_document_has_the_numbers() -> None:
    view = runs.view_of(runs.small_run(), server=series_of((1.0, 5, 0.0, 5, 0.2, 5), (1.28, 7, 0.06, 7, 0.4, 7)))
    told = document(view)["ttft_split"]
    assert told.pop("help").startswith("Mean TTFT")
    assert told == pytest.approx(
        {
            "n": 2,
            "server_n": 2,
            "client_ms": 150,
            "network_ms": 10,
            "server_ms": 140,
            "queue_ms": 30,
            "prefill_ms": 100,
            "rest_ms": 10,
        }
    )
    told = document(runs.view_of(runs.small_run(), server=series_of((None,), (None,))))["ttft_split"]
    assert list(told) == ["none"]


def test_nothing_where_no_metrics_were_asked_for() -> None:
    view = runs.view_of(runs.small_run())
    assert document(view)["ttft_split"] is None
    assert "TTFT split" not in summary_text(view) + summary_markdown(view)
    assert "TTFT split" not in [title for title, _, _ in report(view)["figures"]]


def test_a_document_from_before_there_were_sums() -> None:
    view = runs.view_of(runs.small_run(), server=series_of((1.0, 5), (1.28, 7)))
    content = json.loads(json.dumps(document(view)))
    for name in ("ttft_s", "ttft_n", "queue_s", "queue_n", "prefill_s", "prefill_n"):
        del content["server_metrics"][name]
    old = view_of(content).server
    assert old is not None
    assert [(sample.running, sample.ttft_n) for sample in old.samples] == [(1.0, None)] * 2
