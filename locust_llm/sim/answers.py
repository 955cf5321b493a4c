"""How long a simulated answer would be if nothing cut it off: its natural length, in tokens, the end token included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

_ARGUMENTS = {"constant": 1, "uniform": 2, "normal": 2, "lognormal": 2, "geometric": 1}


@dataclass(frozen=True, slots=True)
class AnswerLength:
    """A distribution of natural lengths; `kind` "endless" never ends by itself, so that `max_tokens` decides.

    constant:N · uniform:LOW:HIGH · normal:MEAN:SD · lognormal:MEDIAN:SIGMA · geometric:RATE (each token is the last
    with probability RATE). Draws are rounded and never below 1.
    """

    kind: str = "endless"
    first: float = 0.0
    second: float = 0.0

    def draw(self, random: Random) -> int | None:
        """A natural length in tokens, or `None` when the answer would never end."""
        match self.kind:
            case "endless":
                return None
            case "constant":
                value = self.first
            case "uniform":
                value = random.randint(int(self.first), int(self.second))
            case "normal":
                value = random.gauss(self.first, self.second)
            case "lognormal":
                value = self.first * math.exp(self.second * random.gauss(0.0, 1.0))
            case _:  # geometric, by inversion
                value = 1 if self.first >= 1 else math.ceil(math.log(1.0 - random.random()) / math.log1p(-self.first))
        return max(1, round(value))


def parse_answer_length(text: str) -> AnswerLength:
    """Reads "200" or "kind:number[:number]"; raises ValueError with a sentence when it cannot."""
    kind, *rest = text.split(":") if ":" in text else ("constant", text)
    count = _ARGUMENTS.get(kind)
    if count is None:
        raise ValueError(f"unknown distribution {kind!r}: use a number or one of {', '.join(_ARGUMENTS)}")
    if len(rest) != count:
        raise ValueError(f"{kind} takes {count} number{'s' * (count > 1)}, as in {kind}{':100' * count}")
    try:
        numbers = [float(part) for part in rest]
    except ValueError:
        raise ValueError(f"{text!r} holds something that is not a number") from None
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or numbers[0] == 0:
        raise ValueError(f"{text!r} needs finite numbers, the first greater than 0")
    if kind == "geometric" and numbers[0] > 1:
        raise ValueError("the rate of a geometric answer length must be at most 1")
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise ValueError(f"{text!r} has its low end above its high end")
    return AnswerLength(kind, *numbers)
