"""POST /v1/responses in vLLM's shapes: "completed" also where the status is "incomplete".

The events that end an answer do not repeat its text, as a real server's do.
"""

from __future__ import annotations

import json
from typing import Any

from locust_llm.sim.api import EVENT_STREAM, Api
from locust_llm.sim.ask import Ask, Usage, content_words, flag, messages_words, required, token_limit


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    given = required(body, "input")
    words = given.split() if isinstance(given, str) else messages_words(given, "input")
    words = content_words(body.get("instructions"), "instructions") + words
    limit = token_limit(body, "max_output_tokens")
    return Ask(words, limit, stream=flag(body, "stream"), ignore_eos=flag(body, "ignore_eos"))


class Writer:
    """The bytes of one answer."""

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        self._number = number
        self._response = {"id": f"resp_{number}", "object": "response", "created_at": created, "model": model}
        self._finish = "stop"
        place = {"item_id": f"msg_{number}", "output_index": 0, "content_index": 0}
        delta = _event({"type": "response.output_text.delta", **place, "delta": ""})
        tail = b'"}\n\n'
        self.plain = (delta.removesuffix(tail), tail)

    def opening(self, usage: Usage) -> bytes:
        """The response, its message and that one's part are announced."""
        begun = {**self._response, "status": "in_progress", "output": [], "usage": None}
        item = {**self._message("in_progress"), "content": []}
        part = {"item_id": item["id"], "content_index": 0, "part": {"type": "output_text", "text": ""}}
        return (
            _event({"type": "response.created", "response": begun})
            + _event({"type": "response.in_progress", "response": begun})
            + _event({"type": "response.output_item.added", "output_index": 0, "item": item})
            + _event({"type": "response.content_part.added", "output_index": 0, **part})
        )

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """An event with text; the last one says nothing of its being that."""
        if finish is not None:
            self._finish = finish
        return text.join(self.plain)

    def closing(self, usage: Usage) -> bytes:
        """The end of the message, and the response with its usage."""
        item = {**self._message("completed"), "content": []}
        return _event({"type": "response.output_item.done", "output_index": 0, "item": item}) + _event(
            {"type": "response.completed", "response": self._ended([], self._finish, usage)}
        )

    def failure(self, error: bytes) -> bytes:
        """An error in the middle of a stream, given as JSON."""
        told = {"code": "server_error", "message": json.loads(error)["error"]["message"]}
        return _event({"type": "response.failed", "response": {**self._response, "status": "failed", "error": told}})

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        part = {"type": "output_text", "text": text.decode(), "annotations": []}
        return json.dumps(self._ended([{**self._message("completed"), "content": [part]}], finish, usage)).encode()

    def _message(self, status: str) -> dict[str, Any]:
        return {"id": f"msg_{self._number}", "type": "message", "role": "assistant", "status": status}

    def _ended(self, output: list[dict[str, Any]], finish: str, usage: Usage) -> dict[str, Any]:
        why = {"reason": "max_output_tokens"} if finish == "length" else None
        counts = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }
        status = "completed" if why is None else "incomplete"
        ended = {"status": status, "incomplete_details": why, "error": None, "output": output, "usage": counts}
        return {**self._response, **ended}


def _event(document: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), json.dumps(document).encode())


API = Api("/v1/responses", EVENT_STREAM, read, Writer)
