"""The pipeline job of docs/ci.md: its server and its very commands, in less time, against the real llama.cpp."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener
from xml.etree import ElementTree

import pytest

from tests.engine.llama import _MODEL, _PYTHON
from tests.locust_process import LOCUST as LOCUST_COMMAND
from tests.locust_process import run_locust
from tests.service import clean_environment, free_port, kill_group

PROJECT = Path(__file__).resolve().parents[2]
DOCS = (PROJECT / "docs" / "ci.md").read_text()
SERVE = re.search(r"```python\n(# serve.py\n.*?)```", DOCS, re.DOTALL)
LOCUST = re.findall(r"locust (--config configs/ci.conf --host http://127.0.0.1:8080/v1)$", DOCS, re.MULTILINE)
COMPARE = re.findall(r"(locust-llm compare baseline/.*) -- out/run.json$", DOCS, re.MULTILINE)
SERVER = re.findall(r"python (serve.py model.gguf 8080) > server.log", DOCS)

QUIET = """
from locust_llm.measure.findings import client
client.HUB_LAG_LIMIT_MS = client.CPU_LIMIT = 1e9  # other tests run beside this one
"""


def test_both_jobs_say_the_same() -> None:
    assert len(LOCUST) == len(SERVER) == len(COMPARE) == 2
    assert len(set(LOCUST)) == len(set(SERVER)) == len(set(COMPARE)) == 1


@pytest.mark.engine
def test_the_job(tmp_path: Path) -> None:
    assert SERVE is not None
    port = free_port()
    (tmp_path / "serve.py").write_text(SERVE[1])
    shutil.copy(_MODEL, tmp_path / "model.gguf")
    for folder in ("configs", "locustfiles"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    locustfile = tmp_path / "locustfiles" / "chat.py"
    locustfile.write_text(locustfile.read_text() + QUIET)
    (tmp_path / "out").mkdir()
    argv = [str(_PYTHON), *shlex.split(SERVER[0].replace("8080", str(port)))]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            argv, cwd=tmp_path, env=clean_environment(tmp_path), stdout=log, stderr=log, start_new_session=True
        )
    try:
        await_health(f"http://127.0.0.1:{port}/health")
        args = shlex.split(LOCUST[0].replace("8080", str(port)))
        summary = tmp_path / "step-summary.md"
        env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
        limits = (
            "[errors<1%, ttft:p95<60s, tpot:p95<10s, goodput>=1%]"  # the machine is slow, the job is not about that
        )
        result = run_locust(
            [*args, "--run-time", "10s", "--csv", "out/run", "--llm-input-tokens", "20"],
            cwd=tmp_path,
            env={**env, "LOCUST_LLM_GATE": limits},
            timeout_s=150,
        )
    finally:
        server.send_signal(signal.SIGTERM)
        kill_group(server)
    told = json.loads((tmp_path / "out" / "run.json").read_text())
    assert result.exit_code == told["gates"]["exit_code"]
    assert result.exit_code in (0, 3), result.output  # 3: a slow machine has too few samples
    assert f"[{', '.join(each['gate'] for each in told['gates']['results'])}]" == limits
    assert told["run"]["simulated"] is False
    assert told["slos"] == ["ttft<2s", "tpot<100ms"]
    assert len(list(ElementTree.parse(tmp_path / "out" / "junit.xml").iter("testcase"))) == 4
    assert summary.read_text() == (tmp_path / "out" / "summary.md").read_text()
    baseline = tmp_path / "baseline"
    baseline.mkdir()
    for number in range(3):
        other = {**told, "run": {**told["run"], "id": f"main{number}"}}  # a run counts once
        (baseline / f"{number}.json").write_text(json.dumps(other))
    compared = subprocess.run(
        ["sh", "-c", f"{COMPARE[0]} -- out/run.json"],
        cwd=tmp_path,
        env={**clean_environment(tmp_path), "PATH": f"{LOCUST_COMMAND.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert compared.returncode == 0, compared.stderr
    assert "3 runs" in (tmp_path / "out" / "compare.md").read_text()
    assert (tmp_path / "out" / "compare.html").exists()
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"run.json", "run.html", "junit.xml", "summary.md", "run_llm_stats.csv", "run_stats.csv"}


def await_health(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with build_opener(ProxyHandler({})).open(url, timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
