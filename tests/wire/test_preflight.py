"""Preflight: whatever is wrong with URL, key or model is told in one sentence with cause and fix, and holds no key."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from locust_llm.wire.access import OPENAI
from locust_llm.wire.api import APIS
from locust_llm.wire.call import Call
from locust_llm.wire.client import ClientConfig, LLMClient, ssl_context
from locust_llm.wire.credentials import credentials
from locust_llm.wire.preflight import Report, check, reach, same_model, warm_up
from locust_llm.wire.target import ConfigurationError, parse_target
from tests.replay import DONE, ROLE, STOP, C, End, Exchange, Replay, Script, U, answer, stream

KEY = "sk-preflight-secret"
GOOD = stream((0, ROLE + C("Hi") + STOP + U(9, 1) + DONE))
NOT_FOUND = answer("404 Not Found", b'{"detail":"Not Found"}')


def models(*names: str) -> Script:
    return answer("200 OK", json.dumps({"data": [{"id": name} for name in names]}).encode())


def serve(post: Script, get: Script = NOT_FOUND) -> Callable[[Exchange], Script]:
    return lambda exchange: post if exchange.method == "POST" else get


def client_for(
    url: str, monkeypatch: pytest.MonkeyPatch, *, key: str = KEY, connect_s: float = 5, stall_s: float = 20
) -> LLMClient:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    return LLMClient(
        ClientConfig(
            api=APIS["chat"],
            target=parse_target(url),
            credentials=credentials(None, OPENAI, ()),
            context=ssl_context(),
            connect_timeout_s=connect_s,
            stall_timeout_s=stall_s,
        )
    )


def run(client: LLMClient, like: Call, *, send: bool = True) -> Report:
    try:
        return check(client, like, send=send)
    finally:
        client.close()


def refusal(client: LLMClient, like: Call) -> str:
    with pytest.raises(ConfigurationError) as refused:
        run(client, like)
    assert KEY not in str(refused.value)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def error(status: str, message: str, **fields: str) -> Script:
    return answer(status, json.dumps({"error": {"message": message, **fields}}).encode())


HTML = b"<html><body>Please log in " + KEY.encode() + b"</body></html>"
REFUSALS = [
    ("a wrong key", error("401 Unauthorized", f"Incorrect API key provided: {KEY}", code="invalid_api_key"),
     NOT_FOUND, "m", ["HTTP 401 invalid_api_key", "refuses the key from OPENAI_API_KEY", "--llm-api-key-env"]),
    ("D64: forbidden", error("403 Forbidden", "no"), NOT_FOUND, "m", ["HTTP 403", "refuses the key"]),
    ("a wrong key, and no model named", error("401 Unauthorized", "no"), error("401 Unauthorized", "no"), "",
     ["HTTP 401", "refuses the key"]),
    ("D61: a wrong path", NOT_FOUND, NOT_FOUND, "m", ["/v1/chat/completions does not exist", "--host", "/v1"]),
    ("a wrong method", answer("405 Method Not Allowed", b"{}"), NOT_FOUND, "m", ["does not exist", "--host"]),
    ("D65: a wrong model", error("404 Not Found", "The model `m` does not exist.", type="NotFoundError"),
     models("a", "b"), "m", ["does not know the model 'm'", "--llm-model can be a, b"]),
    ("a wrong model as a bad request", error("400 Bad Request", "Invalid model name"), models("a"), "m",
     ["refuses the model 'm'", "--llm-model can be a"]),
    ("no model where one is wanted", error("400 Bad Request", "you must provide a model parameter"), NOT_FOUND, "",
     ["wants a model id", "lists none", "--llm-model NAME"]),
    ("D58: a page", answer("200 OK", HTML, content_type="text/html;charset=UTF-8"), NOT_FOUND, "m",
     ["a page, not an API", "unexpected content-type text/html", "--host"]),
    ("D66: a redirect", answer("301 Moved Permanently", b"", location="https://h/v1/chat/completions"), NOT_FOUND, "m",
     ["redirect 301", "https://h/v1/chat/completions", "final address"]),
    ("a bad request", error("422 Unprocessable Entity", "Unexpected keys: ignore_eos"), NOT_FOUND, "m",
     ["HTTP 422", "ignore_eos", "--llm-no-preflight"]),
    ("an engine that is loading", error("503 Service Unavailable", "Loading model"), NOT_FOUND, "m", ["HTTP 503"]),
    ("an error object with status 200", answer("200 OK", b'{"error":{"message":"upstream is down"}}'), NOT_FOUND, "m",
     ["status 200 and an error object", "upstream is down", "--llm-no-preflight"]),
    ("JSON without choices", answer("200 OK", b'{"status":"ok"}'), NOT_FOUND, "m",
     ["JSON that is no answer", '"status":"ok"', "--host"]),
    ("no money left", error("429 Too Many Requests", "You exceeded your quota", code="insufficient_quota"), NOT_FOUND,
     "m", ["HTTP 429 insufficient_quota"]),
    ("D01: an error in the stream", stream((0, b'data: {"error":{"message":"engine died","code":500}}\n\n' + DONE)),
     NOT_FOUND, "m", ["in-stream error", "engine died", "--llm-no-preflight"]),
    ("D02: a cut stream", stream((0, ROLE + C("Hi")), end=End.FIN), NOT_FOUND, "m", ["truncated stream"]),
    ("a server that leaves", Script((), End.FIN), NOT_FOUND, "m", ["cannot reach", "--host"]),
    ("a server that does not answer", Script((), End.HOLD), NOT_FOUND, "m", ["did not answer", "stall"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("post", "get", "model", "says"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_what_is_wrong(monkeypatch: pytest.MonkeyPatch, post: Script, get: Script, model: str, says: list[str]) -> None:
    with Replay(choose=serve(post, get)) as server:
        stall_s = 0.5 if post.end is End.HOLD else 20  # a busy machine is slow to answer, too
        sentence = refusal(client_for(server.url, monkeypatch, stall_s=stall_s), Call(model=model))
    for words in says:
        assert words in sentence, sentence


def test_no_key_where_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with Replay(choose=serve(error("401 Unauthorized", "no"))) as server:
        sentence = refusal(client_for(server.url, monkeypatch, key=""), Call(model="m"))
    assert "no key was sent: set OPENAI_API_KEY" in sentence


@pytest.mark.parametrize("model", ["m", ""], ids=["with a model", "without"])
def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    sentence = refusal(client_for(url, monkeypatch), Call(model=model))
    assert f"cannot reach {url.removeprefix('http://')}" in sentence
    assert "--host" in sentence


def test_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks as the test will, for a few tokens."""
    like = Call(model="m", max_tokens=256, temperature=0.5, seed=3, ignore_eos=True, extra={"top_p": 0.9})
    with Replay(GOOD) as server:
        report = run(client_for(server.url, monkeypatch), like)
    (asked,) = server.exchanges
    assert (asked.json["max_tokens"], asked.json["temperature"], asked.json["top_p"]) == (4, 0.5, 0.9)
    assert (asked.json["seed"], asked.json["ignore_eos"], asked.json["model"]) == (3, True, "m")
    assert ("authorization", f"Bearer {KEY}") in asked.headers
    assert report.warnings == []
    assert report.record is not None
    assert report.record.warmup
    assert f"{server.url}/v1/chat/completions, model m, answered in" in report.sentence


