"""The Messages API of Anthropic, also spoken by vLLM, llama.cpp and gateways.

Theory of operation. An answer is a list of content blocks, each begun, filled by deltas and stopped. Output events are
the deltas that carry text, thinking or the arguments of a tool, and the rare block that begins with some; the head,
starts, stops, signatures and pings are none. `stop_reason` completes the answer, `message_stop` ends it.

Usage is cumulative and comes twice, at the head and with the stop reason, each time with some of the counts: of each
the last one that is not 0 holds. The prompt is what was read anew, what came from the cache and what was put into it.
The head's output count is of no output yet, and is not used.

Claude streams a summary of its thinking, or none of it, while the usage counts all of it. It gives itself away by the
signature of the thinking, which holds the whole of it encrypted (others sign with an id or not at all), or by blocks
that are redacted. Then how many tokens were streamed is unknown, unless none of the thinking was and usage tells how
many tokens it had.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from locust_llm.measure.record import Usage
from locust_llm.measure.timeline import CONTENT, REASONING, Timeline
from locust_llm.wire import failures
from locust_llm.wire.access import ANTHROPIC
from locust_llm.wire.call import Call, Message, plain
from locust_llm.wire.document import as_count, as_list, as_object, as_text, read_document
from locust_llm.wire.event import read_event, tells_error

_encoder = msgspec.json.Encoder(enc_hook=plain)

_INPUT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_SYSTEM: Final = ("system", "developer")
_ENCRYPTED_LENGTH: Final = 64
"""A signature longer than this holds the thinking itself."""

STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status that each type of error has when it comes before the stream."""


