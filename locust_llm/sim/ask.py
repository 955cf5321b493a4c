"""What a generation request asks for, whichever API it came by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from locust_llm.sim.http import invalid_field, missing_field


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, understood. The simulated tokenizer's rule: one whitespace-separated word is one token.

    `vectors` and `dimensions` are of embeddings, which have `max_tokens` 0.
    """

    words: list[str]
    max_tokens: int | None
    stream: bool = False
    ignore_eos: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    vectors: int = 0
    dimensions: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, never below 1."""
        return max(1, len(self.words))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as they are reported; `cached_tokens` is None when the engine has no prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None


def openai_ask(body: dict[str, Any], words: list[str]) -> Ask:
    """The fields that chat and completions share; raises HttpError 400 for a wrong type or value."""
    options = body.get("stream_options")
    options = _typed(body, "stream_options", dict, options) if options is not None else {}
    if body.get("n") not in (None, 1):
        raise invalid_field("n", "The simulated engine gives one choice per request")
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    return Ask(
        words=words,
        max_tokens=token_limit(body, name),
        stream=flag(body, "stream"),
        ignore_eos=flag(body, "ignore_eos"),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
    )


def required(body: dict[str, Any], name: str) -> Any:
    """A field that must be there; raises HttpError 400."""
    if body.get(name) is None:
        raise missing_field(name)
    return body[name]


def token_limit(body: dict[str, Any], name: str) -> int | None:
    """The most tokens an answer may have; raises HttpError 400 for anything but a whole number above 0."""
    limit = body.get(name)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise invalid_field(name, "Input should be a valid integer greater than 0")
    return limit


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A field that is true or false; raises HttpError 400 for anything else."""
    value = body.get(name)
    return bool(_typed(body, name, bool, value if value is not None else default))


def messages_words(messages: Any, where: str = "messages") -> list[str]:
    """The words of a list of messages; raises HttpError 400 when it is none, or empty."""
    if not isinstance(messages, list) or not messages:
        raise invalid_field(where, "Input should be a valid list with at least one message")
    words: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise invalid_field(f"{where}.{number}", "Input should be a valid dictionary")
        words += content_words(message.get("content"), f"{where}.{number}.content")
    return words


def content_words(content: Any, where: str) -> list[str]:
    """The words of a content: a text, or a list of parts with text; raises HttpError 400 for anything else."""
    if content is None or isinstance(content, str):
        return (content or "").split()
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict)).split()
    raise invalid_field(where, "Input should be a valid string")


def _typed(body: dict[str, Any], name: str, kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise invalid_field(name, f"Input should be a valid {kind.__name__}")
    return value
