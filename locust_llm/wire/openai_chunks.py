"""The JSON of OpenAI-like answers as structs: one shape for stream events and whole documents of both APIs.

Theory of operation. The fast way is one typed msgspec decode, which builds only the fields named here. Servers bend
the format (content as a list of parts, counts as floats, lone surrogates, NaN among the logprobs, invalid UTF-8): on
any mismatch the document is decoded without types, by ever more tolerant means, and what fits is copied into the same
structs. So everything after this file sees one shape, and both ways mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from locust_llm.wire.document import as_count, as_text, read_document

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Function(msgspec.Struct, gc=False):
    """A tool call's or the legacy function call's name and the next piece of its arguments."""

    name: str | None = None
    arguments: str | None = None


class Tool(msgspec.Struct, gc=False):
    """One piece of a tool call."""

    index: Index = 0
    id: str | None = None
    function: Function | None = None


class Audio(msgspec.Struct, gc=False):
    """A piece of spoken output: base64 data, or its transcript."""

    data: str | None = None
    transcript: str | None = None


class Delta(msgspec.Struct, gc=False):
    """What one event adds to one choice (`delta`), or all of it (`message`)."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[Tool] | None = None
    function_call: Function | None = None
    refusal: str | None = None
    audio: Audio | None = None


class Logprobs(msgspec.Struct, gc=False):
    """One entry per token: `content` in chat (and llama.cpp), `tokens` in OpenAI's completions."""

    content: list[msgspec.Raw] | None = None
    tokens: list[msgspec.Raw] | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of an event. Chat has `delta` (`message` when not streamed), completions have `text`."""

    index: Index = 0
    delta: Delta | None = None
    message: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: list[int] | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Count | None = None


class Counts(msgspec.Struct, gc=False):
    """The `usage` object. SGLang puts `reasoning_tokens` beside the others."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Timings(msgspec.Struct, gc=False):
    """llama.cpp's own figures of one sequence."""

    predicted_n: Count | None = None


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    usage: Counts | None = None
    model: str | None = None
    object: str | None = None
    error: Any = None
    timings: Timings | None = None


_chunk = msgspec.json.Decoder(Chunk)


def read_chunk(data: bytes) -> Chunk | None:
    """The event's document; None when it is JSON but not an object (`null`). ValueError when it is not JSON."""
    try:
        return _chunk.decode(data)
    except (msgspec.DecodeError, RecursionError):
        document = read_document(data)
        return tolerant_chunk(document) if isinstance(document, dict) else None


# -- the tolerant way ------------------------------------------------------------------------------------------------


def tolerant_chunk(document: Mapping[str, Any]) -> Chunk:
    """The same as the typed decode, with every field that does not fit left out."""
    choices = document.get("choices")
    return Chunk(
        choices=[_choice(item) for item in choices if isinstance(item, dict)] if isinstance(choices, list) else None,
        usage=_counts(document.get("usage")),
        model=as_text(document.get("model")),
        object=as_text(document.get("object")),
        error=document.get("error"),
        timings=_timings(document.get("timings")),
    )


def _choice(item: Mapping[str, Any]) -> Choice:
    ids = item.get("token_ids")
    return Choice(
        index=_index(item.get("index")),
        delta=_delta(item.get("delta")),
        message=_delta(item.get("message")),
        text=as_text(item.get("text")),
        finish_reason=as_text(item.get("finish_reason")),
        logprobs=_logprobs(item.get("logprobs")),
        token_ids=ids if isinstance(ids, list) else None,
    )


def _delta(item: object) -> Delta | None:
    if not isinstance(item, dict):
        return None
    content, thought = _parts(item.get("content"))
    details, tools = item.get("reasoning_details"), item.get("tool_calls")
    return Delta(
        content=content,
        reasoning_content=as_text(item.get("reasoning_content")) or thought,
        reasoning=as_text(item.get("reasoning")),
        reasoning_details=details if isinstance(details, list) else None,
        tool_calls=[_tool(piece) for piece in tools if isinstance(piece, dict)] if isinstance(tools, list) else None,
        function_call=_function(item.get("function_call")),
        refusal=as_text(item.get("refusal")),
        audio=_audio(item.get("audio")),
    )


def _parts(content: object) -> tuple[str | None, str | None]:
    """(text, thinking) of content that is a text or a list of parts."""
    if not isinstance(content, list):
        return as_text(content), None
    said: list[str] = []
    thought: list[str] = []
    for part in content:
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, dict):
            said.append(as_text(part.get("text")) or "")
            thought.append(_parts(part.get("thinking"))[0] or "")
    return "".join(said), "".join(thought) or None


def _tool(piece: Mapping[str, Any]) -> Tool:
    return Tool(
        index=_index(piece.get("index")), id=as_text(piece.get("id")), function=_function(piece.get("function"))
    )


def _function(item: object) -> Function | None:
    if not isinstance(item, dict):
        return None
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)
    return Function(name=as_text(item.get("name")), arguments=as_text(arguments))


def _audio(item: object) -> Audio | None:
    if not isinstance(item, dict):
        return None
    return Audio(data=as_text(item.get("data")), transcript=as_text(item.get("transcript")))


def _logprobs(item: object) -> Logprobs | None:
    if not isinstance(item, dict):
        return None
    content, tokens = item.get("content"), item.get("tokens")
    return Logprobs(
        content=[msgspec.Raw()] * len(content) if isinstance(content, list) else None,
        tokens=[msgspec.Raw()] * len(tokens) if isinstance(tokens, list) else None,
    )


def _counts(item: object) -> Counts | None:
    if not isinstance(item, dict):
        return None
    prompt, completion = item.get("prompt_tokens_details"), item.get("completion_tokens_details")
    return Counts(
        prompt_tokens=as_count(item.get("prompt_tokens")),
        completion_tokens=as_count(item.get("completion_tokens")),
        reasoning_tokens=as_count(item.get("reasoning_tokens")),
        prompt_tokens_details=PromptDetails(as_count(prompt.get("cached_tokens")))
        if isinstance(prompt, dict)
        else None,
        completion_tokens_details=(
            CompletionDetails(as_count(completion.get("reasoning_tokens"))) if isinstance(completion, dict) else None
        ),
    )


def _timings(item: object) -> Timings | None:
    return Timings(as_count(item.get("predicted_n"))) if isinstance(item, dict) else None


def _index(value: object) -> int:
    count = as_count(value)
    return count if count is not None and count < 2**31 else 0
