"""Calibration: how many words of generated text make how many of the server's tokens, found out by asking it.

Theory of operation. Only the server's usage tells what its tokenizer and chat template make of a text. So a few small
requests with generated text are sent and their prompt tokens read. Two short ones give the cost of a word and of all
that stands around the text; each further one is sent at the length that is wanted, and corrects what is left over.
Between two measured lengths tokens go linearly with words, as the row of words is evenly mixed.

Where a word costs several tokens (a byte-level tokenizer: five), whole words cannot hit every length, and a pad of a
few letters makes up for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

PADS = ("", ".", " a", " is", " the")
"""Texts after the last word, of so many characters: a token each for most tokenizers, a token a letter for others."""

MOST_PROBES = 6
TOLERANCE = 0.01
_GOOD = 0.004
_COSTLY_WORD = 1.5


class CalibrationError(ValueError):
    """The lengths cannot be had from this server; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measured prompt: so many words of the row and a pad were so many tokens."""

    words: int
    pad: str
    tokens: int

    @property
    def bare(self) -> int:
        """Tokens without the pad, which is there only where a letter is a token."""
        return self.tokens - len(self.pad)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured prompts, by words; at least two of different lengths."""

    points: tuple[Point, ...]

    def words(self, tokens: float, near: float = TOLERANCE) -> tuple[int, str]:
        """How many words (at least 1), and which pad after them, make a prompt of so many tokens; those of a measured
        prompt, if one is as `near` as that share."""
        best = min(self.points, key=lambda point: abs(point.tokens - tokens))
        if abs(best.tokens - tokens) <= near * tokens:
            return best.words, best.pad
        low, high = _around(self.points, tokens)
        per_word = (high.bare - low.bare) / (high.words - low.words)
        exact = low.words + (tokens - low.bare) / per_word
        if per_word < _COSTLY_WORD:
            return max(1, round(exact)), ""
        words = max(1, int(exact + 1e-6))
        return words, PADS[max(0, min(round((exact - words) * per_word), len(PADS) - 1))]

    @property
    def per_word(self) -> float:
        """Tokens of a word, on average."""
        low, high = self.points[0], self.points[-1]
        return (high.bare - low.bare) / (high.words - low.words)

    def error(self, tokens: int) -> float:
        """How far, as a share, the nearest measured prompt is from a length; 0 is exact."""
        return min(abs(point.tokens - tokens) for point in self.points) / tokens

    def to_list(self) -> list[list[Any]]:
        """As plain values."""
        return [[point.words, point.pad, point.tokens] for point in self.points]

    @classmethod
    def from_list(cls, points: Sequence[Sequence[Any]]) -> Calibration:
        """What `to_list` described."""
        return cls(tuple(Point(*point) for point in points))


def calibrate(
    measure: Callable[[int, str], int], targets: Sequence[int], *, most_probes: int = MOST_PROBES
) -> Calibration:
    """Find a calibration for prompts of `targets` tokens.

    `measure(words, pad)` sends a prompt and returns its tokens as the server counts them; it is called at most
    `most_probes` times. Raises CalibrationError where the server's counts do not grow with the text, or where a target
    is less than what stands around the text.
    """
    small = max(8, min(targets) // 8)
    points = [Point(words, "", measure(words, "")) for words in (small, 2 * small)]
    if points[1].tokens <= points[0].tokens:
        raise CalibrationError(
            f"the server counts {points[0].tokens} and {points[1].tokens} prompt tokens for {small} and {2 * small}"
            " words: its usage does not tell the length of a prompt"
        )
    per_word = (points[1].tokens - points[0].tokens) / small
    around = points[0].tokens - small * per_word
    if min(targets) < around + per_word:
        raise CalibrationError(
            f"prompts of {min(targets)} tokens cannot be had: what the server puts around the text alone is"
            f" {around:.0f} tokens"
        )
    for _ in range(most_probes - 2):
        found = Calibration(tuple(sorted(points, key=lambda point: (point.words, point.pad))))
        off = sorted((target for target in targets if found.error(target) > _GOOD), key=found.error, reverse=True)
        tried = {(point.words, point.pad) for point in points}
        wanted = [found.words(target, _GOOD) for target in off]
        new = next((each for each in wanted if each not in tried), None)
        if new is None:
            break
        points.append(Point(*new, measure(*new)))
    return Calibration(tuple(sorted(points, key=lambda point: (point.words, point.pad))))


def _around(points: Sequence[Point], tokens: float) -> tuple[Point, Point]:
    """The two measured lengths between which a length lies, or the nearest two."""
    by_words = sorted({point.words: point for point in points}.values(), key=lambda point: point.words)
    place = sum(point.bare <= tokens for point in by_words)
    place = min(max(place, 1), len(by_words) - 1)
    return by_words[place - 1], by_words[place]
