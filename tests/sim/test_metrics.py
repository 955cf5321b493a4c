"""The engine's own page: its histograms of TTFT, queue and prefill time tell what its schedule was."""

from __future__ import annotations

import pytest

from locust_llm.sim.engine import Engine
from locust_llm.sim.metrics import Metrics
from locust_llm.sim.settings import EngineSettings

MS = 1_000_000


def sums(page: bytes, name: str) -> tuple[float, int, list[int]]:
    """Sum in ms, count, cumulative counts by bucket."""
    lines = [line for line in page.decode().splitlines() if line.startswith(f"vllm:{name}_")]
    (total,) = (float(line.split()[-1]) for line in lines if line.startswith(f"vllm:{name}_sum"))
    (count,) = (int(line.split()[-1]) for line in lines if line.startswith(f"vllm:{name}_count"))
    return 1000 * total, count, [int(line.split()[-1]) for line in lines if "_bucket{" in line]


@pytest.mark.parametrize(("entry_ms", "queue_ms"), [(0.0, 140), (40.0, 140)], ids=["no entry", "40 ms of entry"])
def test_entry_is_in_the_ttft_alone(entry_ms: float, queue_ms: float) -> None:
    """One slot, two requests at once: 100 prompt tokens at 1000 a second, then 4 steps of 10 ms: the second waits."""
    settings = EngineSettings(
        slots=1, prefill_tps=1000, decode_ms=10, decode_slope_ms=0, entry_ms=entry_ms, step_tokens=100
    )
    engine = Engine(settings)
    metrics = Metrics(engine, "sim")
    for _ in range(2):
        engine.submit(0, 100, 5)
    while (tick := engine.advance(2000 * MS)) is not None:
        metrics.observe(tick)
    page = metrics.page()
    assert sums(page, "request_prefill_time_seconds")[:2] == (pytest.approx(200), 2)
    assert sums(page, "request_queue_time_seconds")[:2] == (pytest.approx(queue_ms), 2)
    ttft_ms, count, buckets = sums(page, "time_to_first_token_seconds")
    assert (ttft_ms, count) == (pytest.approx(200 + queue_ms + 2 * entry_ms), 2)
    assert buckets == sorted(buckets)
    assert buckets[-1] == 2
