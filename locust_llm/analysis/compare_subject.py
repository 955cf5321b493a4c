"""Subjects of a comparison: the figures that two sides of runs are compared in, and how they are named.

    subject    = [ name "/" ] ( timing ":" percentile | figure )
    figure     = "errors" | "goodput" | "goodput%" | "output_throughput" | "request_throughput"

The words are those of a gate without its limit (see `measure.gate`); `goodput%` is goodput as a share of outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from locust_llm.measure.catalogue import BY_KEY, DISTRIBUTIONS
from locust_llm.measure.expression import ExpressionError, plain
from locust_llm.measure.figures import FIGURES, Figure, Kind
from locust_llm.measure.gate import ERRORS, GOODPUT, OUTPUT_THROUGHPUT, REQUEST_THROUGHPUT, TIMINGS, Gate, unknown

FAILED_SHARE: Final = "failed_share"
GOODPUT_SHARE: Final = "goodput_share"

_WORDS: Final = {
    ERRORS: FAILED_SHARE,
    GOODPUT: GOODPUT,
    f"{GOODPUT}%": GOODPUT_SHARE,
    OUTPUT_THROUGHPUT: OUTPUT_THROUGHPUT,
    REQUEST_THROUGHPUT: REQUEST_THROUGHPUT,
}
"""What figures are called when they are judged → their key."""

_CALLED: Final = {key: word for word, key in _WORDS.items()}
_FIGURES: Final[dict[str, Figure]] = {figure.key: figure for figure in FIGURES}
_SUBJECT: Final = re.compile(
    r"\s*(?P<metric>[A-Za-z_][A-Za-z0-9_]*%?)\s*(?::\s*p(?P<percentile>[0-9]+(?:\.[0-9]+)?)\s*)?$"
)

PERCENTILES: Final = (50.0, 95.0, 99.0)
"""Those of every distribution in the table."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One figure: a percentile (0 … 100) of a distribution, or a rate or share. `name` None: of all requests.

    `str` gives the text that parses to it.
    """

    key: str
    percentile: float | None = None
    name: str | None = None

    @property
    def title(self) -> str:
        """Its name for people, without the request name."""
        if self.percentile is None:
            figure = _FIGURES[self.key]
            return f"{figure.title} (share)" if figure.key == GOODPUT_SHARE else figure.title
        return f"{BY_KEY[self.key].title} p{plain(self.percentile)}"

    @property
    def unit(self) -> str:
        """`ms`, `tok/s` …; `%` for shares."""
        if self.is_share:
            return "%"
        return BY_KEY[self.key].unit if self.percentile is not None else _FIGURES[self.key].unit

    @property
    def q(self) -> float | None:
        """The percentile as a fraction."""
        return round(self.percentile / 100, 12) if self.percentile is not None else None

    @property
    def figure(self) -> Figure:
        """The rate or share; raises KeyError for a percentile."""
        return _FIGURES[self.key]

    @property
    def is_share(self) -> bool:
        """Whether it is a fraction of 1, compared by difference and not by ratio."""
        return self.percentile is None and _FIGURES[self.key].kind is Kind.SHARE

    @property
    def lower_is_better(self) -> bool:
        """Which way is good, of those that can be judged."""
        return self.percentile is not None or self.key == FAILED_SHARE

    def __str__(self) -> str:
        word = self.key if self.percentile is not None else _CALLED.get(self.key, self.key)
        percentile = f":p{plain(self.percentile)}" if self.percentile is not None else ""
        return f"{self.name}/{word}{percentile}" if self.name is not None else f"{word}{percentile}"


STANDARD: Final = (
    Subject("ttft", 50.0),
    Subject("ttft", 95.0),
    Subject("tpot", 50.0),
    Subject(OUTPUT_THROUGHPUT),
    Subject(FAILED_SHARE),
)
"""What is judged when nobody says otherwise."""


def parse_subject(text: str) -> Subject:
    """The figure that a text names; raises ExpressionError, which points at the character."""
    slash = text.rfind("/")
    name = text[:slash].strip() if slash >= 0 else None
    begin = slash + 1
    if name == "":
        raise ExpressionError("the request name before the slash is missing", text, 0)
    found = _SUBJECT.match(text, begin)
    if found is None:
        raise ExpressionError("a metric is expected, such as ttft:p95 or errors", text, begin)
    metric, percentile = found["metric"], found["percentile"]
    if metric in _WORDS:
        if percentile is not None:
            raise ExpressionError(f"{metric} is one figure and has no percentiles", text, found.start("percentile") - 1)
        return Subject(_WORDS[metric], None, name)
    if metric not in TIMINGS:
        raise ExpressionError(unknown(metric, (*TIMINGS, *_WORDS)), text, found.start("metric"))
    if percentile is None:
        raise ExpressionError(f"which percentile? Say {metric}:p95", text, found.end("metric"))
    if not 0 < float(percentile) < 100:
        raise ExpressionError("a percentile lies above 0 and below 100", text, found.start("percentile"))
    return Subject(metric, float(percentile), name)


def of_gate(gate: Gate) -> Subject:
    """The figure that a gate is about."""
    if gate.percentile is not None:
        return Subject(gate.metric, gate.percentile, gate.name)
    word = f"{GOODPUT}%" if gate.metric == GOODPUT and gate.unit == "%" else gate.metric
    return Subject(_WORDS[word], None, gate.name)


def every() -> Iterator[Subject]:
    """All that a table shows of all requests, in the catalogue's order."""
    yield from (Subject(metric.key, percentile) for metric in DISTRIBUTIONS for percentile in PERCENTILES)
    yield from (Subject(figure.key) for figure in FIGURES if figure.kind is not Kind.COUNT)
