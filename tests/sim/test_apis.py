"""The APIs beside OpenAI's two: what their streams and answers hold, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.service import Service
from tests.sim.talking import FAST, ask, connect, counts, get, post

Start = Callable[..., Service]
MESSAGES, RESPONSES, EMBEDDINGS, OLLAMA = "/v1/messages", "/v1/responses", "/v1/embeddings", "/api/chat"
HELLO = [{"role": "user", "content": "one two"}]


def stream(url: str, path: str, body: dict[str, Any]) -> tuple[str, list[Any]]:
    """The content type and the events of a stream; of named ones the names are checked."""
    connection = connect(url)
    try:
        response = post(connection, path, {**body, "stream": True})
        assert response.status == 200
        text = response.read().decode()
        if path == OLLAMA:
            return response.headers["content-type"], [json.loads(line) for line in text.splitlines()]
        events = []
        for frame in text.removesuffix("\n\n").split("\n\n"):
            name, data = frame.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
        return response.headers["content-type"], events
    finally:
        connection.close()


def test_messages(url: str) -> None:
    body = {"messages": HELLO, "system": "three four five", "max_tokens": 3}
    content_type, events = stream(url, MESSAGES, body)
    assert content_type.startswith("text/event-stream")
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [event["delta"] for event in events[2:5]] == [
        {"type": "text_delta", "text": text} for text in (" river", " stone", " cloud")
    ]
    head, end = events[0]["message"], events[6]
    assert (head["model"], head["content"], head["stop_reason"]) == ("sim", [], None)
    assert head["usage"] == {"input_tokens": 5, "output_tokens": 0}
    assert end["delta"]["stop_reason"] == "max_tokens"
    assert end["usage"] == {"input_tokens": 5, "output_tokens": 3}
    status, whole = ask(url, MESSAGES, body)
    assert (status, whole["type"], whole["stop_reason"], whole["usage"]) == (200, "message", "max_tokens", end["usage"])
    assert whole["content"] == [{"type": "text", "text": " river stone cloud"}]


def test_messages_tell_cached_tokens_apart(sim_server: Start) -> None:
    url = sim_server(*FAST, "--prefix-cache-tokens", "10000").url
    body = {"messages": [{"role": "user", "content": "w " * 500}], "max_tokens": 1}
    first, second = (ask(url, MESSAGES, body)[1]["usage"] for _ in range(2))
    assert first == {"input_tokens": 500, "output_tokens": 1, "cache_read_input_tokens": 0}
    assert second["cache_read_input_tokens"] > 0
    assert second["input_tokens"] + second["cache_read_input_tokens"] == 500


def test_responses(url: str) -> None:
    body = {"input": HELLO, "instructions": "three", "max_output_tokens": 2}
    _, events = stream(url, RESPONSES, body)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in events[4:6]] == [" river", " stone"]
    end = events[-1]["response"]
    assert (end["status"], end["incomplete_details"], end["model"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
        "sim",
    )
    assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (3, 2)
    status, whole = ask(url, RESPONSES, {**body, "input": "one two"})
    assert (status, whole["status"], whole["usage"]) == (200, "incomplete", end["usage"])
    assert whole["output"][0]["content"][0]["text"] == " river stone"


def test_ollama(url: str) -> None:
    body = {"messages": HELLO, "options": {"num_predict": 2}}
    content_type, lines = stream(url, OLLAMA, body)
    assert content_type == "application/x-ndjson"
    said = [(line["message"]["content"], line["done"]) for line in lines]
    assert said == [(" river", False), (" stone", False), ("", True)]
    assert (lines[-1]["done_reason"], lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]) == ("length", 2, 2)
    status, whole = ask(url, OLLAMA, {**body, "stream": False})
    assert (status, whole["message"]["content"], whole["done"]) == (200, " river stone", True)
    assert json.loads(get(url, "/api/tags")) == {"models": [{"name": "sim", "model": "sim"}]}


def test_ollama_streams_unless_told_not_to(url: str) -> None:
    connection = connect(url)
    response = post(connection, OLLAMA, {"messages": HELLO, "options": {"num_predict": 1}})
    assert response.headers["content-type"] == "application/x-ndjson"
    response.read()
    connection.close()


def test_embeddings(url: str) -> None:
    before = counts(url)["finished"]
    status, one = ask(url, EMBEDDINGS, {"input": "one two", "dimensions": 4})
    assert (status, one["object"], one["model"]) == (200, "list", "sim")
    assert one["usage"] == {"prompt_tokens": 2, "total_tokens": 2, "completion_tokens": 0}
    assert [len(entry["embedding"]) for entry in one["data"]] == [4]
    _, three = ask(url, EMBEDDINGS, {"input": ["one two", "three", "four"]})
    assert [(entry["index"], len(entry["embedding"])) for entry in three["data"]] == [(0, 64), (1, 64), (2, 64)]
    assert three["usage"]["prompt_tokens"] == 4
    assert counts(url)["finished"] == before + 2


def test_an_answer_that_ends_by_itself(sim_server: Start) -> None:
    url = sim_server(*FAST, "--answer-tokens", "2").url
    bodies = {
        MESSAGES: {"messages": HELLO, "max_tokens": 9},
        RESPONSES: {"input": "x", "max_output_tokens": 9},
        OLLAMA: {"messages": HELLO, "options": {"num_predict": -1}},
    }
    ends = {path: stream(url, path, body)[1][-2:] for path, body in bodies.items()}
    assert ends[MESSAGES][0]["delta"]["stop_reason"] == "end_turn"
    assert ends[RESPONSES][1]["response"]["status"] == "completed"
    assert ends[OLLAMA][1]["done_reason"] == "stop"
    longer = {**bodies[MESSAGES], "ignore_eos": True}
    assert ask(url, MESSAGES, longer)[1]["usage"]["output_tokens"] == 9


def test_an_error_in_the_middle_has_the_shape_of_its_api(sim_server: Start) -> None:
    url = sim_server(*FAST, "--fault", "error:1").url
    message = stream(url, MESSAGES, {"messages": HELLO, "max_tokens": 50})[1][-1]
    assert (message["type"], message["error"]["type"]) == ("error", "api_error")
    response = stream(url, RESPONSES, {"input": "x", "max_output_tokens": 50})[1][-1]
    assert (response["type"], response["response"]["error"]["code"]) == ("response.failed", "server_error")
    line = stream(url, OLLAMA, {"messages": HELLO, "options": {"num_predict": 50}})[1][-1]
    assert list(line) == ["error"]
    assert "Injected fault" in line["error"]


REFUSED = [
    (MESSAGES, {"messages": HELLO}, "max_tokens"),
    (MESSAGES, {"messages": [], "max_tokens": 1}, "messages"),
    (MESSAGES, {"messages": HELLO, "max_tokens": 0}, "max_tokens"),
    (MESSAGES, {"messages": HELLO, "max_tokens": 1, "system": 7}, "system"),
    (MESSAGES, {"messages": HELLO, "max_tokens": 1, "stream": "yes"}, "stream"),
    (RESPONSES, {}, "input"),
    (RESPONSES, {"input": [7]}, "input.0"),
    (RESPONSES, {"input": "x", "max_output_tokens": "1"}, "max_output_tokens"),
    (OLLAMA, {"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
    (OLLAMA, {"messages": HELLO, "options": []}, "options"),
    (OLLAMA, {"messages": HELLO, "options": {"num_predict": 0}}, "num_predict"),
    (EMBEDDINGS, {}, "input"),
    (EMBEDDINGS, {"input": []}, "input"),
    (EMBEDDINGS, {"input": [1, 2]}, "input"),
    (EMBEDDINGS, {"input": "x", "encoding_format": "base64"}, "encoding_format"),
    (EMBEDDINGS, {"input": "x", "dimensions": 0}, "dimensions"),
]


@pytest.mark.parametrize(("path", "body", "field"), REFUSED, ids=[f"{row[0]} {row[2]}" for row in REFUSED])
def test_a_request_that_makes_no_sense(url: str, path: str, body: dict[str, Any], field: str) -> None:
    status, answer = ask(url, path, body)
    assert (status, answer["error"]["param"]) == (400, f"body.{field}")


def test_the_key_may_come_in_either_header(sim_server: Start) -> None:
    url = sim_server(*FAST, "--api-key", "sk-1").url
    body = {"messages": HELLO, "max_tokens": 1, "stream": False}
    for headers, status in (
        ({}, 401),
        ({"x-api-key": "sk-2"}, 401),
        ({"x-api-key": "sk-1"}, 200),
        ({"authorization": "Bearer sk-1"}, 200),
    ):
        for path in (MESSAGES, OLLAMA):
            assert ask(url, path, body, headers)[0] == status
