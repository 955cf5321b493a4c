"""JSON as servers really write it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_decoder = msgspec.json.Decoder()


def read_document(data: bytes) -> Any:
    """Any JSON document as Python objects, as tolerantly as can be. ValueError when it is not JSON."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode(errors="replace"), strict=False)  # takes lone surrogates, NaN, raw controls
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


# -- what a value is, where it should be something else ---------------------------------------------------------------


def as_text(value: object) -> str | None:
    """`value` if it is a text."""
    return value if isinstance(value, str) else None


def as_count(value: object) -> int | None:
    """`value` if it is a whole number that can count tokens, also where it is written as a float."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53 else None


def as_object(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
