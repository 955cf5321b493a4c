"""The Responses API of OpenAI, also spoken by vLLM, llama.cpp and gateways.

Theory of operation. A stream is of typed events. Those named `….delta` carry output, each in one channel; whatever
repeats or announces (`….added`, `….done`) does not. A function's name is announced with its item and kept until its
arguments begin. `response.completed` and `response.incomplete` hold usage and end the answer. Why it ended is told by
the response itself, not by the name of the event: vLLM says "completed" with the status "incomplete", and llama.cpp
tells nothing of an answer that was cut at its limit. OpenAI hides reasoning, and may stream a summary of it: then how
many tokens were streamed is unknown. Where nothing was streamed at all, the last event holds the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from locust_llm.measure.record import TokenSource, Usage
from locust_llm.measure.timeline import AUDIO, CONTENT, REASONING, REFUSAL, Timeline
from locust_llm.wire import failures
from locust_llm.wire.access import OPENAI
from locust_llm.wire.call import Call, plain
from locust_llm.wire.document import as_count, as_list, as_object, as_text, read_document
from locust_llm.wire.event import is_error, read_event, tells_error

_json = msgspec.json.Encoder(enc_hook=plain)

_SUMMARY: Final = "response.reasoning_summary_text.delta"
_CHANNELS: Final = {
    "response.output_text.delta": CONTENT,
    "response.refusal.delta": REFUSAL,
    "response.reasoning_text.delta": REASONING,
    _SUMMARY: REASONING,
    "response.audio.delta": AUDIO,
    "response.audio.transcript.delta": AUDIO,
}
_TOOLS: Final = (
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
)
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_PARTS: Final = {"output_text": CONTENT, "text": CONTENT, "reasoning_text": REASONING, "summary_text": REASONING}


class Responses:
    """Messages in, a response of output items out."""

    name: Final = "responses"
    path: Final = "responses"
    end_hint: Final = b"event: response.completed"
    access: Final = OPENAI
    lines: Final = False

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request. There is no `seed`."""
        body: dict[str, Any] = {"input": call.messages or [], "stream": call.stream}
        if call.model:
            body["model"] = call.model
        if call.max_tokens is not None:
            body["max_output_tokens"] = call.max_tokens
        if call.temperature is not None:
            body["temperature"] = call.temperature
        if call.ignore_eos:
            body["ignore_eos"] = True
        return _json.encode({**body, **call.extra})

    def decoder(self, timeline: Timeline, call: Call) -> ResponsesDecoder:
        """A decoder for the answer to `call`."""
        return ResponsesDecoder(timeline)


RESPONSES: Final = Responses()


class ResponsesDecoder:
    """Writes one answer of the Responses API into its Timeline."""

    __slots__ = ("_announced", "_timeline", "_tools")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._announced: dict[str, Mapping[str, Any]] = {}
        self._tools: dict[str, int] = {}

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """One event of the stream, complete at `at_ns`."""
        document = read_event(self._timeline, at_ns, name, data)
        if document is None:
            return
        kind = as_text(document.get("type")) or name
        if tells_error(document, name):
            self._timeline.fail(*failures.in_stream_failure(document))
        elif kind in _CHANNELS:
            self._read_delta(at_ns, kind, document)
        elif kind in _TOOLS:
            self._call_tool(at_ns, _item_of(document), as_text(document.get("delta")) or "")
        elif kind == "response.output_item.added":
            item = as_object(document.get("item"))
            self._announced[as_text(item.get("id")) or _item_of(document)] = item
        elif kind in _ENDS:
            self._end(at_ns, kind, as_object(document.get("response")))

    def whole(self, at_ns: int, data: bytes) -> None:
        """One JSON document instead of a stream, whole at `at_ns`. It has no output events."""
        self._timeline.streamed = False
        document = as_object(read_document(data))
        if tells_error(document):
            self._timeline.fail(*failures.in_stream_failure(document))
        elif isinstance(document.get("output"), list) and document.get("status") not in ("queued", "in_progress"):
            self._read_output(None, document["output"])
            self._end(at_ns, "", document)

    # -- output --------------------------------------------------------------------------------------------------

    def _read_delta(self, at_ns: int, kind: str, document: Mapping[str, Any]) -> None:
        timeline, text = self._timeline, as_text(document.get("delta"))
        if not text:
            return
        channel = _CHANNELS[kind]
        timeline.say(channel, 0, text if kind != "response.audio.delta" else "")
        if kind == _SUMMARY:
            timeline.summarised = True
        timeline.output(at_ns, visible=channel != REASONING)
        if logprobs := as_list(document.get("logprobs")):
            timeline.weigh_last(len(logprobs), TokenSource.LOGPROBS)

    def _call_tool(self, at_ns: int | None, item_id: str, arguments: str) -> None:
        """A piece of a tool's arguments; its name goes before the first."""
        if not arguments and at_ns is not None:
            return
        timeline = self._timeline
        item = self._announced.get(item_id, {}) if item_id not in self._tools else {}
        index = self._tools.setdefault(item_id, len(self._tools))
        name, call_id = as_text(item.get("name")) or "", as_text(item.get("call_id")) or ""
        timeline.call_tool(0, index, name=name, arguments=arguments, call_id=call_id)
        if at_ns is not None:
            timeline.output(at_ns)

    def _read_output(self, at_ns: int | None, items: list[Any]) -> None:
        """All items of an answer that came whole; with a time, each is an output event."""
        timeline = self._timeline
        for number, item in enumerate(map(as_object, items)):
            visible = said = False
            for part in map(as_object, [*as_list(item.get("content")), *as_list(item.get("summary"))]):
                channel = _PARTS.get(as_text(part.get("type")) or "", CONTENT)
                if text := as_text(part.get("text")):
                    timeline.say(channel, 0, text)
                elif text := as_text(part.get("refusal")):
                    timeline.say(REFUSAL, 0, text)
                said = said or bool(text)
                visible = visible or bool(text and channel != REASONING)
                timeline.summarised = timeline.summarised or part.get("type") == "summary_text"
            arguments = as_text(item.get("arguments"))
            if arguments is not None:
                self._announced[f"#{number}"] = item
                self._call_tool(None, f"#{number}", arguments)
                said = visible = True
            if at_ns is not None and said:
                timeline.output(at_ns, visible=visible)

    # -- the end -------------------------------------------------------------------------------------------------

    def _end(self, at_ns: int, kind: str, response: Mapping[str, Any]) -> None:
        timeline = self._timeline
        timeline.report(_usage(as_object(response.get("usage"))))
        if model := as_text(response.get("model")):
            timeline.model_answered = model
        status = as_text(response.get("status")) or kind.removeprefix("response.") or "completed"
        why = as_text(as_object(response.get("incomplete_details")).get("reason"))
        if status in ("failed", "cancelled") or is_error(response.get("error")):
            error = response.get("error")
            timeline.fail(*failures.in_stream_failure({"error": error} if error else f"status {status}"))
            return
        if timeline.streamed and not timeline.event_ns:
            self._read_output(at_ns, as_list(response.get("output")))
        timeline.finish(0, why or status)
        timeline.done(at_ns)


def _item_of(document: Mapping[str, Any]) -> str:
    """Which output item an event belongs to: its id, else its place."""
    return as_text(document.get("item_id")) or str(document.get("output_index"))


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cached_tokens=as_count(as_object(usage.get("input_tokens_details")).get("cached_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
