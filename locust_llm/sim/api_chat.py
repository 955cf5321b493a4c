"""POST /v1/chat/completions in vLLM's shapes: role event with the first token, finish reason in the last text event."""

from __future__ import annotations

import json
from typing import Any

from locust_llm.sim.api import EVENT_STREAM, Api
from locust_llm.sim.ask import Ask, Usage, messages_words, openai_ask, required
from locust_llm.sim.openai_usage import usage_json


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    return openai_ask(body, messages_words(required(body, "messages")))


class Writer:
    """The bytes of one answer."""

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        self._ask = ask
        self._start = (
            f'"id":"chatcmpl-{number}","object":"%s","created":{created},"model":{json.dumps(model)},"choices":['
        )
        self._event = ("data: {" + self._start % "chat.completion.chunk").encode()
        self._text_head = self._event + b'{"index":0,"delta":{"content":"'

    @property
    def plain(self) -> tuple[bytes, bytes] | None:
        """What stands around the text, unless usage makes every event different."""
        if self._ask.continuous_usage:
            return None
        return self._text_head, b'"},"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n'

    def opening(self, usage: Usage) -> bytes:
        """The role event."""
        choice = b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return self._event + choice + self._running_usage(usage) + b"}\n\n"

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """An event with text; the last one carries the finish reason."""
        reason = b'"%b","stop_reason":null' % finish.encode() if finish is not None else b"null"
        choice = b'"},"logprobs":null,"finish_reason":%b,"token_ids":null}]' % reason
        return self._text_head + text + choice + self._running_usage(usage) + b"}\n\n"

    def closing(self, usage: Usage) -> bytes:
        """What follows the last text: the usage event, when asked for, and [DONE]."""
        if not self._ask.include_usage:
            return b"data: [DONE]\n\n"
        return self._event + b'],"usage":' + usage_json(usage) + b"}\n\ndata: [DONE]\n\n"

    def failure(self, error: bytes) -> bytes:
        """An error in the middle of a stream, given as JSON."""
        return b"data: " + error + b"\n\ndata: [DONE]\n\n"

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""
        choice = b'{"index":0,"message":{"role":"assistant","content":"%b"},"logprobs":null,"finish_reason":"%b"}]'
        start = ("{" + self._start % "chat.completion").encode()
        return start + choice % (text, finish.encode()) + b',"usage":' + usage_json(usage) + b"}"

    def _running_usage(self, usage: Usage) -> bytes:
        return b',"usage":' + usage_json(usage) if self._ask.continuous_usage else b""


API = Api("/v1/chat/completions", EVENT_STREAM, read, Writer)
