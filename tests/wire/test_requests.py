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
    assert {name: (api.name, api.path, api.end_hint) for name, api in APIS.items()} == {
        "chat": ("chat", "chat/completions", b"[DONE]"),
        "completions": ("completions", "completions", b"[DONE]"),
    }
