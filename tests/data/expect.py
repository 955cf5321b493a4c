"""Say what each captured answer holds, and write it beside it as NAME.expected.json.

Standard library only, and nothing of locust_llm: this is the second opinion that its decoders are tested against.
`python tests/data/expect.py` writes the files anew; what they say of the odd captures was checked by eye.
README.md in this folder tells what the fields mean.
"""

from __future__ import annotations

import http.client
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).with_name("captures")
# The deltas' fields that hold output. A tool call is output by itself; a text is if it is not empty.
CHANNELS = ("content", "text", "reasoning_content", "reasoning", "refusal", "tool_calls", "audio")
REASONING = ("reasoning_content", "reasoning")

Json = dict[str, Any]


class _Played(io.BytesIO):
    """Bytes in place of a socket, for http.client to read an answer from."""

    def makefile(self, _mode: str) -> io.BytesIO:
        return self


def body_of(wire: bytes) -> tuple[bytes, bool]:
    """The decoded body of an HTTP answer as received, and whether its transfer ended as announced."""
    response = http.client.HTTPResponse(_Played(wire))  # type: ignore[arg-type]
    response.begin()
    body = b""
    try:
        while part := response.read1():
            body += part
    except http.client.IncompleteRead as cut:
        return body + cut.partial, False
    return body, True


def payloads(body: bytes) -> Iterator[str]:
    """The data of each event. The captures' frames are plain: LF endings, one line of data."""
    for line in body.decode().split("\n"):
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def prompts_asked(name: str) -> int:
    """How many prompts the answered request held; only a text completion can hold several."""
    if "-completions-" not in name:
        return 1
    [kept] = [line for line in (CAPTURES / f"{name}.headers").read_text().splitlines() if line.startswith("> body: ")]
    prompt = json.loads(kept.removeprefix("> body: "))["prompt"]
    return len(prompt) if isinstance(prompt, list) else 1


class Seen:
    """What has been seen of one answer."""

    def __init__(self, prompts: int) -> None:
        self.prompts = prompts
        self.model: str | None = None
        self.ended = False
        self.choices: dict[int, Json] = {}
        self.usages: list[Json] = []

    def choice(self, index: int) -> Json:
        empty = {"text": "", "reasoning": "", "finish_reason": None, "output_events": 0}
        return self.choices.setdefault(index, empty)

    def output(self, index: int, fields: Json) -> None:
        """One event's output for one choice: `fields` by channel."""
        said = {channel: fields[channel] for channel in CHANNELS if fields.get(channel)}
        choice = self.choice(index)
        choice["output_events"] += bool(said)
        for channel, what in said.items():
            if channel in ("content", "text"):
                choice["text"] += what
            elif channel in REASONING:
                choice["reasoning"] += what

    def summary(self, *, streamed: bool, transfer_ended: bool) -> Json:
        choices = [{"index": index} | self.choices[index] for index in sorted(self.choices)]
        finished = bool(choices) and all(choice["finish_reason"] for choice in choices)
        return {
            "complete": transfer_ended and (self.ended or finished),
            "model": self.model,
            "choices": choices if streamed else [choice | {"output_events": None} for choice in choices],
            "output_events": sum(choice["output_events"] for choice in choices) if streamed else None,
            **self.tokens(),
        }

    def tokens(self) -> Json:
        """Counts of the whole answer. Several usages are one per choice: the output adds up, and so do prompts where
        there were several; the choices of one prompt each report that same prompt."""
        if not self.usages:
            return {"prompt_tokens": None, "cached_tokens": None, "output_tokens": None}
        over = sum if self.prompts > 1 else max
        cached = [usage["cached"] for usage in self.usages if usage["cached"] is not None]
        return {
            "prompt_tokens": over(usage["prompt"] for usage in self.usages),
            "cached_tokens": over(cached) if cached else None,
            "output_tokens": sum(usage["output"] for usage in self.usages),
        }


def openai_usage(usage: Json) -> Json:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return {"prompt": usage["prompt_tokens"], "output": usage["completion_tokens"], "cached": cached}


