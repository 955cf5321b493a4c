"""A mistake in URL, key or model ends the run before any load: one sentence, exit code 1, and the key in no output."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.locust_process import start_locust
from tests.plugin.endings import get_json, running_engine
from tests.replay import DONE, ROLE, STOP, C, Exchange, Replay, Script, U, answer, stream
from tests.service import free_port
from tests.side_by_side import side_by_side

CHAT = (Path(__file__).parents[2] / "locustfiles" / "chat.py").read_text()
KEY = "sk-e2e-SECRET-0123456789"
GOOD = stream((0, ROLE + C("Hi") + STOP + U(9, 1) + DONE))
PAGE = answer("200 OK", b"<html><script>alert(1)</script></html>", content_type="text/html")
MOVED = answer("301 Moved Permanently", b"", location="https://elsewhere/v1/chat/completions")
LIMITED = answer("401 Unauthorized", json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}}).encode())


def all_posts(script: Script) -> Callable[[Exchange], Script]:
    return lambda exchange: script if exchange.method == "POST" else answer("404 Not Found", b"{}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is served (None: nobody is there), what is given to Locust, and what its sentence must hold."""

    id: str
    serves: Script | None
    says: list[str]
    host: str = "URL"
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=lambda: {"OPENAI_API_KEY": KEY})
    posts: int = 1


REFUSALS = [
    Refusal("a wrong key", LIMITED, ["HTTP 401", "refuses the key from OPENAI_API_KEY"]),
    Refusal("no server", None, ["cannot reach 127.0.0.1:", "connect failed: refused"]),
    Refusal("D58: a page", PAGE, ["a page, not an API"]),
    Refusal("D66: a redirect", MOVED, ["redirect 301", "https://elsewhere"]),
    Refusal("D62: a line break within the key", GOOD, ["the key in OPENAI_API_KEY"],
            env={"OPENAI_API_KEY": f"{KEY}\nX: y"}, posts=0),
    Refusal("D62: curly quotes", GOOD, ["the key in OPENAI_API_KEY"], env={"OPENAI_API_KEY": f"“{KEY}”"}, posts=0),
    Refusal("D62: a header with a line break", GOOD, ["--llm-header X-Key"],
            args=["--llm-header", f"X-Key: {KEY}\nA: b"], posts=0),
    Refusal("D64: a password in the URL", GOOD, ["user name or password"], host=f"http://u:{KEY}@h/v1", posts=0),
    Refusal("a variable that is not set", GOOD, ["names NO_SUCH, which is not set"],
            args=["--llm-api-key-env", "NO_SUCH"], posts=0),
    Refusal("D63: a proxy that is none", GOOD, ["ALL_PROXY", "--llm-proxy none"],
            env={"ALL_PROXY": "socks5://127.0.0.1:1", "OPENAI_API_KEY": KEY}, posts=0),
    Refusal("no prompt file", GOOD, ["--llm-prompt-file", "No such file"],
            args=["--llm-prompt-file", "missing.txt"], posts=0),
    Refusal("a body that is no JSON", GOOD, ["--llm-extra-body is not JSON"], args=["--llm-extra-body", "{"], posts=0),
    Refusal("a certificate file that is none", GOOD, ["--llm-ca-cert"], args=["--llm-ca-cert", "locustfile.py"],
            posts=0),
    Refusal("a folder for a file", GOOD, ["--llm-json"], args=["--llm-json", "no/such/folder/run.json"]),
]  # fmt: skip

QUICK = {
    "a wrong key", "no server", "D58: a page", "D62: a line break within the key", "D64: a password in the URL",
    "no prompt file",
}  # fmt: skip
"""Every sentence has a quick test of its own in tests/wire; these show that it ends the run."""


