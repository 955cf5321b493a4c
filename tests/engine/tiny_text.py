"""What the tiny model says, known in advance: the one source for the model's maker and for the tests.

Standard library only: it is read by both the project's environment and the engine's.
"""

from __future__ import annotations

import itertools
import re

# Every token appears once, since the next token depends on the last one alone. café, 😀 and 日 are left as single
# bytes, so that characters are split over 2, 4 and 3 tokens.
TEXT = (
    "The quick brown fox jumps over a lazy dog, while seven wizards quietly mix ancient potions"
    " beside that old river; nobody knows why their café opened early😀日 and"
    " then every lamp went dark until morning came back with rain on roofs. END"
)


def pieces(text: str = TEXT) -> list[str]:
    """The text cut at word borders: an ASCII word with its blank, one mark, or one character outside ASCII."""
    return re.findall(r" ?[A-Za-z]+|[.,;]|[^\x00-\x7f]", text)


def tokens() -> list[bytes]:
    """The bytes of each token the model says before its end-of-sequence token."""
    said: list[bytes] = []
    for piece in pieces():
        said += [piece.encode()] if piece.isascii() else [bytes([byte]) for byte in piece.encode()]
    return said


# usage.completion_tokens of a whole answer: the tokens of TEXT and the end-of-sequence token.
N_TOKENS = len(tokens()) + 1


def said(max_tokens: int) -> str:
    """What the model has said after `max_tokens` tokens with `ignore_eos`, or with max_tokens < N_TOKENS.

    The text repeats without end. A character whose last byte is not out yet is not said.
    """
    return b"".join(itertools.islice(itertools.cycle(tokens()), max_tokens)).decode(errors="ignore")
