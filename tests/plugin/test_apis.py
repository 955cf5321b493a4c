"""Which API `self.client` speaks, where it asks, and with which key."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import pytest
from locust.env import Environment

from locust_llm import LLMUser
from locust_llm.plugin.session import Session, session_of
from locust_llm.wire.target import ConfigurationError
from tests.replay import Exchange, Replay, Script, answer, stream
from tests.wire import anthropic_cases, embeddings_cases, ollama_cases, responses_cases
from tests.wire_events import DONE, STOP, C, U, event

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
    "embeddings": "/v1/embeddings",
}
TEXT = event({"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]})
STREAMS = {
    "chat": C("Hi") + STOP + U(9, 1) + DONE,
    "completions": TEXT + U(9, 1) + DONE,
    "messages": anthropic_cases.start(input_tokens=9)
    + anthropic_cases.text("Hi")
    + anthropic_cases.end(output_tokens=1)
    + anthropic_cases.STOP,
    "responses": responses_cases.text("Hi") + responses_cases.end(input_tokens=9, output_tokens=1),
    "ollama": ollama_cases.line("Hi") + ollama_cases.end(prompt=9, output=1),
}
MESSAGE = {"index": 0, "message": {"content": "Hi"}, "text": "Hi", "finish_reason": "stop"}
OPENAI = json.dumps({"choices": [MESSAGE], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode()
SAID = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
WHOLE = {
    "chat": OPENAI,
    "completions": OPENAI,
    "messages": anthropic_cases.message({"type": "text", "text": "Hi"}, input_tokens=9, output_tokens=1),
    "responses": json.dumps(responses_cases.response("completed", SAID, input_tokens=9, output_tokens=1)).encode(),
    "ollama": ollama_cases.end("Hi", prompt=9, output=1),
    "embeddings": embeddings_cases.vectors(1),
}
VARIABLES = ("BASE_URL", "API_KEY", "MODEL", "AUTH_TOKEN", "HOST")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in ("OPENAI", "ANTHROPIC", "OLLAMA"):
        for variable in VARIABLES:
            monkeypatch.delenv(f"{vendor}_{variable}", raising=False)


def api_of(exchange: Exchange) -> str:
    [api] = [api for api, path in PATHS.items() if path == exchange.target]
    return api


def speak(exchange: Exchange) -> Script:
    """Answers as the API that was asked, streamed if that was asked for."""
    api = api_of(exchange)
    if exchange.json.get("stream"):
        return stream((0, STREAMS[api]))
    return answer("200 OK", WHOLE[api])


def make(host: str | None, own_api: str = "", **options: Any) -> LLMUser:
    """A user whose class names that API, with those `--llm-…` options."""

    class Asker(LLMUser):
        llm_api = own_api

    Asker.host = host
    parsed = Namespace(**{f"llm_{name}": value for name, value in options.items()})
    environment = Environment(user_classes=[Asker], parsed_options=parsed)
    environment.create_local_runner()
    return Asker(environment)


CHAT_APIS = [api for api in PATHS if api != "embeddings"]


@pytest.mark.parametrize("by_class", [False, True], ids=["by option", "by class"])
@pytest.mark.parametrize("api", CHAT_APIS)
def test_chat_speaks_what_is_asked_for(api: str, by_class: bool) -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, api) if by_class else make(server.url, api=api)
        record = user.client.chat("Hello", model="m")
        user.client.close()
    assert (record.error, record.api, record.text) == (None, api, "Hi")
    assert (record.output_tokens, record.input_tokens) == (1, 9)
    assert record.ttft_ms is not None
    assert [exchange.target for exchange in server.exchanges] == [PATHS[api]]
    assert "Hello" in server.exchanges[0].body.decode()


@pytest.mark.parametrize("api", CHAT_APIS)
def test_no_stream_gives_e2e_and_tokens_but_never_a_ttft(api: str) -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, api, no_stream=True)
        record = user.client.chat("Hello", model="m")
        user.client.close()
    assert server.exchanges[0].json["stream"] is False
    assert "stream_options" not in server.exchanges[0].json
    assert (record.error, record.text, record.output_tokens, record.input_tokens) == (None, "Hi", 1, 9)
    assert record.e2e_ms is not None
    assert (record.ttft_ms, record.tpot_ms, len(record.itl_ms)) == (None, None, 0)
    assert session_of(user.environment).stats.counts().not_streamed == 0


@pytest.mark.parametrize("extra", [{}, {"extra_body": ['{"stream": true}']}], ids=["alone", "over the option"])
def test_a_call_may_decide_for_itself_whether_it_streams(extra: dict[str, Any]) -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, **extra)
        record = user.client.chat("Hello", stream=False)
        user.client.close()
    assert (server.exchanges[0].json["stream"], "stream_options" in server.exchanges[0].json) == (False, False)
    assert (record.ttft_ms, record.output_tokens) == (None, 1)


def test_complete_stays_completions_whatever_chat_speaks() -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, "messages")
        record = user.client.complete("Hello")
        user.client.close()
    assert (record.api, record.text, server.exchanges[0].json["prompt"]) == ("completions", "Hi", "Hello")


def test_embed() -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, no_stream=False)
        record = user.client.embed("Hello", model="e", dimensions=8)
        with user.client.embed(["a", "b"], name="two", catch_response=True) as caught:
            pass
        user.client.close()
    assert server.exchanges[0].json == {"input": "Hello", "model": "e", "dimensions": 8}
    assert server.exchanges[1].json["input"] == ["a", "b"]
    assert (record.name, record.api, record.input_tokens) == ("embedding", "embeddings", 18)
    assert (record.output_tokens, record.token_source, record.ttft_ms, record.max_tokens) == (None, None, None, None)
    assert record.e2e_ms is not None
    assert (caught.error, caught.detail) == ("unexpected answer", "1 vectors for 2 texts")
    rows = {(kind, name): row.num_requests for (name, kind), row in user.environment.stats.entries.items()}
    assert rows == {("E2E", "embedding"): 1, ("E2E", "two"): 1}


def test_chat_of_a_user_that_only_embeds_is_a_chat() -> None:
    with Replay(choose=speak) as server:
        user = make(server.url, "embeddings")
        assert user.client.chat("Hello").api == "chat"
        user.client.close()


def test_each_api_has_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-anthropic")
    monkeypatch.setenv("ANTHROPIC_MODEL", "claude")
    with Replay(choose=speak) as server:
        user = make(server.url, "messages")
        user.client.chat("Hello")
        user.client.embed("Hello")
        user.client.close()
    chat, embedding = (dict(exchange.headers) for exchange in server.exchanges)
    assert (chat["x-api-key"], chat["anthropic-version"]) == ("sk-anthropic", "2023-06-01")
    assert "authorization" not in chat
    assert embedding["authorization"] == "Bearer sk-openai"
    assert not {"x-api-key", "anthropic-version"} & embedding.keys()
    assert server.exchanges[0].json["model"] == "claude"


def test_d64_a_key_and_a_token_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-anthropic")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    user = make("http://127.0.0.1:1", "messages")
    with pytest.raises(ConfigurationError, match="both set"):
        user.session.targets.config_for("http://127.0.0.1:1", "messages")
    assert user.session.targets.config_for("http://127.0.0.1:1", "chat").credentials.source == "none"


# -- targets -------------------------------------------------------------------------------------------------------


def session(**apis: str | None) -> Session:
    """The session of user classes with those APIs, by host."""
    classes = [type(f"U{api}", (LLMUser,), {"llm_api": api, "host": host}) for api, host in apis.items()]
    return session_of(Environment(user_classes=classes, parsed_options=Namespace()))


def test_an_unknown_api_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"Utelnet\.llm_api is 'telnet': give one of chat, "):
        session(telnet=None).targets.pairs()


def test_each_api_of_a_host_is_a_target() -> None:
    targets = session(messages="http://a", chat="http://a", embeddings="http://b").targets.pairs()
    assert targets == [("http://a", "messages"), ("http://a", "chat"), ("http://b", "embeddings")]


def test_without_a_host_each_family_has_its_own_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://openai.test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://anthropic.test")
    both = session(messages=None, chat=None)
    both.targets._settle_target()
    assert both.targets.base_urls == {"messages": "https://anthropic.test", "chat": "https://openai.test"}
    assert not both.simulated
    urls = {api: both.targets.config_for(None, api).url for api in ("chat", "messages", "embeddings", "completions")}
    assert urls == {
        "chat": "https://openai.test/v1/chat/completions",
        "messages": "https://anthropic.test/v1/messages",
        "embeddings": "https://openai.test/v1/embeddings",
        "completions": "https://openai.test/v1/completions",
    }


def test_without_a_default_of_its_own_an_api_asks_where_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://anthropic.test")
    only = session(messages=None)
    only.targets._settle_target()
    assert only.targets.config_for(None, "embeddings").url == "https://anthropic.test/v1/embeddings"


def test_without_any_default_the_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="set ANTHROPIC_BASE_URL"):
        session(messages=None).targets.config_for(None, "messages")
