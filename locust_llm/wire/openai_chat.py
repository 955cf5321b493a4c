"""The chat/completions API of OpenAI and of everything that speaks like it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from locust_llm.measure.timeline import Timeline
from locust_llm.wire.access import OPENAI
from locust_llm.wire.call import Call, plain
from locust_llm.wire.openai_answer import END_HINT, OpenAIDecoder

_json = msgspec.json.Encoder(enc_hook=plain)


def body_fields(call: Call) -> dict[str, Any]:
    """The body's fields that both OpenAI APIs share; `extra` is for the caller to add last."""
    body: dict[str, Any] = {"stream": call.stream}
    if call.model:
        body["model"] = call.model
    if call.stream and call.include_usage:
        body["stream_options"] = {"include_usage": True}
    if call.max_tokens is not None and "max_completion_tokens" not in call.extra:  # OpenAI refuses both
        body["max_tokens"] = call.max_tokens
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.seed is not None:
        body["seed"] = call.seed
    if call.ignore_eos:
        body["ignore_eos"] = True
    return body


class ChatCompletions:
    """Messages in, a message out."""

    name: Final = "chat"
    path: Final = "chat/completions"
    end_hint: Final = END_HINT
    access: Final = OPENAI
    lines: Final = False

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request."""
        return _json.encode({"messages": call.messages or [], **body_fields(call), **call.extra})

    def decoder(self, timeline: Timeline, call: Call) -> OpenAIDecoder:
        """A decoder for the answer to `call`."""
        return OpenAIDecoder(timeline)


CHAT: Final = ChatCompletions()
