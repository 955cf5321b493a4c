"""Timeline: what one running request has shown so far; `freeze` turns it into the RequestRecord.

Theory of operation. The codec calls `output` once for each stream event and choice that carries generated output, in
the order of arrival and with the time of the read that completed the event; `say` adds its text; `finish`, `report`
(usage), `fail` and `done` note the rest. Nothing here reads a clock. Only flat arrays of integers grow with the number
of tokens, so that Python's garbage collector has nothing to walk. A running timeline may be read at any time by the
live statistics (`event_ns` only grows).
"""

from __future__ import annotations

from array import array
from typing import Final

from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit, Usage

CONTENT: Final = "content"
REASONING: Final = "reasoning"
REFUSAL: Final = "refusal"
AUDIO: Final = "audio"

DETAIL_LIMIT = 400


class Timeline:
    """The mutable half of a RequestRecord, for one request."""

    __slots__ = (
        "_choices_seen",
        "_texts",
        "_tools",
        "api",
        "detail",
        "done_ns",
        "error",
        "event_choice",
        "event_ns",
        "event_tokens",
        "finish_reasons",
        "first_visible_ns",
        "max_tokens",
        "model",
        "model_answered",
        "name",
        "reasoning_streamed",
        "retry_after_s",
        "scheduled_ns",
        "started_ns",
        "started_wall_s",
        "status",
        "stream_asked",
        "streamed",
        "summarised",
        "tokens_known",
        "transit",
        "url",
        "usage",
        "warmup",
    )

    def __init__(
        self,
        name: str,
        *,
        started_ns: int,
        scheduled_ns: int | None = None,
        started_wall_s: float = 0.0,
        api: str = "chat",
        url: str = "",
        model: str = "",
        max_tokens: int | None = None,
        warmup: bool = False,
    ) -> None:
        self.name = name
        self.api = api
        self.url = url
        self.model = model
        self.max_tokens = max_tokens
        self.warmup = warmup
        self.started_ns = started_ns
        self.scheduled_ns = scheduled_ns if scheduled_ns is not None else started_ns
        self.started_wall_s = started_wall_s
        self.transit = Transit()
        self.status: int | None = None
        self.streamed = True
        self.stream_asked = True
        self.summarised = False
        self.done_ns: int | None = None
        self.error: str | None = None
        self.detail: str | None = None
        self.retry_after_s: float | None = None
        self.model_answered: str | None = None
        self.event_ns: array[int] = array("q")
        self.event_choice: array[int] = array("q")
        self.event_tokens: array[int] = array("q")
        self.tokens_known: TokenSource | None = None
        self.first_visible_ns: int | None = None
        self.reasoning_streamed = False
        self.finish_reasons: dict[int, str] = {}
        self.usage = Usage()
        self._choices_seen: set[int] = set()
        self._texts: dict[tuple[str, int], list[str]] = {}
        self._tools: dict[tuple[int, int], dict[str, str]] = {}

    # -- what the codec tells ------------------------------------------------------------------------------------

    def output(self, at_ns: int, choice: int = 0, *, visible: bool = True, tokens: int = 0) -> None:
        """One output event of one choice. `tokens` = how many it holds where the server told, else 0."""
        self.event_ns.append(at_ns)
        self.event_choice.append(choice)
        self.event_tokens.append(tokens)
        if visible and self.first_visible_ns is None:
            self.first_visible_ns = at_ns

    def weigh_last(self, tokens: int, source: TokenSource) -> None:
        """The server told how many tokens the latest output event held (per-event usage, logprobs)."""
        if self.event_tokens and tokens > 0:
            self.event_tokens[-1] += tokens
            self.tokens_known = source

    def say(self, channel: str, choice: int, text: str) -> None:
        """Text of one channel (CONTENT, REASONING, REFUSAL, AUDIO) of one choice."""
        parts = self._texts.get((channel, choice))
        if parts is None:
            parts = self._texts[channel, choice] = []
            self._choices_seen.add(choice)
        parts.append(text)
        if channel == REASONING:
            self.reasoning_streamed = True

    def call_tool(self, choice: int, index: int, *, name: str = "", arguments: str = "", call_id: str = "") -> None:
        """A piece of a tool call: its name, id or the next part of its arguments."""
        self._choices_seen.add(choice)
        call = self._tools.setdefault((choice, index), {"id": "", "name": "", "arguments": ""})
        call["id"] = call_id or call["id"]
        call["name"] += name
        call["arguments"] += arguments

    def finish(self, choice: int, reason: str) -> None:
        """A choice's terminal finish reason; empty ones are not terminal and must not be passed."""
        self._choices_seen.add(choice)
        self.finish_reasons[choice] = reason

    def report(self, usage: Usage) -> None:
        """Server usage, so far or at last. A count never falls: the largest known value of each is kept.

        So a cumulative usage in every event is not summed, and neither an absent count nor a trailing 0 erases one.
        """
        old = self.usage
        self.usage = Usage(
            _larger(old.input_tokens, usage.input_tokens),
            _larger(old.output_tokens, usage.output_tokens),
            _larger(old.cached_tokens, usage.cached_tokens),
            _larger(old.reasoning_tokens, usage.reasoning_tokens),
        )

    def done(self, at_ns: int) -> None:
        """The stream said that it is over ([DONE], message_stop …). Only the first time counts."""
        if self.done_ns is None:
            self.done_ns = at_ns

    def fail(self, label: str, detail: str | None = None) -> None:
        """The request failed: a stable, bounded, secret-free label, and a bounded snippet. The first label stays."""
        if self.error is None:
            self.error = label
            self.detail = detail[:DETAIL_LIMIT] if detail else None

    def restart(self, now_ns: int) -> None:
        """The request is sent anew (after a refusal that we caused): forget the first try, keep its identity."""
        self.error = self.detail = self.status = None
        self.started_ns = now_ns
        self.transit = Transit()

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Every choice showed a terminal finish reason, or the stream said that it is done."""
        return self.done_ns is not None or (
            bool(self.finish_reasons) and self._choices_seen <= self.finish_reasons.keys()
        )

    def freeze(self, ended_ns: int, *, cancelled: bool = False) -> RequestRecord:
        """The record of this request, which ended (its body, or our part in it) at `ended_ns`."""
        outcome = Outcome.CANCELLED if cancelled else Outcome.FAILED if self.error is not None else Outcome.SUCCESS
        tokens, source = self._count_tokens()
        hidden = bool(self.usage.reasoning_tokens) and not self.reasoning_streamed and source is TokenSource.USAGE
        streamed_tokens = tokens
        if self.summarised:
            streamed_tokens = None
        elif hidden and tokens is not None:
            streamed_tokens = tokens - (self.usage.reasoning_tokens or 0)
        indexes = sorted(self._choices_seen)
        return RequestRecord(
            name=self.name,
            outcome=outcome,
            api=self.api,
            url=self.url,
            model=self.model,
            model_answered=self.model_answered,
            error=None if cancelled else self.error,
            detail=self.detail,
            status=self.status,
            retry_after_s=self.retry_after_s,
            started_wall_s=self.started_wall_s,
            scheduled_ns=self.scheduled_ns,
            started_ns=self.started_ns,
            done_ns=self.done_ns,
            ended_ns=ended_ns,
            transit=self.transit,
            streamed=self.streamed,
            stream_asked=self.stream_asked,
            event_ns=self.event_ns,
            event_choice=self.event_choice if any(self.event_choice) else None,
            event_tokens=self.event_tokens if self.tokens_known is not None else None,
            event_source=self.tokens_known,
            first_visible_ns=self.first_visible_ns,
            text=self._joined(CONTENT, 0),
            reasoning=self._joined(REASONING, 0),
            choices=tuple(self._joined(CONTENT, index) for index in indexes),
            tool_calls=tuple(
                {part: _paired(text) for part, text in self._tools[key].items()} for key in sorted(self._tools)
            ),
            finish_reasons=tuple(self.finish_reasons[index] for index in sorted(self.finish_reasons)),
            usage=self.usage,
            output_tokens=tokens,
            token_source=source,
            streamed_tokens=streamed_tokens,
            hidden_reasoning=hidden,
            max_tokens=self.max_tokens,
            warmup=self.warmup,
        )

    def _count_tokens(self) -> tuple[int | None, TokenSource | None]:
        """N and its source: usage, else what the events told (an untold one is one token), else how many events."""
        if self.usage.output_tokens is not None:
            return self.usage.output_tokens, TokenSource.USAGE
        if self.tokens_known is not None:
            return sum(tokens or 1 for tokens in self.event_tokens), self.tokens_known
        if self.streamed and self.event_ns:
            return len(self.event_ns), TokenSource.CHUNKS
        return None, None

    def _joined(self, channel: str, choice: int) -> str:
        return _paired("".join(self._texts.get((channel, choice), ())))


def _larger(kept: int | None, new: int | None) -> int | None:
    return new if kept is None or (new is not None and new > kept) else kept


def _paired(text: str) -> str:
    """`text` with the halves of surrogate pairs joined, which may have come in separate events (D86)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
