"""D76: in whatever order a program imports us, Locust and httpx, its sockets are gevent's, and streams run together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.locust_process import run_locust
from tests.replay import DONE, ROLE, STOP, C, Replay, U, stream
from tests.service import clean_environment

ORDERS = {
    "Locust first": "import locust; from locust_llm import LLMUser",
    "we first": "from locust_llm import LLMUser; import locust",
    "the package alone, then Locust": "import locust_llm, locust; LLMUser = locust_llm.LLMUser",
    "httpx, then we": "import httpx; from locust_llm import LLMUser; import locust",
    "httpx, then Locust": "import httpx, locust; from locust_llm import LLMUser",
    "a room of ours, then Locust": "import locust_llm.wire.client; import locust; from locust_llm import LLMUser",
}

PATCHED = """
import socket, ssl, threading
import gevent.socket, gevent.ssl
assert issubclass(LLMUser, locust.User)
assert socket.socket is gevent.socket.socket
assert ssl.SSLContext is gevent.ssl.SSLContext
assert threading.current_thread() is threading.main_thread()
"""


@pytest.mark.parametrize("imports", ORDERS.values(), ids=ORDERS)
def test_no_order_warns_or_leaves_sockets_blocking(tmp_path: Path, imports: str) -> None:
    argv = [sys.executable, "-W", "error", "-c", f"{imports}\n{PATCHED}"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=clean_environment(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")


LOCUSTFILE = """
import httpx
from locust_llm import LLMUser
from locust import task

class Asker(LLMUser):
    @task
    def ask(self):
        self.client.chat([dict(role="user", content="Hi")], max_tokens=2)
"""
USERS = 50


def test_fifty_streams_run_side_by_side(tmp_path: Path) -> None:
    """One stream takes 2 s, so none may have ended before the last one of the fifty was sent."""
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE)
    options = ["--headless", "--users", str(USERS), "--spawn-rate", str(USERS), "--run-time", "3s"]
    options += ["--stop-timeout", "5", "--llm-model", "m", "--llm-no-preflight"]
    with Replay(stream((100, ROLE + C("a")), (2000, C("b") + STOP + U(3, 2) + DONE))) as server:
        result = run_locust(["-f", "locustfile.py", "--host", server.url, *options], cwd=tmp_path)
    assert result.exit_code == 0, result.output
    assert result.csv_rows("failures") == []
    first = sorted(server.exchanges, key=lambda exchange: exchange.read_ns)[:USERS]
    assert {exchange.connection for exchange in first} == {*range(1, USERS + 1)}
    assert max(exchange.read_ns for exchange in first) < min(exchange.sent_ns[-1] for exchange in first)
