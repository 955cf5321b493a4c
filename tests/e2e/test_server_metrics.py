"""--llm-server-metrics through real Locust: series in the run document, the TTFT split; a page that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking import CLOSED
from tests.locust_process import run_locust
from tests.service import free_port

ARGS = (
    "--headless -u 6 -r 6 --run-time 5s --stop-timeout 5 --only-summary --llm-json run.json --llm-max-tokens 40"
    " --host sim --llm-input-tokens 20"
).split()
SIM = ["--llm-sim", "--slots 2 --decode-ms 5 --kv-tokens 4000"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(CLOSED)
    return tmp_path


def run(folder: Path, *more: str) -> tuple[dict[str, Any], str]:
    """(the run document's part, all output)."""
    result = run_locust([*ARGS, *SIM, *more], cwd=folder, timeout_s=60)
    assert result.exit_code == 0, result.output
    return json.loads((folder / "run.json").read_text())["server_metrics"], result.output


def test_the_engine_s_own_page(folder: Path) -> None:
    """Six users on two slots: two run, four wait."""
    told, output = run(folder, "--llm-server-metrics", "/metrics")
    assert told["engine"] == "vLLM"
    assert told["url"].endswith("/metrics")
    assert len(told["at_s"]) >= 3
    assert max(told["running"]) == 2
    assert sorted(told["waiting"])[len(told["waiting"]) // 2] == 4
    assert max(told["kv_use"]) > 0
    assert set(told["preemptions"]) == {0}
    assert "goes on without it" not in output


def test_the_split_finds_what_the_engine_was_told_to_take(folder: Path) -> None:
    """Three users on one slot. An answer holds it for 200 prompt tokens at 1000 a second and 19 steps of 10 ms: S.

    The first waits for 0, the second for S, the third for 2 S; whoever comes back for 2 S less what he was away.
    """
    engine = "--slots 1 --decode-ms 10 --decode-slope-ms 0 --prefill-tps 1000 --entry-ms 40"
    load = "-u 3 -r 3 --run-time 4s --llm-max-tokens 20 --llm-input-tokens 200 --llm-server-metrics /metrics".split()
    result = run_locust([*ARGS, "--llm-sim", engine, *load], cwd=folder, timeout_s=60)
    assert result.exit_code == 0, result.output
    assert "TTFT split  mean" in result.output
    split = json.loads((folder / "run.json").read_text())["ttft_split"]
    n = split["n"]
    assert split["server_n"] == n  # the check before the run is not in it, what drained after the stop is
    assert n > 6
    assert split["prefill_ms"] == pytest.approx(200, rel=0.05)
    assert split["rest_ms"] == pytest.approx(40, rel=0.05)  # entry: in the server's TTFT, outside of its queue
    served_ms, away_ms = 390, 40 + split["network_ms"]
    assert split["queue_ms"] == pytest.approx((3 * served_ms + (n - 3) * (2 * served_ms - away_ms)) / n, rel=0.05)
    assert 0 < split["network_ms"] < 0.05 * split["client_ms"]
    assert split["client_ms"] == pytest.approx(
        sum(split[part] for part in ("network_ms", "queue_ms", "prefill_ms", "rest_ms"))
    )


@pytest.mark.parametrize("page", ["unreachable", pytest.param("foreign", marks=pytest.mark.long)])
def test_a_page_that_is_none(folder: Path, page: str) -> None:
    url = f"http://127.0.0.1:{free_port()}/metrics" if page == "unreachable" else "/v1/models"
    told, output = run(folder, "--llm-server-metrics", url)
    assert told["at_s"] == []
    assert told["engine"] is None
    assert output.count("the run goes on without it") == 1
    assert ("refused" if page == "unreachable" else "no metrics of vLLM") in output


def test_a_url_that_is_none(folder: Path) -> None:
    result = run_locust([*ARGS, "--llm-server-metrics", "ftp://h/"], cwd=folder, timeout_s=60)
    assert result.exit_code == 1
    assert "--llm-server-metrics takes a URL" in result.output
    assert "Traceback" not in result.output
