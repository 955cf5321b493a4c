"""POST /v1/completions, with vLLM's shapes: no role event, finish reason in the last text event."""

from __future__ import annotations

import json
from typing import Any

from locust_llm.sim.api import EVENT_STREAM, Api
from locust_llm.sim.ask import Ask, Usage, openai_ask, required
from locust_llm.sim.http import invalid_field
from locust_llm.sim.openai_usage import usage_json


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    prompt = required(body, "prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise invalid_field("prompt", "Input should be a valid string")
    return openai_ask(body, prompt.split())


class Writer:
    """The bytes of one answer."""

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        self._ask = ask
        start = f'"id":"cmpl-{number}","object":"text_completion","created":{created},"model":{json.dumps(model)}'
        self._start = start.encode() + b',"choices":['
        self._event = b"data: {" + self._start
        self._text_head = self._event + b'{"index":0,"text":"'

    @property
    def plain(self) -> tuple[bytes, bytes] | None:
        """What stands around the text, unless usage makes every event different."""
        if self._ask.continuous_usage:
            return None
        return self._text_head, b'","logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":null}]}\n\n'

    def opening(self, usage: Usage) -> bytes:
        """Nothing goes before the first text."""
        return b""

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """An event with text; the last one carries the finish reason."""
        reason = b'"%b"' % finish.encode() if finish is not None else b"null"
        running = b',"usage":' + usage_json(usage) if self._ask.continuous_usage else b""
        choice = b'","logprobs":null,"finish_reason":%b,"stop_reason":null,"token_ids":null}]' % reason
        return self._text_head + text + choice + running + b"}\n\n"

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
        choice = b'{"index":0,"text":"%b","logprobs":null,"finish_reason":"%b","stop_reason":null}]'
        return b"{" + self._start + choice % (text, finish.encode()) + b',"usage":' + usage_json(usage) + b"}"


API = Api("/v1/completions", EVENT_STREAM, read, Writer)
