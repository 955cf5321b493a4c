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
