"""doctor: each thing that can be wrong is told by its stage in one sentence with cause and fix, and no key is shown."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from locust_llm.cli import main
from tests.cli.golden import assert_golden, is_golden
from tests.engine.llama import API_KEY, Llama
from tests.replay import DONE, ROLE, STOP, C, End, Exchange, Replay, Script, U, answer, stream
from tests.service import Service, clean_environment, free_port
from tests.wire.certificates import Authority
from tests.wire.fronts import TlsFront

KEY = "sk-doctor-SECRET-0123456789"
MODELS = answer("200 OK", b'{"data":[{"id":"m"}]}')
NOT_FOUND = answer("404 Not Found", b'{"detail":"Not Found"}')
GOOD = stream((0, ROLE + C("Hi")), (150, C(" you") + C("!", finish="stop") + U(9, 3) + DONE))


def whole(content: str = "Hi you!", *, finish: str = "stop", tokens: int = 3) -> Script:
    choice = {"index": 0, "message": {"content": content}, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": tokens}
    return answer("200 OK", json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode())


def refusal(status: str, message: str, **fields: str) -> Script:
    return answer(status, json.dumps({"error": {"message": message, **fields}}).encode())


def serve(in_one: Script, streamed: Script, models: Script = MODELS) -> Callable[[Exchange], Script]:
    def choose(exchange: Exchange) -> Script:
        if exchange.method == "GET":
            return models
        return streamed if exchange.json["stream"] else in_one

    return choose


def only_at(root: str) -> Callable[[Exchange], Script]:
    """A gateway whose API stands below one path alone."""

    def choose(exchange: Exchange) -> Script:
        known = (f"{root}/models", f"{root}/chat/completions")
        return serve(whole(), GOOD)(exchange) if exchange.target in known else NOT_FOUND

    return choose


PAGE = answer("200 OK", b"<html><body>Please log in</body></html>", content_type="text/html")
ERROR_OBJECT = answer("200 OK", b'{"error":{"message":"upstream is out of credits","code":"no_credits"}}')
LIMITED = refusal("401 Unauthorized", f"Incorrect API key provided: {KEY}", code="invalid_api_key")
ONE_TOKEN = stream((0, ROLE + C("Yes") + STOP + U(9, 1) + DONE))
FILTERED = stream((0, ROLE + C("No", finish="content_filter") + U(9, 1) + DONE))
BURST = stream((600, ROLE + b"".join(C(f"w{i} ") for i in range(20)) + STOP + U(9, 20) + DONE))


@dataclass(frozen=True, slots=True)
class Case:
    """What answers (None: nobody), what is typed after the host's port, and the expected exit code."""

    id: str
    choose: Callable[[Exchange], Script] | None
    exit_code: int = 1
    path: str = "/v1"
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=lambda: {"OPENAI_API_KEY": KEY})


