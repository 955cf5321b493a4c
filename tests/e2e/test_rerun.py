"""A run, and the run that its document's command starts in a shell: both were asked for the same."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import LOCUST, start_locust
from tests.service import clean_environment
from tests.side_by_side import side_by_side

CHAT = (Path(__file__).parents[2] / "locustfiles" / "chat.py").read_text()
NOTE = """it's "odd" $HOME"""


def document(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes"])
def test_it_is_repeated(folder: Path, stack: ExitStack, mode: str) -> None:
    (folder / "locustfile.py").write_text(CHAT)
    (folder / "run.conf").write_text("users = 3\nrun-time = 2s\nllm-max-tokens = 9\n")
    args = ["--config", "run.conf", "--headless", "--host", "sim", "--llm-json", "run.json", "--llm-seed", "5"]
    args += ["--llm-note", NOTE, "--llm-header", "X-Tenant: a b", "--llm-sim=--slots 2 --decode-ms 5"]
    args += ["--processes", "1"] if mode == "processes" else []
    with start_locust(args, cwd=folder, env={"OPENAI_API_KEY": "sk-rerun-SECRET-123456"}) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    first = document(folder)
    assert first["origin"]["key"] == "OPENAI_API_KEY"
    assert first["origin"]["note"] == NOTE
    assert first["origin"]["path_ms"]["tcp"] > 0
    assert "SECRET" not in json.dumps(first)

    environment = clean_environment(folder, {"PATH": f"{LOCUST.parent}:/usr/bin:/bin", "X_TENANT": "a b"})
    asked = [sys.executable, "-m", "locust_llm.cli", "rerun", "run.json"]
    told = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "set X_TENANT" in told.stderr
    assert "set OPENAI_API_KEY" in told.stderr
    (folder / "run.json").unlink()
    again = subprocess.run(
        told.stdout, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert again.returncode == 0, again.stderr
    second = document(folder)
    assert second["origin"]["command"] == first["origin"]["command"]
    assert second["configuration"]["options"] == first["configuration"]["options"] | {"llm_model": "sim"}
    assert second["configuration"]["locust"] == first["configuration"]["locust"]
