"""Ollama's own chat API: a stream of JSON lines, the last of which says `done` and holds the counts.

Tool calls come whole, each in one line. A line with `error` may follow any other. An answer that came whole in its
only line was not streamed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from locust_llm.measure.record import Usage
from locust_llm.measure.timeline import CONTENT, REASONING, Timeline
from locust_llm.wire import failures
from locust_llm.wire.access import OLLAMA
from locust_llm.wire.call import Call, plain
from locust_llm.wire.document import as_count, as_list, as_object, as_text, read_document
from locust_llm.wire.event import read_event, tells_error

_encoder = msgspec.json.Encoder(enc_hook=plain)


class OllamaChat:
    """Messages in, a message out."""

    name: Final = "ollama"
    path: Final = "api/chat"
    end_hint: Final = b'"done":true'
    access: Final = OLLAMA
    lines: Final = True

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request. What steers sampling stands under `options`; the caller's own win there too."""
        options: dict[str, Any] = {}
        if call.max_tokens is not None:
            options["num_predict"] = call.max_tokens
        if call.temperature is not None:
            options["temperature"] = call.temperature
        if call.seed is not None:
            options["seed"] = call.seed
        if call.ignore_eos:
            options["ignore_eos"] = True
        body: dict[str, Any] = {"messages": call.messages or [], "stream": call.stream}
        if call.model:
            body["model"] = call.model
        return _encoder.encode({**body, **call.extra, "options": {**options, **as_object(call.extra.get("options"))}})

    def decoder(self, timeline: Timeline, call: Call) -> OllamaDecoder:
        """A decoder for the answer to `call`."""
        return OllamaDecoder(timeline)


OLLAMA_CHAT: Final = OllamaChat()


class OllamaDecoder:
    """Writes one answer of Ollama's chat API into its Timeline."""

    __slots__ = ("_timeline", "_tools")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._tools = 0

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """One line of the stream, complete at `at_ns`."""
        document = read_event(self._timeline, at_ns, name, data)
        if document is None:
            return
        timeline = self._timeline
        said, visible = self._read(at_ns, document)
        if said and document.get("done") is True and not timeline.event_ns:
            timeline.streamed = False
        elif said:
            timeline.output(at_ns, visible=visible)

    def whole(self, at_ns: int, data: bytes) -> None:
        """One JSON document instead of a stream, whole at `at_ns`. It has no output events."""
        self._timeline.streamed = False
        self._read(at_ns, as_object(read_document(data)))

    def _read(self, at_ns: int, line: Mapping[str, Any]) -> tuple[bool, bool]:
        """Note what a line says; whether it is output, and whether a reader can see it."""
        timeline = self._timeline
        if tells_error(line):
            timeline.fail(*failures.in_stream_failure(line))
        if model := as_text(line.get("model")):
            timeline.model_answered = model
        message = as_object(line.get("message"))
        text, thought = as_text(message.get("content")), as_text(message.get("thinking"))
        tools = as_list(message.get("tool_calls"))
        if text:
            timeline.say(CONTENT, 0, text)
        if thought:
            timeline.say(REASONING, 0, thought)
        for tool in tools:
            function = as_object(as_object(tool).get("function"))
            name, given = as_text(function.get("name")) or "", function.get("arguments")
            arguments = given if isinstance(given, str) else json.dumps(given) if given is not None else ""
            timeline.call_tool(0, self._tools, name=name, arguments=arguments)
            self._tools += 1
        if line.get("done") is True:
            self._end(at_ns, line)
        return bool(text or thought or tools), bool(text or tools)

    def _end(self, at_ns: int, line: Mapping[str, Any]) -> None:
        timeline = self._timeline
        timeline.report(
            Usage(input_tokens=as_count(line.get("prompt_eval_count")), output_tokens=as_count(line.get("eval_count")))
        )
        if reason := as_text(line.get("done_reason")):
            timeline.finish(0, reason)
        timeline.done(at_ns)