CASES = [
    Case("healthy", serve(whole(), GOOD), 0),
    Case("dead-port", None),
    Case("wrong-key", serve(LIMITED, LIMITED, LIMITED)),
    Case("wrong-key-models-open", serve(LIMITED, LIMITED)),
    Case("no-key", serve(LIMITED, LIMITED, LIMITED), env={}),
    Case("shortened-key", serve(LIMITED, LIMITED, LIMITED), env={"OPENAI_API_KEY": "sk-SECRET...4567"}),
    Case("oauth-token", serve(LIMITED, LIMITED, LIMITED), env={"OPENAI_API_KEY": "ya29.SECRETSECRETSECRET"}),
    Case("two-credentials", serve(LIMITED, LIMITED, LIMITED),
         args=["--llm-header", "Authorization: Bearer sk-other-SECRET-9876543210"]),
    Case("key-with-a-newline", serve(whole(), GOOD), env={"OPENAI_API_KEY": f"{KEY}\nmore"}),
    Case("page", serve(PAGE, PAGE, PAGE)),
    Case("error-object", serve(ERROR_OBJECT, ERROR_OBJECT)),
    Case("no-choices", serve(answer("200 OK", b'{"status":"ok"}'), answer("200 OK", b'{"status":"ok"}'))),
    Case("stream-ignored", serve(whole(), whole()), 0),
    Case("usage-differs", serve(whole(tokens=4), GOOD), 0),
    Case("one-token", serve(whole("Yes", tokens=1), ONE_TOKEN), 0),
    Case("filtered", serve(whole("No", finish="content_filter", tokens=1), FILTERED), 0),
    Case("burst", serve(whole(), BURST), 0),
    Case("unknown-model", serve(*[refusal("404 Not Found", "The model `x` does not exist.")] * 2),
         args=["--llm-model", "x"]),
    Case("wants-max-completion-tokens",
         serve(*[refusal("400 Bad Request", "Use 'max_completion_tokens' instead of 'max_tokens'.")] * 2)),
    Case("double-version", only_at("/v1"), path="/v1/v1"),
    Case("gateway-without-version", only_at("/api"), 0, path="/api"),
    Case("gateway-with-version", only_at("/api/v1"), 0, path="/api"),
    Case("gateway-with-neither", only_at("/openai"), path="/api"),
    Case("redirect", serve(*[answer("301 Moved Permanently", b"", location="https://h/v1/chat/completions")] * 2)),
    Case("server-error", serve(*[refusal("503 Service Unavailable", "Loading model")] * 2)),
    Case("stream-refused", serve(whole(), refusal("400 Bad Request", "streaming is not supported"))),
    Case("no-answer", serve(Script((), End.HOLD), Script((), End.HOLD), Script((), End.HOLD)),
         args=["--llm-connect-timeout", "0.5", "--llm-timeout", "0.5"]),
    Case("not-an-option-value", serve(whole(), GOOD), args=["--llm-extra-body", "{"]),
]  # fmt: skip


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`doctor(*arguments, **variables)` → (exit code, what was printed)."""

    def examine(*arguments: str, **variables: str) -> tuple[int, str]:
        for name in set(os.environ) - set(clean_environment(Path.home())):
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        exit_code = main(["doctor", *arguments])
        printed = capsys.readouterr()
        assert printed.err == ""
        assert "SECRET" not in printed.out
        return exit_code, printed.out

    return examine


TRIES = 3
"""A machine that is busy for a fifth of a second reads what came apart together, and then no TPOT is printed."""


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_what_it_prints(case: Case, doctor: Any) -> None:
    for _ in range(TRIES):
        exit_code, printed = examined(case, doctor)
        if is_golden(f"doctor/{case.id}.txt", printed):
            break
    assert_golden(f"doctor/{case.id}.txt", printed)
    assert exit_code == case.exit_code


def examined(case: Case, doctor: Any) -> tuple[int, str]:
    with ExitStack() as stack:
        if case.choose is not None:
            host = stack.enter_context(Replay(choose=case.choose)).url
        else:
            host = f"http://127.0.0.1:{free_port()}"
        told: tuple[int, str] = doctor("--host", host + case.path, *case.args, **case.env)
        return told


def test_a_proxy_variable_that_leads_nowhere(doctor: Any) -> None:
    """D63"""
    nowhere = f"http://127.0.0.1:{free_port()}"
    exit_code, printed = doctor("--host", "http://llm.example/v1", OPENAI_API_KEY=KEY, HTTP_PROXY=nowhere)
    assert_golden("doctor/proxy-to-nowhere.txt", printed)
    assert exit_code == 1


@pytest.mark.parametrize(
    ("name", "trusted", "scheme", "expected"),
    [("tls", True, "https", 0), ("tls-unknown-issuer", False, "https", 1), ("tls-on-a-plain-port", True, "plain", 1)],
)
def test_tls(name: str, trusted: bool, scheme: str, expected: int, tmp_path: Path, doctor: Any) -> None:
    authority = Authority(tmp_path)
    with Replay(choose=serve(whole(), GOOD)) as server, TlsFront(server.port, authority.context()) as front:
        host = front.url if scheme == "https" else server.url.replace("http:", "https:")
        args = ["--llm-ca-cert", str(authority.pem)] if trusted else []
        exit_code, printed = doctor("--host", host, "--llm-connect-timeout", "3", *args, OPENAI_API_KEY=KEY)
    assert_golden(f"doctor/{name}.txt", printed.replace(str(authority.pem), "AUTHORITY.pem"))
    assert exit_code == expected


def test_an_unknown_model_of_an_engine_that_is_strict(sim_server: Callable[..., Service], doctor: Any) -> None:
    """D65"""
    engine = sim_server("--model", "right")
    exit_code, printed = doctor("--host", engine.url, "--llm-model", "wrong")
    assert_golden("doctor/sim-unknown-model.txt", printed)
    assert exit_code == 1


BURST_WARNING = "warning: the whole answer came in one burst"
LLAMA = [
    ("healthy", "/v1", API_KEY, [], 0),
    ("wrong-key", "/v1", "sk-wrong-0123456789abcdef", [], 1),
    ("wrong-path", "/llm", API_KEY, [], 1),
    ("double-version", "/v1/v1", API_KEY, [], 1),
    ("another-model", "/v1", API_KEY, ["--llm-model", "gpt-x"], 0),
]


def unhurried(printed: str) -> str:
    """The engine's 16 tokens take it a few ms, so that on a busy machine all may be read at once, and have no times."""
    kept = [line for line in printed.splitlines(keepends=True) if BURST_WARNING not in line]
    text = re.sub(r"((TTFT|TPOT) \d+\.\d ms, )+", "", "".join(kept))
    alone = BURST_WARNING in printed and "asked for model" not in printed
    return text.replace("warning  stream", "ok       stream") if alone else text


