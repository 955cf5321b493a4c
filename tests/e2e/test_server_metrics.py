"""--llm-server-metrics through real Locust: series in the run document; a page that is none is said once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import run_locust
from tests.service import free_port

LOCUSTFILE = """
from locust import constant, task
from locust_llm import LLMUser

class Chat(LLMUser):
    wait_time = constant(0)
    @task
    def ask(self):
        self.client.chat(self.prompt(), name="ask")
"""
ARGS = (
    "--headless -u 6 -r 6 --run-time 5s --stop-timeout 5 --only-summary --llm-json run.json --llm-max-tokens 40"
    " --host sim --llm-input-tokens 20"
).split()
SIM = ["--llm-sim", "--slots 2 --decode-ms 5 --kv-tokens 4000"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE)
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


@pytest.mark.parametrize("page", ["unreachable", "foreign"])
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
