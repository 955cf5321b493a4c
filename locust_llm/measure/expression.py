"""Expression: the one parser of what is asked of figures, `--llm-gate` and `--llm-slo`. The grammar stands in `gate`.

It knows the parts of an expression and where each stands, so that whoever asks for more (a known metric, a unit that
fits) can point at the character, too. Request names may hold anything: the comparison is the last one in the text, and
the name ends at the last slash before it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

TIME: Final = ("us", "ms", "s")
SHARE: Final = ("%",)
TOKENS: Final = ("tok/s", "")
REQUESTS: Final = ("req/s",)
"""Units of each kind of figure; an empty one: the number may stand alone."""

_COMPARISON: Final = re.compile(r"[<>]=?")
_METRIC: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
_NUMBER: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_PERCENTILE: Final = re.compile(r"\s*p([0-9]+(?:\.[0-9]+)?)\s*")


class ExpressionError(ValueError):
    """What is wrong with an expression; its text names the character, counted from 1, and points at it."""

    def __init__(self, problem: str, text: str, at: int) -> None:
        shown = "".join(c if c.isprintable() else " " for c in text)
        super().__init__(f"{problem}, at character {at + 1}:\n    {shown}\n    {' ' * at}^")
        self.problem = problem
        self.at = at


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an expression and where it begins."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Expression:
    """The parts of an expression; `name` and `percentile` are None where they do not stand."""

    text: str
    name: str | None
    metric: Part
    percentile: Part | None
    comparison: Part
    number: float
    unit: Part

    def fail(self, problem: str, part: Part) -> NoReturn:
        """Raise an ExpressionError that points at a part."""
        raise ExpressionError(problem, self.text, part.at)


def parse(text: str) -> Expression:
    """The parts of an expression; raises ExpressionError."""
    comparisons = list(_COMPARISON.finditer(text))
    if not comparisons:
        wrong = text.find("=")
        raise ExpressionError("a comparison is missing: <, <=, > or >=", text, wrong if wrong >= 0 else _end(text))
    found = comparisons[-1]
    slash = text.rfind("/", 0, found.start())
    name = text[:slash].strip() if slash >= 0 else None
    if name == "":
        raise ExpressionError("the request name before the slash is missing", text, 0)
    metric, percentile = _subject(text, slash + 1, found.start())
    number, unit = _limit(text, found.end())
    return Expression(text, name, metric, percentile, Part(found[0], found.start()), number, unit)


def base(number: float, unit: str) -> float:
    """A number in the unit that figures have: ms, a share of 1, tokens or requests per second."""
    if unit == "us":
        return number / 1e3
    if unit == "s":
        return number * 1e3
    return number / 100 if unit == "%" else number


def parse_share(text: str) -> float:
    """`20%` as 0.2; raises ExpressionError unless it lies above 0 and at most at 100 %."""
    number, unit = _limit(text, 0)
    if unit.text not in SHARE:
        raise ExpressionError("a percentage is expected, such as 20%", text, unit.at)
    if not 0 < number <= 100:
        raise ExpressionError("a percentage above 0 and up to 100 is expected", text, 0)
    return base(number, unit.text)


def parse_time(text: str) -> float:
    """`250ms` as 250.0, `0.5s` as 500.0 (milliseconds); raises ExpressionError unless it is a time above 0."""
    number, unit = _limit(text, 0)
    if unit.text not in TIME:
        raise ExpressionError("a time is expected, such as 250ms", text, unit.at)
    if not number > 0:
        raise ExpressionError("a time above 0 is expected", text, 0)
    return base(number, unit.text)


def plain(number: float) -> str:
    """A number as `parse` reads it, exactly; whole ones without a point."""
    return str(int(number)) if abs(number) < 1e15 and number == int(number) else repr(number)


def _subject(text: str, begin: int, end: int) -> tuple[Part, Part | None]:
    metric = _METRIC.match(text, begin, end)
    if metric is None:
        raise ExpressionError("a metric is missing", text, _skip(text, begin, end))
    at = metric.end()
    if at == end:
        return Part(metric[1], metric.start(1)), None
    if text[at] != ":":
        raise ExpressionError(f"unexpected {text[at]!r} after the metric", text, at)
    percentile = _PERCENTILE.match(text, at + 1, end)
    if percentile is None or percentile.end() != end:
        at = percentile.end() if percentile is not None else _skip(text, at + 1, end)
        raise ExpressionError("a percentile is expected, such as p95", text, at)
    return Part(metric[1], metric.start(1)), Part(percentile[1], percentile.start(1))


def _limit(text: str, begin: int) -> tuple[float, Part]:
    number = _NUMBER.match(text, begin)
    if number is None:
        raise ExpressionError("a number is expected", text, _skip(text, begin, len(text)))
    value = float(number[1])
    if not math.isfinite(value):
        raise ExpressionError("this number is too large", text, number.start(1))
    unit = text[number.end() :]
    return value, Part(unit.strip(), _skip(text, number.end(), len(text)))


def _skip(text: str, begin: int, end: int) -> int:
    """The first character that is no space."""
    return begin + len(text[begin:end]) - len(text[begin:end].lstrip())


def _end(text: str) -> int:
    return len(text.rstrip())