class AnthropicMessages:
    """Messages in, a message of content blocks out."""

    name: Final = "messages"
    path: Final = "messages"
    end_hint: Final = b"message_stop"
    access: Final = ANTHROPIC
    lines: Final = False

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request. System messages become the `system` field; there is no `seed`."""
        messages = call.messages or []
        body: dict[str, Any] = {"stream": call.stream}
        system = [message.get("content") for message in messages if message.get("role") in _SYSTEM]
        if system:
            body["system"] = system[0] if len(system) == 1 else _blocks(system)
        body["messages"] = [message for message in messages if message.get("role") not in _SYSTEM]
        if call.model:
            body["model"] = call.model
        if call.max_tokens is not None:
            body["max_tokens"] = call.max_tokens
        if call.temperature is not None:
            body["temperature"] = call.temperature
        if call.ignore_eos:
            body["ignore_eos"] = True
        return _encoder.encode({**body, **call.extra})

    def decoder(self, timeline: Timeline, call: Call) -> MessagesDecoder:
        """A decoder for the answer to `call`."""
        return MessagesDecoder(timeline)


MESSAGES: Final = AnthropicMessages()


class MessagesDecoder:
    """Writes one answer of the Messages API into its Timeline."""

    __slots__ = ("_encrypted", "_input", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._input: dict[str, int] = {}
        self._encrypted = False

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """One event of the stream, complete at `at_ns`."""
        document = read_event(self._timeline, at_ns, name, data)
        if document is None:
            return
        kind = as_text(document.get("type")) or name
        if tells_error(document, name):
            self._fail(document)
        elif kind == "content_block_delta":
            self._read_delta(at_ns, _index(document), as_object(document.get("delta")))
        elif kind == "content_block_start":
            self._read_block(at_ns, _index(document), as_object(document.get("content_block")))
        elif kind == "message_start":
            self._read_head(as_object(document.get("message")))
        elif kind == "message_delta":
            self._read_end(document, as_object(document.get("delta")))
        elif kind == "message_stop":
            self._timeline.done(at_ns)

    def whole(self, at_ns: int, data: bytes) -> None:
        """One JSON document instead of a stream, whole at `at_ns`. It has no output events."""
        self._timeline.streamed = False
        document = as_object(read_document(data))
        if tells_error(document):
            self._fail(document)
        elif isinstance(document.get("content"), list):
            for index, block in enumerate(document["content"]):
                self._read_block(None, index, as_object(block))
            self._read_head(document)
            self._read_end(document, document)
            self._timeline.done(at_ns)

    # -- content -------------------------------------------------------------------------------------------------

    def _read_delta(self, at_ns: int, index: int, delta: Mapping[str, Any]) -> None:
        """The next piece of a block."""
        timeline = self._timeline
        if text := as_text(delta.get("text")):
            timeline.say(CONTENT, 0, text)
            timeline.output(at_ns)
        elif thought := as_text(delta.get("thinking")):
            timeline.say(REASONING, 0, thought)
            timeline.output(at_ns, visible=False)
        elif arguments := as_text(delta.get("partial_json")):
            timeline.call_tool(0, index, arguments=arguments)
            timeline.output(at_ns)
        else:
            self._read_signature(delta)

    def _read_block(self, at_ns: int | None, index: int, block: Mapping[str, Any]) -> None:
        """A block as it begins, which is mostly empty, or (without a time) whole."""
        timeline = self._timeline
        text, thought = as_text(block.get("text")), as_text(block.get("thinking"))
        given = block.get("input")
        if text:
            timeline.say(CONTENT, 0, text)
        if thought:
            timeline.say(REASONING, 0, thought)
        if isinstance(given, dict):
            name, call_id = as_text(block.get("name")) or "", as_text(block.get("id")) or ""
            arguments = json.dumps(given) if given else ""
            timeline.call_tool(0, index, name=name, arguments=arguments, call_id=call_id)
        if block.get("type") == "redacted_thinking":
            self._encrypted = True
        self._read_signature(block)
        if at_ns is not None and (text or thought or given):
            timeline.output(at_ns, visible=not thought)

    def _read_signature(self, part: Mapping[str, Any]) -> None:
        if len(as_text(part.get("signature")) or "") > _ENCRYPTED_LENGTH:
            self._encrypted = True

    # -- head and end --------------------------------------------------------------------------------------------

    def _read_head(self, message: Mapping[str, Any]) -> None:
        """Which model answers, and the prompt's tokens."""
        model = as_text(message.get("model"))
        if model:
            self._timeline.model_answered = model
        self._timeline.report(self._usage(as_object(message.get("usage")), of_output=False))

    def _read_end(self, document: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        """Usage and why the answer ends, if it does."""
        timeline = self._timeline
        timeline.report(self._usage(as_object(document.get("usage")), of_output=True))
        if reason := as_text(delta.get("stop_reason")):
            timeline.finish(0, reason)
        if self._encrypted and (timeline.reasoning_streamed or timeline.usage.reasoning_tokens is None):
            timeline.summarised = True

    def _usage(self, usage: Mapping[str, Any], *, of_output: bool) -> Usage:
        """The counts so far."""
        for name in _INPUT:
            count = as_count(usage.get(name))
            if count is not None and (count or name not in self._input):
                self._input[name] = count
        return Usage(
            input_tokens=sum(self._input.values()) if self._input else None,
            output_tokens=as_count(usage.get("output_tokens")) if of_output else None,
            cached_tokens=self._input.get("cache_read_input_tokens"),
            reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
        )

    def _fail(self, document: Mapping[str, Any]) -> None:
        """An error in the stream is counted with those that come as a status (529 and `overloaded_error` …)."""
        error = as_object(document.get("error"))
        status = STATUSES.get(as_text(error.get("type")) or "")
        told = document if status is None else {"error": {**error, "code": status}}
        self._timeline.fail(*failures.in_stream_failure(told))


def _index(document: Mapping[str, Any]) -> int:
    return as_count(document.get("index")) or 0


def _blocks(contents: Sequence[Any]) -> list[Message]:
    """Several contents, each a text or a list of blocks, as one list of blocks."""
    return [
        block
        for content in contents
        for block in (as_list(content) if not isinstance(content, str) else [{"type": "text", "text": content}])
    ]
