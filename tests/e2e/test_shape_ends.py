"""A stepped test that ends before its plan does: by SIGTERM, or when its time is up (D74). What it has is told."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.asking import CLOSED, OPEN
from tests.locust_process import run_locust, start_locust
from tests.service import Service

ARGS = (
    "--headless --stop-timeout 5 --only-summary --llm-json run.json --llm-input-tokens 20 --llm-max-tokens 20"
    " --llm-records r.jsonl --llm-shape sweep --llm-steps 3,6 --llm-step-time 60"
).split()

pytestmark = pytest.mark.long

SimServer = Callable[..., Service]


def await_requests(path: Path, count: int) -> None:
    """Until so many have ended, at most half a minute."""
    deadline = time.monotonic() + 30
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("end", ["SIGTERM", "run time"])
@pytest.mark.parametrize(("file", "load"), [(CLOSED, "users"), (OPEN, "rates")], ids=["users", "rates"])
def test_what_it_has_is_told(tmp_path: Path, sim_server: SimServer, file: str, load: str, end: str) -> None:
    (tmp_path / "locustfile.py").write_text(file)
    server = sim_server("--slots", "4", "--decode-ms", "10")
    args = [*ARGS, "--host", server.url, *(["-u", "8"] if load == "rates" else [])]
    if end == "run time":
        result = run_locust([*args, "--run-time", "6s"], cwd=tmp_path, timeout_s=60)
    else:
        with start_locust(args, cwd=tmp_path) as locust:
            locust.await_output("Step of 3")
            await_requests(tmp_path / "r.jsonl", 10)
            locust.send_signal(signal.SIGTERM)
            result = locust.wait(60)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "run.json").read_text())
    steps = document["steps"]
    assert [row["load"] for row in steps["rows"]] in ([], [3]), result.output
    assert not steps["verdict"]["complete"]
    assert document["run"]["state"] == "stopped"
    everything = next(name for name in document["names"] if name["name"] is None)
    assert everything["counts"], result.output
