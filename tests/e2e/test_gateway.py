"""D61: a base URL with a path and no version goes where preflight found the API, in workers too."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.locust_process import start_locust
from tests.replay import DONE, ROLE, STOP, C, Exchange, Replay, Script, U, answer, stream
from tests.side_by_side import side_by_side

CHAT = (Path(__file__).parents[2] / "locustfiles" / "chat.py").read_text()
GOOD = stream((0, ROLE + C("Hi") + STOP + U(9, 1) + DONE))
ASKED = "/api/v1/chat/completions"


def gateway(exchange: Exchange) -> Script:
    return GOOD if exchange.target == ASKED else answer("404 Not Found", b'{"detail":"Not Found"}')


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes"])
def test_the_place_that_was_found(folder: Path, stack: ExitStack, mode: str) -> None:
    (folder / "locustfile.py").write_text(CHAT)
    server = stack.enter_context(Replay(choose=gateway))
    args = ["-f", "locustfile.py", "--headless", "--users", "2", "--run-time", "2s", "--llm-model", "m"]
    args += ["--host", f"{server.url}/api", "--llm-warmup", "1", "--llm-max-requests", "20"]
    args += ["--processes", "1"] if mode == "processes" else []
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    assert f"{server.url}{ASKED} does and is used" in result.output
    posts = [exchange.target for exchange in server.exchanges if exchange.method == "POST"]
    assert posts[0] == "/api/chat/completions"
    assert set(posts[1:]) == {ASKED}
    assert len(posts) > 4
