"""Call: what a request asks for, whatever the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = Mapping[str, Any]
Prompt = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, whatever the API. `None` and empty fields are not sent.

    `messages` is for chat-like APIs, `prompt` for completion-like ones (text, token ids, or a list of either).
    `extra` are further fields of the body; they win over the fields made from this call.
    """

    name: str = ""
    messages: Sequence[Message] | None = None
    prompt: Prompt | None = None
    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    ignore_eos: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    include_usage: bool = True

    @property
    def prompts(self) -> int:
        """How many prompts the call holds: a list of texts or of token lists is one answer each."""
        prompt = self.prompt
        if prompt is None or isinstance(prompt, str) or not prompt or isinstance(prompt[0], int):
            return 1
        return len(prompt)

    @property
    def text(self) -> str:
        """What the messages say, a blank line between two: for APIs that know no roles."""
        return "\n\n".join(text for message in self.messages or () if (text := _text(message.get("content"))))


def _text(content: object) -> str:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text"))


def plain(value: object) -> str:
    """For msgspec, which encodes no subclass of str: a text as a plain one."""
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is no JSON value")
