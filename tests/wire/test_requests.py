"""What is sent: the JSON body of each API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from locust_llm.wire.api import APIS, Call

MESSAGES = [{"role": "user", "content": "é\u2028\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("api", "call", "body"),
    [
        ("chat", Call(messages=MESSAGES), {"messages": MESSAGES} | STREAMED),
        (
            "chat",
            Call(messages=MESSAGES, model="m", max_tokens=5, temperature=0.0, seed=0, ignore_eos=True),
            {"messages": MESSAGES, "model": "m", "max_tokens": 5, "temperature": 0.0, "seed": 0, "ignore_eos": True}
            | STREAMED,
        ),
        ("chat", Call(messages=MESSAGES, include_usage=False), {"messages": MESSAGES, "stream": True}),
        ("chat", Call(messages=MESSAGES, stream=False), {"messages": MESSAGES, "stream": False}),
        (
            "chat",
            Call(messages=MESSAGES, temperature=0.5, extra={"temperature": 1, "top_k": 4, "stop": None}),
            {"messages": MESSAGES, "temperature": 1, "top_k": 4, "stop": None} | STREAMED,
        ),
        (
            "chat",
            Call(messages=MESSAGES, max_tokens=5, extra={"max_completion_tokens": 7}),
            {"messages": MESSAGES, "max_completion_tokens": 7} | STREAMED,
        ),
        ("completions", Call(prompt="p", max_tokens=5), {"prompt": "p", "max_tokens": 5} | STREAMED),
        ("completions", Call(prompt=["p", "q"]), {"prompt": ["p", "q"]} | STREAMED),
        ("completions", Call(prompt=[1, 2]), {"prompt": [1, 2]} | STREAMED),
    ],
    ids=["least", "all", "no usage (D34)", "not streamed", "extra wins", "other cap", "text", "texts", "token ids"],
)
def test_body(api: str, call: Call, body: dict[str, Any]) -> None:
    assert json.loads(APIS[api].encode(call)) == body


@pytest.mark.parametrize(
    ("prompt", "count"),
    [(None, 1), ("p", 1), ("", 1), ([], 1), (["p"], 1), (["p", "q"], 2), ([1, 2, 3], 1), ([[1], [2]], 2)],
)
def test_prompts(prompt: Any, count: int) -> None:
    assert Call(prompt=prompt).prompts == count


def test_apis() -> None:
    assert {name: (api.name, api.path, api.end_hint, api.lines) for name, api in APIS.items()} == {
        "chat": ("chat", "chat/completions", b"[DONE]", False),
        "completions": ("completions", "completions", b"[DONE]", False),
        "messages": ("messages", "messages", b"message_stop", False),
        "responses": ("responses", "responses", b"event: response.completed", False),
        "ollama": ("ollama", "api/chat", b'"done":true', True),
        "embeddings": ("embeddings", "embeddings", b"", False),
    }


USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
PARTS = {"role": "developer", "content": [{"type": "text", "text": "In verse."}]}
ALL = Call(messages=[SYSTEM, USER], model="m", max_tokens=5, temperature=0.0, seed=0, ignore_eos=True)
PLAIN = {"model": "m", "temperature": 0.0, "ignore_eos": True, "stream": True}
OTHERS: list[tuple[str, str, Call, dict[str, Any]]] = [
    ("least", "messages", Call(messages=[USER]), {"messages": [USER], "stream": True}),
    ("all", "messages", ALL, {"system": "Be brief.", "messages": [USER], "max_tokens": 5} | PLAIN),
    (
        "two system messages",
        "messages",
        Call(messages=[SYSTEM, USER, PARTS], stream=False),
        {"system": [{"type": "text", "text": "Be brief."}, *PARTS["content"]], "messages": [USER], "stream": False},
    ),
    ("extra wins", "messages", Call(messages=[USER], max_tokens=5, extra={"max_tokens": 7, "tools": []}),
     {"messages": [USER], "max_tokens": 7, "tools": [], "stream": True}),
    ("least", "responses", Call(messages=[USER]), {"input": [USER], "stream": True}),
    ("all", "responses", ALL, {"input": [SYSTEM, USER], "max_output_tokens": 5} | PLAIN),
    ("extra wins", "responses", Call(messages=[USER], extra={"input": "Hi"}, stream=False),
     {"input": "Hi", "stream": False}),
    ("least", "ollama", Call(messages=[USER]), {"messages": [USER], "stream": True, "options": {}}),
    ("all", "ollama", ALL, {"messages": [SYSTEM, USER], "model": "m", "stream": True,
     "options": {"num_predict": 5, "temperature": 0.0, "seed": 0, "ignore_eos": True}}),
    ("extra wins", "ollama", Call(messages=[USER], max_tokens=5, temperature=1.0, stream=False,
     extra={"options": {"temperature": 0.5, "num_ctx": 8}, "think": True}),
     {"messages": [USER], "stream": False, "think": True,
      "options": {"num_predict": 5, "temperature": 0.5, "num_ctx": 8}}),
    ("one text", "embeddings", Call(prompt="a", model="m", stream=False), {"input": "a", "model": "m"}),
    ("texts", "embeddings", Call(prompt=["a", "b"], stream=False, extra={"dimensions": 8}),
     {"input": ["a", "b"], "dimensions": 8}),
    ("a chat as a prompt", "completions", Call(messages=[USER]), {"prompt": "Hi"} | STREAMED),
    ("several messages as a prompt", "completions", Call(messages=[SYSTEM, USER, PARTS]),
     {"prompt": "Be brief.\n\nHi\n\nIn verse."} | STREAMED),
]  # fmt: skip


@pytest.mark.parametrize(("api", "call", "body"), [row[1:] for row in OTHERS], ids=[f"{r[1]} {r[0]}" for r in OTHERS])
def test_body_of_the_other_apis(api: str, call: Call, body: dict[str, Any]) -> None:
    """Nothing else is sent: no `seed` where there is none, and never `stream_options`."""
    assert json.loads(APIS[api].encode(call)) == body
