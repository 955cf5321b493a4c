"""Prompts: one fixed text, or generated ones that no prefix cache has seen.

A generated prompt starts with a nonce (run, worker, count), since engines cache by prefix: unique per request, per
worker and per run. The words after it are drawn with a seed, so that two runs ask for the same amount of work.
"""

from __future__ import annotations

import random
from pathlib import Path

_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand"
    " part place case week company system program question work number night point home water room mother area money"
    " story fact month lot right study book eye job word business issue side kind head house service friend father"
    " power hour game line end member law car city name president team minute idea body back parent face level office"
    " door health person art war history party result change morning reason research girl guy moment air teacher force"
    " good new first last long great little own other old big high small large next early young important few public"
).split()

TEXT_WORDS = 20_000


class PromptFileError(ValueError):
    """The prompt file cannot be used; the message says why."""


class Prompts:
    """Makes prompts for the users of one process.

    `run` and `worker` name the run and the process; `words` is the length of a prompt (about as many tokens), the
    nonce included.
    """

    def __init__(self, *, words: int = 500, run: str = "", worker: int = 0, seed: int | None = None) -> None:
        draw = random.Random(f"{seed}/{worker}" if seed is not None else f"{run}/{worker}")
        self._text = draw.choices(_WORDS, k=TEXT_WORDS + words)
        self._draw = draw
        self._words = words
        self._stem = f"{run}-{worker}"
        self._count = 0

    def __call__(self) -> str:
        """The next prompt."""
        self._count += 1
        begin = self._draw.randrange(TEXT_WORDS)
        return " ".join((f"{self._stem}-{self._count}", *self._text[begin : begin + self._words - 1]))


class FixedPrompt:
    """The same prompt for every request."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self) -> str:
        """The prompt."""
        return self._text


def read_prompt_file(path: str) -> FixedPrompt:
    """A text file as the prompt of every request; raises PromptFileError."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PromptFileError(f"--llm-prompt-file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PromptFileError(f"--llm-prompt-file {path}: not a UTF-8 text file") from None
    if not text:
        raise PromptFileError(f"--llm-prompt-file {path}: the file is empty")
    return FixedPrompt(text)
