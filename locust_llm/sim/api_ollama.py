"""POST /api/chat, Ollama's own API: lines of JSON, streamed unless `stream` is false."""

from __future__ import annotations

import json
import time
from typing import Any

from locust_llm.sim.api import Api
from locust_llm.sim.ask import Ask, Usage, flag, messages_words, required, token_limit
from locust_llm.sim.http import invalid_field

JSON_LINES = "application/x-ndjson"


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    options = body.get("options")
    options = options if options is not None else {}
    if not isinstance(options, dict):
        raise invalid_field("options", "Input should be a valid dict")
    unlimited = options.get("num_predict") in (-1, -2)
    limit = None if unlimited else token_limit(options, "num_predict")
    words = messages_words(required(body, "messages"))
    return Ask(words, limit, stream=flag(body, "stream", True), ignore_eos=flag(options, "ignore_eos"))


class Writer:
    """The bytes of one answer."""

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))
        start = {"model": model, "created_at": made}
        self._finish = "stop"
        self._head = json.dumps(start).encode()[:-1] + b',"message":{"role":"assistant","content":"'
        self.plain = (self._head, b'"},"done":false}\n')

    def opening(self, usage: Usage) -> bytes:
        """Nothing goes before the first text."""
        return b""

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """A line with text; the last one says nothing of its being that."""
        if finish is not None:
            self._finish = finish
        return text.join(self.plain)

    def closing(self, usage: Usage) -> bytes:
        """The last line, with the counts."""
        return self.whole(b"", self._finish, usage) + b"\n"

    def failure(self, error: bytes) -> bytes:
        """An error in the middle of a stream, given as JSON."""
        return json.dumps({"error": json.loads(error)["error"]["message"]}).encode() + b"\n"

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        counts = b'"prompt_eval_count":%d,"eval_count":%d}' % (usage.prompt_tokens, usage.completion_tokens)
        return self._head + text + b'"},"done":true,"done_reason":"%b",' % finish.encode() + counts


API = Api("/api/chat", JSON_LINES, read, Writer)
