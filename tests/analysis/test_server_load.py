"""ServerLoad: what the server said over a window, from its samples."""

from __future__ import annotations

import pytest

from locust_llm.analysis.server_load import server_load
from locust_llm.analysis.step import ServerLoad
from locust_llm.measure.server_sample import ServerSample, ServerSeries


def test_means_of_gauges_and_growth_of_counters() -> None:
    series = ServerSeries("http://h/metrics")
    for second, (running, waiting, kv_use, lost, prompts, cached) in enumerate(
        [(9.0, 9.0, 0.99, 4.0, 0.0, 0.0), (2.0, 0.0, 0.5, 5.0, 100.0, 10.0), (4.0, 3.0, 0.7, 7.0, 300.0, 60.0)]
    ):
        series.add(float(second), ServerSample("vLLM", running, waiting, kv_use, lost, prompts, cached))
    assert server_load(series.between(1.0, 2.0)) == ServerLoad(3.0, 1.5, 0.7, 2, 0.25, "vLLM")


# id, samples, what they say
CASES = [
    ("none", [], None),
    ("what an engine does not tell", [ServerSample("TGI", 1.0, 2.0)], ServerLoad(1.0, 2.0, engine="TGI")),
    ("a server that started anew", [ServerSample("vLLM", 1.0, 0.0, 0.1, 9.0), ServerSample("vLLM", 1.0, 0.0, 0.1, 0.0)],
     ServerLoad(1.0, 0.0, 0.1, engine="vLLM")),
    ("no prompt between", [ServerSample("vLLM", 1.0, 0.0, 0.1, 0.0, 5.0, 1.0)] * 2,
     ServerLoad(1.0, 0.0, 0.1, 0, engine="vLLM")),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "says"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_missing(samples: list[ServerSample], says: ServerLoad | None) -> None:
    assert server_load(samples) == says
