"""The bytes of answers, whole and streamed, and of errors: vLLM's shapes, as a client meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.service import Service
from tests.sim.talking import CHAT, COMPLETIONS, FAST, ask, chat, connect, counts, events, get, post, raw

Start = Callable[..., Service]


def test_the_exact_bytes_of_a_streamed_chat(url: str) -> None:
    body = json.dumps(chat(stream=True, max_tokens=3, stream_options={"include_usage": True}))
    request = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    answer = raw(url, request.encode())
    head, _, chunks = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"server: locust-llm-sim",
        b"connection: close",
        b"content-type: text/event-stream; charset=utf-8",
        b"cache-control: no-cache",
        b"transfer-encoding: chunked",
    ]
    start = rb'data: {"id":"chatcmpl-[0-9a-f]{16}","object":"chat.completion.chunk","created":\d{10},"model":"sim",'
    choice = rb'"choices":\[\{"index":0,"delta":\{%b\},"logprobs":null,"finish_reason":%b\}\]\}\n\n'
    expected = [
        start + choice % (rb'"role":"assistant","content":""', b"null"),
        start + choice % (rb'"content":" river"', rb'null,"token_ids":null'),
        start + choice % (rb'"content":" stone"', rb'null,"token_ids":null'),
        start + choice % (rb'"content":" cloud"', rb'"length","stop_reason":null,"token_ids":null'),
        start + rb'"choices":\[\],"usage":\{"prompt_tokens":2,"total_tokens":5,"completion_tokens":3\}\}\n\n'
        rb"data: \[DONE\]\n\n",
    ]
    for pattern in expected:
        size, _, rest = chunks.partition(b"\r\n")
        chunk, chunks = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        assert re.fullmatch(pattern, chunk), (pattern, chunk)
    assert chunks == b"0\r\n\r\n"


def test_a_streamed_completion(url: str) -> None:
    found = events(url, COMPLETIONS, {"prompt": "one two three", "max_tokens": 2})
    assert found.pop() == "[DONE]"
    objects = [json.loads(event) for event in found]
    rest = {"index": 0, "logprobs": None, "stop_reason": None, "token_ids": None}
    assert [event["choices"] for event in objects] == [
        [{**rest, "text": " river", "finish_reason": None}],
        [{**rest, "text": " stone", "finish_reason": "length"}],
    ]
    assert {(event["object"], event["model"]) for event in objects} == {("text_completion", "sim")}
    assert not any("usage" in event for event in objects)


WHOLE = [
    pytest.param(
        CHAT,
        chat("a b c", max_tokens=2),
        "chat.completion",
        {"message": {"role": "assistant", "content": " river stone"}, "finish_reason": "length"},
        id="chat",
    ),
    pytest.param(
        COMPLETIONS,
        {"prompt": ["a b c"], "max_tokens": 2},
        "text_completion",
        {"text": " river stone", "finish_reason": "length", "stop_reason": None},
        id="completions",
    ),
]


@pytest.mark.parametrize(("path", "body", "kind", "choice"), WHOLE)
def test_an_answer_that_is_not_streamed(
    url: str, path: str, body: dict[str, Any], kind: str, choice: dict[str, Any]
) -> None:
    status, answer = ask(url, path, body)
    assert status == 200
    assert (answer["object"], answer["model"]) == (kind, "sim")
    assert answer["choices"] == [{"index": 0, "logprobs": None, **choice}]
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}


def test_usage_in_every_event(url: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    for path, body in ((CHAT, chat("a b")), (COMPLETIONS, {"prompt": "a b"})):
        found = events(url, path, {**body, "max_tokens": 3, "stream_options": options})
        usages = [json.loads(event)["usage"] for event in found if event != "[DONE]"]
        opening = [0] if path == CHAT else []
        assert [usage["completion_tokens"] for usage in usages] == [*opening, 1, 2, 3, 3]
        assert all(usage["total_tokens"] == 2 + usage["completion_tokens"] for usage in usages)


CHUNKS = [(1, [1] * 8), (3, [1, 3, 3, 1]), (50, [1, 7])]


@pytest.mark.parametrize(("size", "expected"), CHUNKS)
def test_tokens_per_chunk(sim_server: Start, size: int, expected: list[int]) -> None:
    url = sim_server(*FAST, "--tokens-per-chunk", str(size)).url
    found = [json.loads(event) for event in events(url, CHAT, chat(max_tokens=8)) if event != "[DONE]"]
    texts = [event["choices"][0]["delta"]["content"] for event in found]
    assert [text.count(" ") for text in texts] == [0, *expected]
    assert "".join(texts) == " river stone cloud ember grove lemon piano tiger"
    assert [event["choices"][0]["finish_reason"] for event in found] == [None] * len(expected) + ["length"]


LENGTHS = [
    ({"max_tokens": 9}, 4, "stop"),
    ({"max_completion_tokens": 2, "max_tokens": 9}, 2, "length"),
    ({"max_tokens": 4}, 4, "stop"),
    ({"max_tokens": 9, "ignore_eos": True}, 9, "length"),
    ({}, 4, "stop"),
    ({"ignore_eos": True}, 12, "length"),
]


@pytest.mark.parametrize(("fields", "tokens", "reason"), LENGTHS)
def test_where_an_answer_ends(sim_server: Start, fields: dict[str, Any], tokens: int, reason: str) -> None:
    url = sim_server(*FAST, "--answer-tokens", "4", "--default-max-tokens", "12").url
    _, answer = ask(url, CHAT, chat(**fields))
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == reason


PROMPTS = [
    ([{"role": "user", "content": "one  two\nthree"}], 3),
    ([{"role": "system", "content": "a b"}, {"role": "user", "content": "c"}], 3),
    ([{"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "text", "text": "c d"}]}], 4),
    ([{"role": "assistant", "content": None}, {"role": "user", "content": "x"}], 1),
    ([{"role": "user", "content": ""}], 1),
]


@pytest.mark.parametrize(("messages", "tokens"), PROMPTS)
def test_a_word_is_a_prompt_token(url: str, messages: list[dict[str, Any]], tokens: int) -> None:
    _, answer = ask(url, CHAT, {"messages": messages, "max_tokens": 1})
    assert answer["usage"]["prompt_tokens"] == tokens


BAD = [
    pytest.param(CHAT, b"", 400, "missing", id="no body"),
    pytest.param(CHAT, b'{"model":', 400, "json_invalid", id="broken JSON"),
    pytest.param(CHAT, b"[1]", 400, "dict_type", id="not an object"),
    pytest.param(CHAT, b"\xff\xfe{", 400, "json_invalid", id="not UTF-8"),
    pytest.param(CHAT, b"[" * 100_000, 400, "json_invalid", id="too deep"),
    pytest.param(CHAT, {"model": "sim"}, 400, "body.messages", id="no messages"),
    pytest.param(CHAT, {"messages": []}, 400, "at least one message", id="empty messages"),
    pytest.param(CHAT, {"messages": ["hi"]}, 400, "valid dictionary", id="a message that is none"),
    pytest.param(CHAT, {"messages": [{"content": 5}]}, 400, "valid string", id="content that is none"),
    pytest.param(COMPLETIONS, {"model": "sim"}, 400, "body.prompt", id="no prompt"),
    pytest.param(COMPLETIONS, {"prompt": ["a", "b"]}, 400, "body.prompt", id="two prompts"),
    pytest.param(CHAT, chat(max_tokens="many"), 400, "body.max_tokens", id="max_tokens a word"),
    pytest.param(CHAT, chat(max_tokens=0), 400, "body.max_tokens", id="max_tokens 0"),
    pytest.param(CHAT, chat(max_completion_tokens=True), 400, "body.max_completion_tokens", id="a bool for a number"),
    pytest.param(CHAT, chat(n=2), 400, "body.n", id="n = 2"),
    pytest.param(CHAT, chat(stream="yes"), 400, "body.stream", id="stream a word"),
    pytest.param(CHAT, chat(stream_options=5), 400, "body.stream_options", id="stream_options a number"),
    pytest.param(CHAT, {**chat(), "model": "gpt"}, 404, "`gpt` does not exist", id="unknown model"),
    pytest.param(CHAT, {**chat(), "model": 5}, 400, "valid string", id="model a number"),
]


@pytest.mark.parametrize(("path", "body", "status", "said"), BAD)
def test_a_bad_request_is_refused_as_vllm_does(url: str, path: str, body: Any, status: int, said: str) -> None:
    before = counts(url)
    found, answer = ask(url, path, body)
    assert found == status
    assert said in json.dumps(answer)
    assert answer["error"]["code"] == status
    after = counts(url)
    assert [after[name] - before[name] for name in ("received", "invalid", "in_flight")] == [1, 1, 0]


def test_paths_and_methods(url: str) -> None:
    connection = connect(url)
    for method, path, status in (
        ("GET", "/v1/chat", 404),
        ("POST", "/nowhere", 404),
        ("GET", CHAT, 405),
        ("POST", "/health", 405),
        ("GET", "/health?deep=1", 200),
    ):
        connection.request(method, path)
        response = connection.getresponse()
        assert (method, path, response.status) == (method, path, status)
        response.read()
    connection.close()
    assert json.loads(get(url, "/v1/models"))["data"][0]["id"] == "sim"


KEYS = [
    ({}, 401),
    ({"authorization": "Bearer wrong"}, 401),
    ({"authorization": "sk-test"}, 401),
    ({"authorization": "Bearer sk-test"}, 200),
    ({"x-api-key": "sk-test"}, 200),
    ({"x-api-key": "wrong"}, 401),
]


def test_a_key_is_asked_for_on_v1_only(sim_server: Start) -> None:
    url = sim_server(*FAST, "--api-key", "sk-test").url
    for headers, status in KEYS:
        found, answer = ask(url, CHAT, chat(max_tokens=1), headers)
        assert (headers, found) == (headers, status)
        assert (answer == {"error": "Unauthorized"}) == (status == 401)
    connection = connect(url)
    for path, status in (("/v1/models", 401), ("/health", 200), ("/metrics", 200), ("/sim/counts", 200)):
        connection.request("GET", path)
        response = connection.getresponse()
        assert (path, response.status) == (path, status)
        response.read()
    connection.close()
    assert counts(url)["invalid"] == 4


def test_any_model_is_answered_by_its_own_name(sim_server: Start) -> None:
    url = sim_server(*FAST, "--any-model", "--model", "base").url
    for name, told in (("gpt-9 \"x\"", "gpt-9 \"x\""), (None, "base")):  # fmt: skip
        _, answer = ask(url, CHAT, {**chat(max_tokens=1), "model": name})
        assert answer["model"] == told


REFUSALS = [
    pytest.param(("--max-queue", "0", "--slots", "1"), 503, "queue_full", "1", id="full queue"),
    pytest.param(("--max-queue", "0", "--slots", "1", "--queue-status", "429"), 429, "queue_full", "1", id="as 429"),
    pytest.param(("--rate-limit-rps", "0.1"), 429, "rate_limit_exceeded", "10", id="rate limit"),
]


@pytest.mark.parametrize(("options", "status", "kind", "retry_after_s"), REFUSALS)
def test_a_refusal_says_when_to_come_back(
    sim_server: Start, options: tuple[str, ...], status: int, kind: str, retry_after_s: str
) -> None:
    url = sim_server(*options).url
    first = connect(url)
    assert post(first, CHAT, chat(max_tokens=1000, stream=True)).status == 200
    second = connect(url)
    response = post(second, CHAT, chat(stream=True))
    assert (response.status, response.headers["retry-after"]) == (status, retry_after_s)
    assert json.loads(response.read())["error"]["type"] == kind
    told = counts(url)
    assert (told["received"], told["rejected"], told["in_flight"]) == (2, 1, 1)
    first.close()
    second.close()


def test_too_long_for_the_context(sim_server: Start) -> None:
    url = sim_server(*FAST, "--context-tokens", "100").url
    status, answer = ask(url, CHAT, chat("word " * 60, max_tokens=41))
    assert (status, answer["error"]["type"]) == (400, "BadRequestError")
    _, answer = ask(url, CHAT, chat("word " * 60))  # names no limit: gets what the context leaves
    assert answer["usage"]["completion_tokens"] == 40
    assert json.loads(get(url, "/v1/models"))["data"][0]["max_model_len"] == 100


def test_cached_tokens_are_told_when_there_is_a_cache(sim_server: Start) -> None:
    url = sim_server(*FAST, "--prefix-cache-tokens", "10000").url
    shared = "word " * 64
    usages = [ask(url, CHAT, chat(shared + tail, max_tokens=1))[1]["usage"] for tail in ("a b c", "d e f g h")]
    assert [usage["prompt_tokens_details"] for usage in usages] == [{"cached_tokens": 0}, {"cached_tokens": 64}]
    page = get(url, "/metrics").decode()
    assert 'vllm:prefix_cache_hits_total{engine="0",model_name="sim"} 64' in page
    assert 'vllm:prefix_cache_queries_total{engine="0",model_name="sim"} 136' in page


def test_usage_can_overreport(sim_server: Start) -> None:
    url = sim_server(*FAST, "--overreport", "0.05").url
    _, answer = ask(url, CHAT, chat(max_tokens=100))
    assert answer["usage"]["completion_tokens"] == 105
    assert answer["choices"][0]["message"]["content"].count(" ") == 100
