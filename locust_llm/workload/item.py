"""Item: one request, or one conversation, as a line of a data set gives it.

A record is a text, or an object with `prompt` (or `text`), with `messages`, or with `conversations` as ShareGPT has
them ("human" and "gpt" take turns). `output_tokens` is the length that its answer shall have, `max_tokens` the most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from locust_llm.workload.prompt import Prompt

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "system": "system",
}
_EXACT = ("output_tokens", "output_length")
_MOST = ("max_tokens", "max_completion_tokens")


class ItemError(ValueError):
    """A record that gives no request; the message says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """`prompt` is what is sent as one request. `opening` and `turns` are the same as a conversation: the messages
    before the first thing the user says (a system message), and all that the user says, in order."""

    prompt: Prompt
    opening: tuple[Mapping[str, Any], ...]
    turns: tuple[str, ...]


def read_item(data: bytes) -> Item | None:
    """Understand one record in JSON; None for a conversation in which no user says anything. Raises ItemError."""
    try:
        record = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ItemError(f"is not JSON ({error})") from None
    if isinstance(record, str):
        record = {"prompt": record}
    if not isinstance(record, dict):
        raise ItemError("is neither an object nor a text")
    if "conversations" in record:
        return _sharegpt(record)
    length, exact = _length(record)
    if "messages" in record:
        messages = _messages(record["messages"])
        return _item(messages, messages, length, exact)
    prompt = record.get("prompt", record.get("text"))
    if not isinstance(prompt, str) or not prompt.strip():
        raise ItemError("has no prompt, messages or conversations")
    return text_item(prompt, length, exact)


def text_item(text: str, length: int | None = None, exact: bool = False) -> Item:
    """A text that is one user message."""
    return Item(Prompt(text, output_tokens=length, exact=exact), (), (text,))


def _sharegpt(record: Mapping[str, Any]) -> Item | None:
    """What is sent is everything up to the first thing that the user says; the recorded answers are not."""
    turns = record["conversations"]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise ItemError("has conversations that are no list of objects")
    messages = []
    for turn in turns:
        content = turn.get("value", turn.get("content"))
        role = _ROLES.get(str(turn.get("from", turn.get("role"))).lower())
        if isinstance(content, str) and content.strip() and role is not None:
            messages.append({"role": role, "content": content})
    places = [place for place, message in enumerate(messages) if message["role"] == "user"]
    if not places:
        return None
    begins = [message for message in messages[: places[0]] if message["role"] == "system"]
    length, exact = _length(record)
    return _item([*begins, messages[places[0]]], [*begins, *messages[places[0] :]], length, exact)


def _item(sent: list[dict[str, Any]], all_: list[dict[str, Any]], length: int | None, exact: bool) -> Item:
    texts = [_text(message.get("content")) for message in sent]
    said = "\n\n".join(text for text in texts if text)
    places = [place for place, message in enumerate(all_) if message["role"] == "user"]
    if not places:
        raise ItemError("has messages, but none of a user")
    turns = tuple(_text(all_[place].get("content")) for place in places)
    return Item(Prompt(said, said=sent, output_tokens=length, exact=exact), tuple(all_[: places[0]]), turns)


def _messages(messages: Any) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise ItemError("has messages that are no list of objects")
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise ItemError("has a message without a role")
    return messages


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


def _length(record: Mapping[str, Any]) -> tuple[int | None, bool]:
    for name in (*_EXACT, *_MOST):
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ItemError(f"has {name} {value!r}, which is no whole number of at least 1")
        return value, name in _EXACT
    return None, False
