"""Lengths: how long prompts or answers shall be, in tokens: a constant, a distribution, or a histogram from a file."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMS = "512, uniform:100-900, normal:MEAN,SD, lognormal:MEDIAN,SIGMA or file:lengths.json"
LONGEST = 10_000_000
"""Draws are cut off here, and below at 1."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Whole numbers of tokens, at least 1, to be drawn with a generator of the caller's.

    `text` is what was asked for. `normal` is cut off at 1; `lognormal` is exp(N(ln MEDIAN, SIGMA)). `table` holds the
    lengths of a histogram with their cumulated weights.
    """

    text: str
    kind: str = "constant"
    first: float = 1.0
    second: float = 0.0
    table: tuple[tuple[int, float], ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def constant(self) -> int | None:
        """The one length, where there is only one."""
        return int(self.first) if self.kind == "constant" else None

    def draw(self, draw: random.Random) -> int:
        """The next length."""
        if self.kind == "constant":
            return int(self.first)
        if self.kind == "uniform":
            return draw.randint(int(self.first), int(self.second))
        if self.kind == "file":
            lengths, weights = zip(*self.table, strict=True)
            return int(draw.choices(lengths, cum_weights=weights)[0])
        gauss = draw.gauss(0.0, 1.0)
        if self.kind == "normal":
            value = self.first + gauss * self.second
        else:
            value = self.first * math.exp(min(gauss * self.second, 50.0))
        return max(1, min(round(value), LONGEST))

    def quantiles(self, *shares: float) -> list[int]:
        """The lengths below which these shares of the draws lie, by a thousand draws."""
        drawn = random.Random("quantiles")
        draws = sorted(self.draw(drawn) for _ in range(1001))
        return [draws[round(share * 1000)] for share in shares]


def parse_lengths(text: str) -> Lengths:
    """Read FORMS; raises ValueError with one sentence."""
    text = str(text).strip()
    kind, colon, rest = text.partition(":")
    if not colon:
        return Lengths(text, "constant", _whole(text, text))
    if kind == "file":
        return Lengths(text, "file", table=_histogram(rest.strip()))
    if kind == "uniform":
        low, dash, high = rest.partition("-")
        ends = _whole(low, text), _whole(high, text) if dash else 0
        if not ends[0] <= ends[1]:
            raise ValueError(f"{text!r} is no range of lengths: write uniform:LOW-HIGH, such as uniform:100-900")
        return Lengths(text, kind, *ends)
    if kind in ("normal", "lognormal"):
        middle, comma, spread = rest.partition(",")
        first, second = _number(middle), _number(spread) if comma else None
        if first is None or second is None or first < 1 or second < 0:
            names = "MEAN,SD" if kind == "normal" else "MEDIAN,SIGMA"
            raise ValueError(f"{text!r} makes no lengths: write {kind}:{names}, such as {_EXAMPLES[kind]}")
        return Lengths(text, kind, first, second)
    raise ValueError(f"{text[:60]!r} is no length: write {FORMS}")


_EXAMPLES = {"normal": "normal:512,128", "lognormal": "lognormal:512,0.5"}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value <= LONGEST else None


def _whole(part: str, text: str) -> int:
    """A whole number of tokens, at least 1."""
    try:
        value = int(part)
    except ValueError:
        raise ValueError(f"takes a whole number of tokens or a distribution ({FORMS}), not {text[:60]!r}") from None
    if value < 1:
        raise ValueError(f"must be at least 1, not {value}")
    if value > LONGEST:
        raise ValueError(f"must be at most {LONGEST:,}, not {value:,}")
    return value


def _histogram(path: str) -> tuple[tuple[int, float], ...]:
    """A JSON file with lengths and weights as an object ({"128": 10, "512": 3}) or pairs ([[128, 10], …]), or with
    plain lengths ([128, 96, …])."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    pairs = _pairs(content)
    weights: dict[int, float] = {}
    for number, (length, weight) in enumerate(pairs, 1):
        tokens, share = _as_number(length), _as_number(weight)
        if tokens is None or share is None or tokens < 1 or tokens != int(tokens) or tokens > LONGEST or share < 0:
            raise ValueError(f"{path}, entry {number}: {[length, weight]!r} is no length of 1 or more with its weight")
        weights[int(tokens)] = weights.get(int(tokens), 0.0) + share
    lengths = sorted(weights)
    cumulated = tuple(zip(lengths, itertools.accumulate(weights[length] for length in lengths), strict=True))
    if not cumulated or cumulated[-1][1] <= 0:
        raise ValueError(f'{path} holds no lengths: give {{"128": 10, "512": 3}} (length: weight) or [128, 96, …]')
    return cumulated


def _pairs(content: Any) -> list[tuple[Any, Any]]:
    if isinstance(content, Mapping):
        return list(content.items())
    if not isinstance(content, list):
        return []
    return [(each[0], each[1]) if isinstance(each, list) and len(each) == 2 else (each, 1) for each in content]


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return _number(str(value))
