"""Steps on the real llama.cpp server with four slots, beside what its own /metrics say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.asking import CLOSED
from tests.engine.llama import SLOTS, Llama
from tests.locust_process import run_locust

pytestmark = [pytest.mark.engine, pytest.mark.long]


def test_four_slots_beside_the_server_s_own_figures(tmp_path: Path, own_llama: Llama) -> None:
    """Of twelve users four are processed and most others deferred; the knee does not lie above the slots."""
    (tmp_path / "locustfile.py").write_text(CLOSED)
    args = "--headless --stop-timeout 10 --only-summary --llm-json run.json --llm-input-tokens 30 --llm-max-tokens 64"
    steps = "--llm-shape sweep --llm-steps 1,4,12 --llm-step-time 14 --llm-server-metrics /metrics"
    result = run_locust([*args.split(), *steps.split(), "--host", own_llama.url], cwd=tmp_path, timeout_s=120)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "run.json").read_text())
    assert document["server_metrics"]["engine"] == "llama.cpp"
    alone, full, beyond = document["steps"]["rows"]
    assert alone["server_running"] <= 1
    assert alone["server_waiting"] == full["server_waiting"] == 0
    assert 0.5 * SLOTS < beyond["server_running"] <= SLOTS
    assert 4 < beyond["server_waiting"] <= 12 - SLOTS
    assert beyond["ttft_p50"] > 2 * full["ttft_p50"]
    verdict = document["steps"]["verdict"]
    assert verdict["kind"] in ("knee", "at or below the lowest load"), result.output
    assert verdict["best"] <= SLOTS
