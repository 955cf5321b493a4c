"""The server's own metrics beside the client's points, and in a run document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.report.columns import live
from locust_llm.report.document import DocumentError, document, view_of
from locust_llm.report.server import server_columns
from tests.measure.build import WALL_0
from tests.report import runs


def series_of(*samples: tuple[float, ServerSample]) -> ServerSeries:
    series = ServerSeries("http://host/metrics")
    for at_s, sample in samples:
        series.add(WALL_0 + at_s, sample)
    return series


def vllm(running: float, preemptions: float | None = None, kv_use: float | None = None) -> ServerSample:
    return ServerSample("vllm", running=running, waiting=0.0, preemptions=preemptions, kv_use=kv_use)


SERIES = series_of((0.1, vllm(4, 10, 0.5)), (1.1, vllm(8, 13, 0.875)), (3.1, vllm(2, 1)))
"""Looks at seconds 0, 1 and 3; the server was started anew before the last one."""


def test_samples_stand_at_their_seconds() -> None:
    view = runs.view_of(runs.small_run(), server=SERIES)
    points = list(view.stats.points())
    assert [point.second - WALL_0 for point in points[:3]] == [0, 1, 2]
    told = live(view)["points"]
    assert told["server_running"][:3] == [4, 8, None]
    assert told["server_waiting"][:3] == [0, 0, None]
    assert told["server_kv_percent"][:3] == [50, 87.5, None]
    assert told["server_preemptions_per_s"][:3] == [None, 3, None]


def test_a_long_point_has_the_largest_and_counts_all_of_its_span() -> None:
    (point, *_) = runs.view_of(runs.small_run()).stats.points()
    told = server_columns(SERIES, [replace(point, span_s=2), replace(point, second=WALL_0 + 2, span_s=2)])
    assert told["server_running"] == [8, 2]
    assert told["server_preemptions_per_s"] == [3, 0.5]  # begun anew: one since then, over two seconds


def test_without_server_metrics_there_are_no_columns() -> None:
    assert not [key for key in live(runs.view_of(runs.small_run()))["points"] if key.startswith("server_")]


def test_a_run_document_gives_them_back() -> None:
    view = runs.view_of(runs.small_run(), server=SERIES)
    content = json.loads(json.dumps(document(view)))
    assert view_of(content).server == SERIES
    assert live(view_of(content))["points"]["server_running"][:3] == [4, 8, None]
    content["server_metrics"]["running"].pop()
    with pytest.raises(DocumentError, match="damaged"):
        view_of(content)