@side_by_side
@pytest.mark.parametrize(
    "refusal",
    [pytest.param(each, id=each.id, marks=() if each.id in QUICK else pytest.mark.long) for each in REFUSALS],
)
def test_it_is_told_before_any_load(folder: Path, stack: ExitStack, refusal: Refusal) -> None:
    (folder / "locustfile.py").write_text(CHAT)
    url, server = f"http://127.0.0.1:{free_port()}", None
    if refusal.serves is not None:
        server = stack.enter_context(Replay(choose=all_posts(refusal.serves)))
        url = server.url
    args = ["-f", "locustfile.py", "--headless", "--users", "2", "--run-time", "5s", "--llm-model", "m"]
    args += ["--host", url if refusal.host == "URL" else refusal.host, *refusal.args, "--html", "report.html"]
    with start_locust(args, cwd=folder, env=refusal.env) as locust:
        result = locust.wait()
    assert result.exit_code == 1, result.output
    (sentence,) = [line for line in result.output.splitlines() if "/ERROR/" in line]
    for words in refusal.says:
        assert words in sentence
    assert "Traceback" not in result.output
    assert "Ramping" not in result.output
    if server is not None:
        assert len([exchange for exchange in server.exchanges if exchange.method == "POST"]) == refusal.posts
    assert_free_of_the_key(folder)


def assert_free_of_the_key(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".py":
            assert b"SECRET" not in file.read_bytes(), file


@side_by_side
def test_d65_a_wrong_model_and_a_wrong_path(folder: Path, stack: ExitStack) -> None:
    """The embedded engine answers as vLLM does."""
    (folder / "locustfile.py").write_text(CHAT)
    engine = stack.enter_context(running_engine(folder, "--model", "right"))
    for args, says in (
        (["--host", engine.url, "--llm-model", "wrong"], "does not know the model 'wrong': --llm-model can be right"),
        (["--host", f"{engine.url}/v1/v1"], f"{engine.url}/v1/v1/chat/completions does not exist there (HTTP 404)"),
    ):
        with start_locust(["-f", "locustfile.py", "--headless", *args], cwd=folder) as locust:
            result = locust.wait()
        assert result.exit_code == 1
        assert says in result.output
    assert get_json(f"{engine.url}/sim/counts")["received"] == 1  # a wrong path is not counted


@side_by_side
def test_workers_that_come_too_late_to_be_told_end_too(folder: Path, stack: ExitStack) -> None:
    late = "import os, time\nos.register_at_fork(after_in_child=lambda: time.sleep(60))\n"
    (folder / "locustfile.py").write_text(late + CHAT)
    server = stack.enter_context(Replay(choose=all_posts(LIMITED)))
    args = ["-f", "locustfile.py", "--headless", "--users", "2", "--llm-model", "m", "--host", server.url]
    args += ["--processes", "2"]
    with start_locust(args, cwd=folder, env={"OPENAI_API_KEY": KEY}) as locust:
        result = locust.wait(30)
    assert (result.exit_code, result.orphans) == (1, ())


@side_by_side
@pytest.mark.parametrize("mode", ["processes", "cluster"])
def test_a_master_is_told_and_its_workers_end(folder: Path, stack: ExitStack, mode: str) -> None:
    (folder / "locustfile.py").write_text(CHAT)
    server = stack.enter_context(Replay(choose=all_posts(LIMITED)))
    args = ["--headless", "--users", "2", "--llm-model", "m", "--host", server.url]
    if mode == "cluster":
        port = str(free_port())
        master_args = ["-f", "locustfile.py", "--master", "--master-bind-port", port, *args]
        # The worker is there before the master says why it leaves.
        worker = stack.enter_context(
            start_locust(["-f", "locustfile.py", "--worker", "--master-port", port], cwd=folder, name="worker")
        )
        master = stack.enter_context(start_locust(master_args, cwd=folder, env={"OPENAI_API_KEY": KEY}, name="master"))
        result = master.wait(30)
        worker.kill()
    else:
        extra = ["--processes", "2"]
        with start_locust(["-f", "locustfile.py", *args, *extra], cwd=folder, env={"OPENAI_API_KEY": KEY}) as locust:
            result = locust.wait(30)
    assert result.exit_code == 1
    assert result.output.count("refuses the key from OPENAI_API_KEY") == 1
    assert result.orphans == ()
    assert len(server.exchanges) == 1
    assert_free_of_the_key(folder)


@side_by_side
def test_d63_proxy_variables_do_not_capture_loopback(folder: Path, stack: ExitStack) -> None:
    """Nor does a newline at the end of the key hurt (D62), nor /v1 with a slash (D61)."""
    (folder / "locustfile.py").write_text(CHAT)
    server = stack.enter_context(Replay(GOOD))
    nowhere = f"http://127.0.0.1:{free_port()}"
    env = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), nowhere)
    env |= {"OPENAI_API_KEY": f"{KEY}\n", "OPENAI_MODEL": "from-the-variable", "OPENAI_BASE_URL": f"{server.url}/v1/"}
    args = ["-f", "locustfile.py", "--headless", "--users", "1", "--run-time", "1s", "--stop-timeout", "5"]
    with start_locust([*args, "--llm-json", "run.json", "--html", "report.html"], cwd=folder, env=env) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    assert {exchange.target for exchange in server.exchanges} == {"/v1/chat/completions"}
    assert {exchange.json["model"] for exchange in server.exchanges} == {"from-the-variable"}
    assert {value for exchange in server.exchanges for name, value in exchange.headers if name == "authorization"} == {
        f"Bearer {KEY}"
    }
    assert "SIMULATED" not in result.output
    assert_free_of_the_key(folder)