def read_openai(events: list[Any], seen: Seen) -> None:
    """Chat completions and text completions."""
    apart, beside = [], []
    for event in events:
        if event == "[DONE]":
            seen.ended = True
        elif event is not None:
            seen.model = event["model"]
            for choice in event["choices"]:
                seen.output(choice["index"], choice.get("delta") or choice.get("message") or choice)
                if choice.get("finish_reason"):
                    seen.choice(choice["index"])["finish_reason"] = choice["finish_reason"]
            if event.get("usage"):
                (beside if event["choices"] else apart).append((event["choices"], openai_usage(event["usage"])))
    # A usage apart from the choices is final. Without one, that of each finishing event is; those before are running.
    final = apart or [pair for pair in beside if pair[0][0].get("finish_reason")]
    seen.usages = [usage for _, usage in final]


def read_messages(events: list[Any], seen: Seen) -> None:
    """Anthropic's messages. Its input_tokens leave the cached ones out."""
    usage: Json = {}
    for event in events:
        match event["type"]:
            case "message_start":
                seen.model = event["message"]["model"]
                usage |= event["message"]["usage"]
            case "content_block_delta":
                seen.output(0, event["delta"])
            case "message_delta":
                seen.choice(0)["finish_reason"] = event["delta"]["stop_reason"]
                usage |= event["usage"]
            case "message_stop":
                seen.ended = True
            case "message":
                seen.model = event["model"]
                seen.output(0, {"text": "".join(block["text"] for block in event["content"])})
                seen.choice(0)["finish_reason"] = event["stop_reason"]
                usage = event["usage"]
    cached = usage.get("cache_read_input_tokens")
    prompt = usage["input_tokens"] + (cached or 0) + (usage.get("cache_creation_input_tokens") or 0)
    seen.usages = [{"prompt": prompt, "output": usage["output_tokens"], "cached": cached}]


def read_responses(events: list[Any], seen: Seen) -> None:
    """OpenAI's responses. The finish reason is why it is incomplete, else its status."""
    for event in events:
        if event.get("type") == "response.output_text.delta":
            seen.output(0, {"text": event["delta"]})
        if event.get("type") in ("response.completed", "response.incomplete"):
            seen.ended = True
            finish_response(event["response"], seen)
        if event.get("object") == "response":
            parts = [part["text"] for item in event["output"] for part in item.get("content") or []]
            seen.output(0, {"text": "".join(parts)})
            finish_response(event, seen)


def finish_response(response: Json, seen: Seen) -> None:
    usage = response["usage"]
    why = (response.get("incomplete_details") or {}).get("reason")
    seen.model = response["model"]
    seen.choice(0)["finish_reason"] = why if why is not None else response["status"]
    cached = usage["input_tokens_details"].get("cached_tokens")
    seen.usages = [{"prompt": usage["input_tokens"], "output": usage["output_tokens"], "cached": cached}]


def expected(name: str) -> Json:
    """What the captured answer of that name holds."""
    wire = CAPTURES / f"{name}.wire"
    if streamed := wire.exists():
        body, transfer_ended = body_of(wire.read_bytes())
        events = [data if data == "[DONE]" else json.loads(data) for data in payloads(body)]
    else:
        events, transfer_ended = [json.loads((CAPTURES / f"{name}.json").read_bytes())], True
    seen = Seen(prompts_asked(name))
    api = next((api for api in ("messages", "responses", "completions") if f"-{api}-" in name), "chat")
    {"messages": read_messages, "responses": read_responses}.get(api, read_openai)(events, seen)
    return {"api": api} | seen.summary(streamed=streamed, transfer_ended=transfer_ended)


def names() -> list[str]:
    """The captures that hold an answer: every stream, and every answer that was asked for whole."""
    streams = [path.stem for path in CAPTURES.glob("*.wire")]
    return sorted([*streams, *(path.stem for path in CAPTURES.glob("*-nonstream.json"))])


def as_text(summary: Json) -> str:
    return json.dumps(summary, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    for name in names():
        (CAPTURES / f"{name}.expected.json").write_text(as_text(expected(name)))
    print(f"{len(names())} captures", file=sys.stderr)


if __name__ == "__main__":
    main()