WARNINGS = [
    ("one model", GOOD, models("m"), "", "m", []),
    ("several models", GOOD, models("m", "n"), "", "m", ["taking 'm', the first of 2 listed"]),
    ("no list of models, and none needed", GOOD, NOT_FOUND, "", "", ["lists none: requests name no model"]),
    ("a list that is none", GOOD, answer("200 OK", b"[]"), "", "", ["lists none"]),
    ("rate-limited", error("429 Too Many Requests", "slow down"), NOT_FOUND, "m", "m", ["rate-limited"]),
    ("D34: no usage", stream((0, ROLE + C("Hi") + STOP + DONE)), NOT_FOUND, "m", "m", ["reports no token usage"]),
    ("D59: not streamed", answer("200 OK", b'{"model":"m","choices":[{"index":0,"message":{"content":"Hi"},'
     b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}'), NOT_FOUND, "m", "m",
     ["did not stream"]),
    ("D65: another model answers", GOOD, NOT_FOUND, "gpt-x", "gpt-x", ["asked for model 'gpt-x', answered by 'm'"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("post", "get", "named", "model", "says"), [row[1:] for row in WARNINGS], ids=[row[0] for row in WARNINGS]
)
def test_what_is_only_warned_of(
    monkeypatch: pytest.MonkeyPatch, post: Script, get: Script, named: str, model: str, says: list[str]
) -> None:
    with Replay(choose=serve(post, get)) as server:
        report = run(client_for(server.url, monkeypatch), Call(model=named))
    assert report.model == model
    assert len(report.warnings) == len(says), report.warnings
    for warning, words in zip(report.warnings, says, strict=True):
        assert words in warning


def test_without_sending_it_only_looks_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with Replay(choose=serve(GOOD, models("a"))) as server:
        assert run(client_for(server.url, monkeypatch), Call(), send=False).model == "a"
        assert run(client_for(server.url, monkeypatch), Call(model="b"), send=False).model == "b"
    assert [exchange.method for exchange in server.exchanges] == ["GET"]
    report = run(client_for(server.url, monkeypatch), Call(), send=False)
    assert "cannot reach" in report.warnings[0]


def at(*roots: str) -> Callable[[Exchange], Script]:
    """An API that stands below these paths alone; elsewhere nothing does."""

    def choose(exchange: Exchange) -> Script:
        known = any(exchange.target == f"{root}/{path}" for root in roots for path in ("chat/completions", "models"))
        return (GOOD if exchange.method == "POST" else models("m")) if known else NOT_FOUND

    return choose


@pytest.mark.parametrize("model", ["m", ""], ids=["model named", "model listed"])
@pytest.mark.parametrize(
    ("roots", "used"),
    [(["/api"], "/api"), (["/api/v1"], "/api/v1"), (["/api", "/api/v1"], "/api")],
    ids=["without a version", "with one", "both"],
)
def test_d61_a_path_that_can_mean_two_places(
    monkeypatch: pytest.MonkeyPatch, roots: list[str], used: str, model: str
) -> None:
    with Replay(choose=at(*roots)) as server:
        report = run(client_for(f"{server.url}/api", monkeypatch), Call(model=model))
    assert report.target is not None
    assert report.target.root == f"{server.url}{used}"
    assert f"LLM requests go to {server.url}{used}/chat/completions, model m" in report.sentence
    assert [f"give --host {server.url}{used}" in warning for warning in report.warnings] == [True] * (used != "/api")
    posts = [exchange.target for exchange in server.exchanges if exchange.method == "POST"]
    assert posts == ["/api/chat/completions", "/api/v1/chat/completions"][: 1 + (used != "/api")]


def test_d61_neither_of_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    with Replay(choose=at("/v1")) as server:
        sentence = refusal(client_for(f"{server.url}/api", monkeypatch), Call(model="m"))
    assert f"neither {server.url}/api/chat/completions nor {server.url}/api/v1/chat/completions exists" in sentence
    assert len(server.exchanges) == 2


def test_d61_a_version_that_stands_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with Replay(choose=at("/v1")) as server:
        sentence = refusal(client_for(f"{server.url}/v1/v1", monkeypatch), Call(model="m"))
    assert f"/v1 stands there twice, so give --host {server.url}/v1" in sentence


def test_d61_a_wrong_key_at_the_other_place(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = error("401 Unauthorized", "no")
    with Replay(choose=lambda exchange: refused if exchange.target.startswith("/api/v1/") else NOT_FOUND) as server:
        sentence = refusal(client_for(f"{server.url}/api", monkeypatch), Call(model="m"))
    assert "HTTP 401: it refuses the key" in sentence


def test_d82_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = iter("abc")
    with Replay(GOOD) as server:
        client = client_for(server.url, monkeypatch)
        records = warm_up(client, Call(model="m", max_tokens=9), 3, lambda: next(prompts))
        client.close()
    assert [record.warmup and record.success for record in records] == [True] * 3
    assert [exchange.json["messages"][0]["content"] for exchange in server.exchanges] == ["a", "b", "c"]
    assert {exchange.json["max_tokens"] for exchange in server.exchanges} == {9}


def test_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends no work, and whatever is answered will do."""
    with Replay(NOT_FOUND) as server:
        client = client_for(server.url, monkeypatch)
        assert reach(client) is None
        client.close()
    assert [exchange.method for exchange in server.exchanges] == ["GET"]
    client = client_for(server.url, monkeypatch)
    assert (reach(client) or "").startswith(f"cannot reach 127.0.0.1:{server.port}: connect failed")
    client.close()


SAME = [
    ("m", "m", True), ("M", "m", True), ("org/m", "m", True), ("m", "org/m", True),
    ("gpt-4o", "gpt-4o-2024-08-06", True), ("gpt-4o", "gpt-4", False), ("a", "b", False), ("typo", "gemma-1b", False),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "answered", "same"), SAME)
def test_names_of_one_model(asked: str, answered: str, same: bool) -> None:
    assert same_model(asked, answered) is same
