"""Tokens: counted on our side, beside what the server bills.

The number of an answer's output tokens comes from the best source there is: the server's `usage`; else what its events
told (per-event usage, logprobs, token ids); else a local tokenizer's count of the text (`--llm-tokenizer`); else the
number of events. The source stands beside the number (`TokenSource`).

The billing audit compares `usage` with a count that does not rest on it: the tokens that logprobs or ids named one by
one, or the local tokenizer's. A text's tokens may differ a little from those that were sampled (the same text can be
cut in other ways), and a server may count the token that ended the answer; so one more at a natural end is no
difference, and only more than 2 % over all answers is a finding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from locust_llm.measure.record import RequestRecord, TokenSource

Counter = Callable[[str], int]
"""Text → its number of tokens."""

WORDS: Final = "words"
"""`--llm-tokenizer words`: a token is what stands between blanks, the embedded engine's own rule."""

_NATURAL_ENDS: Final = frozenset(("stop", "end_turn", "stop_sequence", "completed", "eos"))


class TokenizerError(ValueError):
    """The tokenizer cannot be used; its text is one sentence."""


@dataclass(frozen=True, slots=True)
class LocalCount:
    """Output tokens as we count them, and what the count rests on (`LOGPROBS` or `TOKENIZER`)."""

    tokens: int
    source: TokenSource


def load_counter(name: str) -> Counter | None:
    """The counter that `--llm-tokenizer` names: '' (None), `words`, or a `tokenizer.json`; raises TokenizerError."""
    if not name:
        return None
    if name == WORDS:
        return count_words
    if not os.path.isfile(name):
        raise TokenizerError(f"--llm-tokenizer {name}: no such file; give a tokenizer.json, or 'words'")
    try:
        library: Any = import_module("tokenizers")
    except ImportError:
        raise TokenizerError(
            "--llm-tokenizer needs the tokenizers package: pip install 'locust-llm[tokenizers]'"
        ) from None
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
        json.loads(text)
        encode = library.Tokenizer.from_str(text).encode
    except Exception as error:  # the library raises plain Exception for a file that it cannot use
        raise TokenizerError(f"--llm-tokenizer {name}: not a tokenizer.json ({type(error).__name__})") from None
    return lambda text: len(encode(text, add_special_tokens=False).ids)


def count_words(text: str) -> int:
    """Words between blanks."""
    return len(text.split())


def truer(record: RequestRecord, counter: Counter | None) -> RequestRecord:
    """The record with its tokens counted from its text, where only the number of its events told them."""
    if counter is None or record.token_source is not TokenSource.CHUNKS or not _text_is_all(record):
        return record
    tokens = counter(record.reasoning) + counter(record.text)
    if not tokens:
        return record
    streamed = tokens if record.streamed_tokens is not None else None
    return replace(record, output_tokens=tokens, streamed_tokens=streamed, token_source=TokenSource.TOKENIZER)


def local_count(record: RequestRecord, counter: Counter | None) -> LocalCount | None:
    """Our own count of a successful answer; None where nothing but the server's usage tells it."""
    if record.event_source is TokenSource.LOGPROBS and record.event_tokens is not None:
        told = np.frombuffer(record.event_tokens, dtype=np.int64)
        if len(told) and told.min() > 0:
            return LocalCount(int(told.sum()), TokenSource.LOGPROBS)
    if counter is None or not _text_is_all(record):
        return None
    tokens = counter(record.reasoning) + counter(record.text)
    return LocalCount(tokens, TokenSource.TOKENIZER) if tokens else None


def _text_is_all(record: RequestRecord) -> bool:
    """Whether the answer's texts hold all that was generated: no tool call, second choice or hidden reasoning."""
    return not record.tool_calls and len(record.choices) <= 1 and not record.hidden_reasoning


def overbilled(record: RequestRecord, local: LocalCount) -> int:
    """Usage - local count, in tokens; below 0 when the server told too few. The token that ends an answer is free."""
    difference = (record.usage.output_tokens or 0) - local.tokens
    return 0 if difference == 1 and record.finish_reason in _NATURAL_ENDS else difference
