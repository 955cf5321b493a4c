"""Gate: a limit on a figure of the whole run, as `--llm-gate` takes it.

    gate       = [ name "/" ] ( timing ":" percentile | figure ) comparison number [ unit ]
    name       = any text: a request name, ended by the last "/" before the comparison; without it: all requests
    timing     = "ttft" | "tpot" | "itl" | "e2e" | … (every metric in ms that has percentiles with failures)
    percentile = "p" number                          (above 0, below 100: p50, p99.9)
    figure     = "errors" | "goodput" | "output_throughput" | "request_throughput"
    comparison = "<" | "<=" | ">" | ">="             (from above for timings and errors, from below for the others)
    number     = digits [ "." digits ] [ ( "e" | "E" ) [ "+" | "-" ] digits ]
    unit       = "us" | "ms" | "s"                   (timings)
               | "%"                                 (errors, goodput as a share of outcomes)
               | "tok/s"                             (output_throughput; may be left out)
               | "req/s"                             (request_throughput, goodput as a rate)

`--llm-slo` takes `metric comparison number unit` of it: see `slo`. Spaces may stand between the parts. Percentiles are
those with failures as +∞, so that a server that turns requests away does not pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS
from locust_llm.measure.expression import (
    COMPARISONS,
    REQUESTS,
    SHARE,
    TIME,
    TOKENS,
    Expression,
    base,
    parse,
    plain,
)

ERRORS: Final = "errors"
GOODPUT: Final = "goodput"
OUTPUT_THROUGHPUT: Final = "output_throughput"
REQUEST_THROUGHPUT: Final = "request_throughput"

TIMINGS: Final = tuple(metric.key for metric in DISTRIBUTIONS if metric.judged and metric.unit == "ms")
FIGURES: Final[dict[str, tuple[str, ...]]] = {
    ERRORS: SHARE,
    GOODPUT: SHARE + REQUESTS,
    OUTPUT_THROUGHPUT: TOKENS,
    REQUEST_THROUGHPUT: REQUESTS,
}
"""The figures that can be gated, and their units."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One limit. `percentile` (0 … 100) is None for figures; `name` None: all requests.

    `str` gives the text that parses to it.
    """

    metric: str
    comparison: str
    number: float
    unit: str
    percentile: float | None = None
    name: str | None = None

    @property
    def limit(self) -> float:
        """In the figure's own unit: ms, a share of 1, tokens or requests per second."""
        return base(self.number, self.unit)

    @property
    def q(self) -> float | None:
        """The percentile as a fraction."""
        return round(self.percentile / 100, 12) if self.percentile is not None else None

    @property
    def title(self) -> str:
        """The figure's name for people: `TTFT p95`."""
        if self.percentile is None:
            return self.metric.replace("_", " ")
        return f"{BY_KEY[self.metric].title} p{plain(self.percentile)}"

    @property
    def falls(self) -> bool:
        """Whether low values are the good ones."""
        return self.comparison.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit."""
        return COMPARISONS[self.comparison](value, self.limit)

    def __str__(self) -> str:
        name = f"{self.name}/" if self.name is not None else ""
        percentile = f":p{plain(self.percentile)}" if self.percentile is not None else ""
        return f"{name}{self.metric}{percentile}{self.comparison}{plain(self.number)}{self.unit}"


def parse_gate(text: str) -> Gate:
    """The gate that a text describes; raises ExpressionError, which points at the character."""
    found = parse(text)
    metric = found.metric.text
    if metric in TIMINGS:
        percentile = _percentile(found)
        check_side(found, falls=True)
        check_unit(found, TIME)
        return Gate(metric, found.comparison.text, found.number, found.unit.text, percentile, found.name)
    if metric not in FIGURES:
        found.fail(unknown(metric, (*TIMINGS, *FIGURES)), found.metric)
    if found.percentile is not None:
        found.fail(f"{metric} is one figure and has no percentiles", found.percentile)
    check_side(found, falls=metric == ERRORS)
    check_unit(found, FIGURES[metric])
    return Gate(metric, found.comparison.text, found.number, found.unit.text, None, found.name)


def _percentile(found: Expression) -> float:
    if found.percentile is None:
        found.fail(f"which percentile? Say {found.metric.text}:p95", found.comparison)
    percentile = float(found.percentile.text)
    if not 0 < percentile < 100:
        found.fail("a percentile lies above 0 and below 100", found.percentile)
    return percentile


def check_side(found: Expression, *, falls: bool) -> None:
    """Raise ExpressionError when the limit is on the side that nobody wants."""
    if found.comparison.text.startswith("<") != falls:
        side, signs = ("most", "< or <=") if falls else ("least", "> or >=")
        found.fail(f"{found.metric.text} is limited to at {side} so much: use {signs}", found.comparison)


def check_unit(found: Expression, units: tuple[str, ...]) -> None:
    """Raise ExpressionError when the unit is not one of `units`."""
    if found.unit.text not in units:
        known = " or ".join(unit for unit in units if unit)
        if not found.unit.text:
            found.fail(f"{found.metric.text} needs a unit: {known}", found.unit)
        found.fail(f"{found.metric.text} has no unit {found.unit.text!r}: use {known}", found.unit)


def unknown(metric: str, known: Iterable[str]) -> str:
    """Says that there is no such metric, and what there is: the nearest, or all."""
    near = difflib.get_close_matches(metric, known, n=1)
    return f"no metric {metric!r}" + (f"; is it {near[0]}?" if near else f": there are {', '.join(known)}")