@pytest.mark.engine
@pytest.mark.parametrize(("name", "path", "key", "args", "expected"), LLAMA, ids=[row[0] for row in LLAMA])
def test_the_real_engine(
    name: str, path: str, key: str, args: list[str], expected: int, llama_with_key: Llama, doctor: Any
) -> None:
    exit_code, printed = doctor("--host", llama_with_key.url + path, *args, OPENAI_API_KEY=key)
    assert_golden(f"doctor/llama-{name}.txt", unhurried(printed))
    assert exit_code == expected
    assert key not in printed


def test_json_for_scripts(doctor: Any) -> None:
    with Replay(choose=serve(whole(), GOOD)) as server:
        exit_code, printed = doctor("--host", server.url, "--json", OPENAI_API_KEY=KEY)
    told = json.loads(printed)
    assert (exit_code, told["healthy"], told["model"]) == (0, True, "m")
    assert told["url"] == f"{server.url}/v1/chat/completions"
    assert {stage["status"] for stage in told["stages"]} == {"ok"}
    (streamed,) = (stage["facts"] for stage in told["stages"] if stage["stage"] == "stream")
    assert (streamed["output_events"], streamed["output_tokens"], streamed["tokens_per_event"]) == (3, 3, 1.0)
    assert [event["output"] for event in streamed["events"]] == [False, True, True, True, False, False]
    assert 0 <= streamed["ttft_ms"] < streamed["e2e_ms"]


def test_json_of_options_that_cannot_be(doctor: Any) -> None:
    exit_code, printed = doctor("--json", "--host", "ftp://h")
    told = json.loads(printed)
    assert (exit_code, told["healthy"], told["curl"]) == (1, False, None)
    assert told["stages"][0]["stage"] == "settings"
    assert "is not an HTTP URL" in told["stages"][0]["sentence"]
    assert {stage["status"] for stage in told["stages"][1:]} == {"skipped"}


def test_the_curl_line_asks_the_same(doctor: Any) -> None:
    args = ["--llm-header", "X-Tenant: a b'c", "--llm-header", "X-Api-Token: other-SECRET", "--llm-seed", "7"]
    with Replay(choose=serve(whole(), GOOD)) as server:
        _, printed = doctor("--host", f"{server.url}/v1?api-version=1", "--json", *args, MY_KEY=KEY,
                            LOCUST_LLM_API_KEY_ENV="MY_KEY")  # fmt: skip
    words = shlex.split(json.loads(printed)["curl"])
    (asked,) = (exchange for exchange in server.exchanges if exchange.method == "POST" and exchange.json["stream"])
    assert words[:2] == ["curl", "-sS"]
    assert f"{server.url}/v1/chat/completions?api-version=1" in words
    assert json.loads(words[words.index("-d") + 1]) == asked.json
    headers = dict(word.split(": ", 1) for before, word in itertools.pairwise(words) if before == "-H")
    assert headers["X-Tenant"] == "a b'c"
    assert headers["X-Api-Token"] == "$X_API_TOKEN"
    assert headers["Authorization"] == "Bearer $MY_KEY"


def test_as_a_command(tmp_path: Path) -> None:
    """It starts the embedded engine, and leaves none."""
    command = [sys.executable, "-m", "locust_llm.cli", "doctor", "--host", "sim", "--json"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["model"] == "sim"


def test_a_bad_value_names_its_option_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--host", "sim", "--llm-max-tokens", "0"])
    assert ended.value.code == 2
    assert "error: argument --llm-max-tokens: must be at least 1, not 0" in capsys.readouterr().err


def test_it_needs_a_host(doctor: Any) -> None:
    exit_code, printed = doctor()
    assert exit_code == 1
    assert "no endpoint: give --host URL, set OPENAI_BASE_URL" in printed


def test_the_family_of_an_api_has_its_own_variables(doctor: Any) -> None:
    with Replay(choose=serve(whole(), GOOD)) as server:
        _, printed = doctor("--llm-api", "messages", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY)
    assert f"{server.url}/v1/messages (messages)" in printed
    assert '-H "x-api-key: $ANTHROPIC_API_KEY"' in printed
