"""POST /v1/messages, Anthropic's API, in vLLM's shapes. Refusals have the shape of the other APIs, as vLLM's have."""

from __future__ import annotations

import json
from typing import Any

from locust_llm.sim.api import EVENT_STREAM, Api
from locust_llm.sim.ask import Ask, Usage, content_words, flag, messages_words, required, token_limit

_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"',
    b'"},"index":0}\n\n',
)
_REASONS = {"length": "max_tokens", "stop": "end_turn"}


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    words = content_words(body.get("system"), "system") + messages_words(required(body, "messages"))
    required(body, "max_tokens")
    limit = token_limit(body, "max_tokens")
    return Ask(words, limit, stream=flag(body, "stream"), ignore_eos=flag(body, "ignore_eos"))


class Writer:
    """The bytes of one answer."""

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        self.plain = _DELTA
        self._message: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
        self._reason = "end_turn"

    def opening(self, usage: Usage) -> bytes:
        """The head of the message, and of its one block."""
        message = {**self._message, "content": [], "stop_reason": None, "usage": _usage(usage)}
        block = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}, "index": 0}
        return _event({"type": "message_start", "message": message}) + _event(block)

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """An event with text; the last one says nothing of its being that."""
        if finish is not None:
            self._reason = _REASONS[finish]
        return text.join(_DELTA)

    def closing(self, usage: Usage) -> bytes:
        """The end of the block, the stop reason with usage, and the end of the message."""
        stop = {"stop_reason": self._reason, "stop_sequence": None}
        end = {"type": "message_delta", "delta": stop, "usage": _usage(usage)}
        return _event({"type": "content_block_stop", "index": 0}) + _event(end) + _event({"type": "message_stop"})

    def failure(self, error: bytes) -> bytes:
        """An error in the middle of a stream, given as JSON."""
        told = json.loads(error)["error"]
        return _event({"type": "error", "error": {"type": "api_error", "message": told["message"]}})

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        content = [{"type": "text", "text": text.decode()}]
        end = {"content": content, "stop_reason": _REASONS.get(finish), "stop_sequence": None, "usage": _usage(usage)}
        return json.dumps({**self._message, **end}).encode()


def _event(document: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), json.dumps(document).encode())


def _usage(usage: Usage) -> dict[str, int]:
    """Tokens from the cache stand apart from the others of the prompt."""
    cached = usage.cached_tokens
    told = {"input_tokens": usage.prompt_tokens - (cached or 0), "output_tokens": usage.completion_tokens}
    return told if cached is None else {**told, "cache_read_input_tokens": cached}


API = Api("/v1/messages", EVENT_STREAM, read, Writer)