@side_by_side
def test_the_proxy_is_used_where_it_is_asked_for(folder: Path, stack: ExitStack) -> None:
    """And its password is in no output."""
    (folder / "locustfile.py").write_text(CHAT)
    proxy = stack.enter_context(Replay(GOOD))
    args = ["-f", "locustfile.py", "--headless", "--users", "1", "--run-time", "1s", "--stop-timeout", "5"]
    args += ["--host", "http://engine.invalid", "--llm-model", "m", "--llm-json", "run.json", "--html", "report.html"]
    args += ["--llm-proxy", f"http://u:{KEY}@127.0.0.1:{proxy.port}", "--llm-header", f"X-Api-Key: {KEY}"]
    args += ["--llm-html", "llm.html", "--llm-records", "records.jsonl"]
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    assert {exchange.target for exchange in proxy.exchanges} == {"http://engine.invalid/v1/chat/completions"}
    assert ("x-api-key", KEY) in proxy.exchanges[0].headers
    assert_free_of_the_key(folder)


@side_by_side
def test_d70_what_a_server_says_of_the_key_is_in_no_output(folder: Path, stack: ExitStack) -> None:
    """It works at first, and then refuses the key by its name, in the head, in the stream and in a page."""
    (folder / "locustfile.py").write_text(CHAT)
    in_stream = stream((0, b'data: {"error":{"message":"key %s revoked"}}\n\n' % KEY.encode() + DONE))
    page = answer("200 OK", b"<html>" + KEY.encode(), content_type="text/html")
    busy = answer("500 Internal Server Error", b"Bearer " + KEY.encode())
    server = stack.enter_context(Replay(GOOD, in_stream, LIMITED, page, busy, GOOD))
    args = ["-f", "locustfile.py", "--headless", "--users", "1", "--run-time", "3s", "--stop-timeout", "5"]
    args += ["--host", server.url, "--llm-model", "m", "--llm-json", "run.json", "--html", "report.html"]
    args += ["--llm-html", "llm.html", "--llm-records", "records.jsonl"]
    with start_locust(args, cwd=folder, env={"OPENAI_API_KEY": KEY}) as locust:
        result = locust.wait()
    assert result.exit_code == 1, result.output
    assert len((folder / "run_llm_errors.csv").read_text().splitlines()) == 1 + 4
    assert_free_of_the_key(folder)
    assert (folder / "records.jsonl").read_text().count('"failed"') == 4
