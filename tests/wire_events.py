"""Server-sent events of an OpenAI-like chat stream, under the short names that the test cases use.

Each is a whole event as bytes, blank line included: `ROLE + C("Hi") + STOP + U(9, 1) + DONE` is a whole answer.
"""

from __future__ import annotations

import json
from typing import Any

_CHUNK = {"id": "c1", "object": "chat.completion.chunk", "model": "m"}


def event(payload: object) -> bytes:
    """One event with that JSON as its data, characters unescaped."""
    return b"data: " + json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def delta(fields: dict[str, Any] | None, *, index: int = 0, finish: str | None = None, **chunk: Any) -> bytes:
    """An event with one choice and that delta; further keywords stand beside `choices`, as `usage={…}` does."""
    return event(_CHUNK | {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]} | chunk)


def C(text: str, *, index: int = 0, finish: str | None = None, **chunk: Any) -> bytes:  # noqa: N802
    """Content."""
    return delta({"content": text}, index=index, finish=finish, **chunk)


def R(text: str, *, index: int = 0, **chunk: Any) -> bytes:  # noqa: N802
    """Reasoning."""
    return delta({"reasoning_content": text}, index=index, **chunk)


def U(prompt_tokens: int, completion_tokens: int) -> bytes:  # noqa: N802
    """Usage in an event without choices."""
    return event(_CHUNK | {"choices": [], "usage": usage(prompt_tokens, completion_tokens)})


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """The usage object, for events that carry it beside their choices."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


ROLE = delta({"role": "assistant", "content": ""})
STOP = delta({}, finish="stop")
DONE = b"data: [DONE]\n\n"
