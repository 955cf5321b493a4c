"""What a generation request asks for, whichever API it came by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from locust_llm.sim.http import invalid_field, missing_field


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, understood. The simulated tokenizer's rule: one whitespace-separated word is one token."""

    words: list[str]
    max_tokens: int | None
    stream: bool = False
    ignore_eos: bool = False
    include_usage: bool = False
    continuous_usage: bool = False

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
    max_tokens = body.get(name)
    if max_tokens is not None and (not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1):
        raise invalid_field(name, "Input should be a valid integer greater than 0")
    return Ask(
        words=words,
        max_tokens=max_tokens,
        stream=_typed(body, "stream", bool, body.get("stream") or False),
        ignore_eos=_typed(body, "ignore_eos", bool, body.get("ignore_eos") or False),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
    )


def required(body: dict[str, Any], name: str) -> Any:
    """A field that must be there; raises HttpError 400."""
    if body.get(name) is None:
        raise missing_field(name)
    return body[name]


def _typed(body: dict[str, Any], name: str, kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise invalid_field(name, f"Input should be a valid {kind.__name__}")
    return value
