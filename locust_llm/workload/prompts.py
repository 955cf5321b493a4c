"""Prompts: one fixed text, or generated ones that no prefix cache has seen.

Theory of operation. Generated text is a stretch of one fixed row of four-letter words, all so common that a tokenizer
has each as one token; the same row in every process and run. As engines cache by prefix, a prompt begins with something
that is unique per request, worker and run.

Without a calibration that is a nonce (run, worker, count), and a prompt has as many words as tokens were asked for.
With one (see `calibration`) it is the order of the first words: a prompt of n words has the row's first n words in
another order, so that every prompt of a length costs the same tokens whatever the tokenizer makes of each word.

With a shared prefix a prompt begins with one of a few prefixes, which are the same on all workers and new in each run;
what is unique comes after it.
"""

from __future__ import annotations

import random
from pathlib import Path

from locust_llm.workload.calibration import Calibration
from locust_llm.workload.lengths import Lengths

_WORDS = (
    "time year work life part case week hand room home fact book word side kind head game line name team idea body"
    " face door hour area army bank base bill bird blue boat born both call camp card care cash cell city club coal"
    " coat cold cook cool cost crop data date deal deep desk down draw drop duty earn east easy edge else even fail"
    " fair fall farm fear feel file fill film find fine fire firm fish five flat flow food foot form four free full"
    " gate gave girl give goal gold gone good gray grew grow half hall hang hard hear heat help here high hill hold"
    " hole hope huge iron item"
).split()
WORD = 5
"""Characters of a word of the row, with its blank."""

ROW_WORDS = 20_000
FIRST = "Note "
"""How each calibrated prompt begins: a first word, without a blank before it, may cost tokens of its own."""

UNIQUE_WORDS = 12
"""How many first words stand in an order of their own: 12! orders."""


def _row() -> str:
    words = random.Random("locust_llm").choices(_WORDS, k=ROW_WORDS)
    return " ".join(words) + " "


_ROW = _row()


def row(begin: int, end: int) -> str:
    """The words of the row from number `begin` to before `end`, each with a blank after it; the row has no end."""
    pieces = []
    while begin < end:
        at = begin % ROW_WORDS
        count = min(end - begin, ROW_WORDS - at)
        pieces.append(_ROW[at * WORD : (at + count) * WORD])
        begin += count
    return "".join(pieces)


def arranged(begin: int, end: int, turn: int, order: random.Random) -> str:
    """The words `begin` to `end` of the row, turned by `turn` words and the first ones in an order of their own."""
    if end <= begin:
        return ""
    middle = begin + turn % (end - begin)
    text = row(middle, end) + row(begin, middle)
    head = text[: UNIQUE_WORDS * WORD].split()
    order.shuffle(head)
    return " ".join(head) + " " + text[UNIQUE_WORDS * WORD :]


class PromptFileError(ValueError):
    """The prompt file cannot be used; the message says why."""


class Prompts:
    """Makes prompts for the users of one process.

    `run` and `worker` name the run and the process; `lengths` are tokens of the whole input. `shared` is the share of
    it that is one of `prefixes` prefixes. A seed repeats lengths, prefixes' turns and words, not what makes unique.
    """

    def __init__(
        self,
        lengths: Lengths,
        *,
        run: str = "",
        worker: int = 0,
        seed: int | str | None = None,
        shared: float = 0.0,
        prefixes: int = 1,
    ) -> None:
        self._lengths = lengths
        self._run = run
        self._draw = random.Random(f"{seed if seed is not None else run}/{worker}")
        self._order = random.Random(f"{run}/{worker}/order")
        self._stem = f"{run}-{worker}"
        self._shared = shared
        self._prefixes = prefixes
        self._count = 0

    def __call__(
        self, tokens: int | None = None, *, shared: float | None = None, calibration: Calibration | None = None
    ) -> str:
        """The next prompt, of a length of its own if one is given."""
        given = tokens is not None
        tokens = tokens if tokens is not None else self._lengths.draw(self._draw)
        share = shared if shared is not None else self._shared
        if calibration is None:
            return self._with_nonce(tokens, round(share * tokens))
        words, pad = calibration.words(tokens)
        ahead = min(calibration.words(share * tokens)[0], words) if share else 0
        same_cost = given or self._lengths.constant is not None
        prefix = self._prefix(ahead, same_cost=same_cost)
        return (FIRST + prefix + self._own(ahead, words)).rstrip() + pad

    def measured(self, words: int, pad: str) -> str:
        """A prompt of so many words and a pad, without a shared prefix: for a calibration."""
        return (FIRST + self._own(0, words)).rstrip() + pad

    def _own(self, begin: int, end: int) -> str:
        return arranged(begin, end, self._draw.randrange(ROW_WORDS), self._order)

    def _with_nonce(self, words: int, ahead: int) -> str:
        self._count += 1
        prefix = self._prefix(ahead, same_cost=False)
        if words <= ahead:
            return prefix.rstrip()
        turn = self._draw.randrange(ROW_WORDS)
        return f"{prefix}{self._stem}-{self._count} {arranged(ahead, words - 1, turn, self._draw)}".rstrip()

    def _prefix(self, words: int, *, same_cost: bool) -> str:
        """One of the prefixes. Where prompts differ in length, a shorter prefix is the beginning of a longer one."""
        if not words:
            return ""
        number = self._draw.randrange(self._prefixes)
        order = random.Random(f"{self._run}/prefix {number}")
        turn = order.randrange(ROW_WORDS)
        if same_cost:
            return arranged(0, words, turn, order)
        head = min(words, UNIQUE_WORDS)
        return arranged(turn, turn + head, 0, order) + row(turn + head, turn + words)


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
