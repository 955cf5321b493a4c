"""OpenAIDecoder: what the events of a chat or completions stream mean.

Theory of operation. Each event is read into a Chunk. A choice's event is an *output event* if it carries generated
output in any channel: content or text, reasoning, a tool call or function call (its name alone is enough), a refusal,
audio. Role, empty text, usage, filter results and pings are none. An event with text and reasoning is one output event.
Usage is read on every event, whatever its choices; a finish reason ends a choice, never the reading; an empty one is
none. `content_filter` and `length` are ends like any other; `error` and `abort` are failures. An error may come in any
event and in any shape. After `[DONE]` nothing counts.
"""

from __future__ import annotations

from typing import Any, Final

from locust_llm.measure.record import TokenSource
from locust_llm.measure.timeline import AUDIO, CONTENT, REASONING, REFUSAL, Timeline
from locust_llm.wire import failures
from locust_llm.wire.document import read_document
from locust_llm.wire.event import is_error, note_unreadable
from locust_llm.wire.openai_chunks import Choice, Chunk, Delta, Tool, read_chunk
from locust_llm.wire.openai_usage import NO_CHOICE, SEVERAL, UsageMeter

END_HINT: Final = b"[DONE]"

_NO_DELTA: Final = Delta()
_FAILED_REASONS: Final = ("error", "abort")


class OpenAIDecoder:
    """Writes one answer of an OpenAI-like API into its Timeline. `prompts` = how many the request held."""

    __slots__ = ("_carried", "_meter", "_timeline")

    def __init__(self, timeline: Timeline, prompts: int = 1) -> None:
        self._timeline = timeline
        self._meter = UsageMeter(timeline, prompts)
        self._carried: dict[int, int] = {}

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """One event of the stream, complete at `at_ns`."""
        if self._timeline.done_ns is not None:
            return
        if data == b"[DONE]":
            self._timeline.done(at_ns)
            return
        try:
            chunk = read_chunk(data)
        except ValueError:
            note_unreadable(self._timeline, at_ns, name, data)
            return
        if name == "error":
            self._fail(data)
        if chunk is not None:
            self._read(at_ns, chunk, data)

    def whole(self, at_ns: int, data: bytes) -> None:
        """One JSON document instead of a stream, whole at `at_ns`. It has no output events."""
        self._timeline.streamed = False
        chunk = read_chunk(data)
        if chunk is not None:
            self._read(None, chunk, data)
            if chunk.choices:
                self._timeline.done(at_ns)

    def _read(self, at_ns: int | None, chunk: Chunk, data: bytes) -> None:
        timeline, choices, usage = self._timeline, chunk.choices, chunk.usage
        tokens = 0
        if chunk.error and is_error(chunk.error):
            self._fail(data)
        if timeline.model_answered is None and chunk.model:
            timeline.model_answered = chunk.model
        if choices:
            for choice in choices:
                tokens = self._read_choice(at_ns, choice)
                if tokens and usage is None:
                    timeline.weigh_last(tokens, TokenSource.LOGPROBS)
        elif chunk.object == "error":
            self._fail(data)
        if usage is not None:
            whose = NO_CHOICE if not choices else choices[0].index if len(choices) == 1 else SEVERAL
            if not self._meter.read(usage, chunk.timings, whose) and tokens:
                timeline.weigh_last(tokens, TokenSource.LOGPROBS)

    def _read_choice(self, at_ns: int | None, choice: Choice) -> int:
        """Note what one choice says. The tokens that its logprobs or ids tell, if it is an output event."""
        timeline, index = self._timeline, choice.index
        delta = choice.delta or choice.message or _NO_DELTA
        text = delta.content or choice.text
        thought = delta.reasoning_content or delta.reasoning
        visible = False
        if text:
            visible = True
            timeline.say(CONTENT, index, text)
        if thought:
            timeline.say(REASONING, index, thought)
        elif delta.reasoning_details:
            thought = self._read_details(index, delta.reasoning_details)
        if delta.tool_calls or delta.function_call or delta.refusal or delta.audio:
            visible = self._read_other(index, delta) or visible
        if choice.finish_reason:
            self._finish(index, choice.finish_reason)
        tokens = 0
        if choice.logprobs is not None or choice.token_ids is not None:
            tokens = self._carried.pop(index, 0) + _told_tokens(choice)
        if at_ns is not None and (visible or thought):
            timeline.output(at_ns, index, visible=visible)
        elif tokens:  # part of a character: they belong to the event that completes it
            self._carried[index] = tokens
            tokens = 0
        return tokens

    def _read_details(self, choice: int, details: list[Any]) -> str:
        """The text in `reasoning_details` (OpenRouter); encrypted blobs are no text."""
        told = [detail for detail in details if isinstance(detail, dict)]
        text = "".join(piece for detail in told if isinstance(piece := detail.get("text"), str))
        summary = "".join(piece for detail in told if isinstance(piece := detail.get("summary"), str))
        if summary:
            self._timeline.summarised = True
        if text or summary:
            self._timeline.say(REASONING, choice, text or summary)
        return text or summary

    def _read_other(self, choice: int, delta: Delta) -> bool:
        """Note tool calls, refusal and audio; whether any of them is output."""
        timeline = self._timeline
        output = False
        tools = list(delta.tool_calls or ())
        if delta.function_call is not None:
            tools.append(Tool(function=delta.function_call))
        for tool in tools:
            name = (tool.function.name if tool.function is not None else None) or ""
            arguments = (tool.function.arguments if tool.function is not None else None) or ""
            timeline.call_tool(choice, tool.index, name=name, arguments=arguments, call_id=tool.id or "")
            output = output or bool(name or arguments)
        if delta.refusal:
            timeline.say(REFUSAL, choice, delta.refusal)
            output = True
        audio = delta.audio
        if audio is not None and (audio.data or audio.transcript):
            timeline.say(AUDIO, choice, audio.transcript or "")
            output = True
        return output

    def _finish(self, choice: int, reason: str) -> None:
        self._timeline.finish(choice, reason)
        self._meter.finished(choice)
        if reason in _FAILED_REASONS:
            self._timeline.fail(*failures.in_stream_failure(f"finish_reason {reason}"))

    def _fail(self, data: bytes) -> None:
        self._timeline.fail(*failures.in_stream_failure(read_document(data)))


def _told_tokens(choice: Choice) -> int:
    """The tokens that this event's token ids or logprobs hold; 0 when they tell nothing."""
    if choice.token_ids:
        return len(choice.token_ids)
    logprobs = choice.logprobs
    return len(logprobs.content or logprobs.tokens or ()) if logprobs is not None else 0
