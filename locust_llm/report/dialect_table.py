"""DialectTable: the records of a run by another tool's definitions, ours below each, and what differs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from locust_llm.measure.catalogue import BY_KEY, TPOT
from locust_llm.measure.record import RequestRecord
from locust_llm.report.dialects import Dialect, Samples, Term, samples
from locust_llm.report.lines import NOTHING, number

WIDTH: Final = 120
QUANTILES: Final = (0.5, 0.9, 0.99)

_TITLE: Final = 40
_CELL: Final = 12


def dialect_text(dialect: Dialect, records: Sequence[RequestRecord], min_tokens: int) -> str:
    """The table and the differences; `min_tokens` is the run's --llm-min-tokens."""
    return "\n".join(_lines(dialect, records, min_tokens))


def _lines(dialect: Dialect, records: Sequence[RequestRecord], min_tokens: int) -> Iterator[str]:
    kept = [record for record in records if not record.warmup]
    answered = sum(record.success for record in kept)
    yield f"In the words of {dialect.title} · {answered:,} successful of {len(kept):,} requests"
    yield _row("ms", ("n", "mean", *(f"p{100 * q:g}" for q in QUANTILES)))
    for term in dialect.terms:
        yield _row(f"  {term.title}", _cells(samples(term, records), ranks=dialect.ranks))
        metric = BY_KEY[term.ours]
        yield _row(f"    ours: {metric.title}", _cells(_ours(term, kept, min_tokens), ranks=True))
    yield "-" * WIDTH
    for term in dialect.terms:
        yield from _wrapped(f"{term.title} = {term.formula}.")
    yield "What differs from ours:"
    delays = [(r.transit.sent_ns - r.started_ns) * 1e-6 for r in kept if r.success and r.transit.sent_ns is not None]
    for number_, difference in enumerate(dialect.differences, 1):
        told = f" Here that is {number(float(np.mean(delays)))} ms on average." if number_ == 1 and delays else ""
        yield from _wrapped(f"{number_}. {difference}{told}", "   ")


def _ours(term: Term, records: Sequence[RequestRecord], min_tokens: int) -> Samples:
    metric, found = BY_KEY[term.ours], []
    for record in records:
        value = metric.of(record)
        if value is None or (metric.key == TPOT and (record.output_tokens or 0) < min_tokens):
            continue
        found += [(float(each), 1.0) for each in np.atleast_1d(np.asarray(value, dtype=np.float64))]
    return found


def _cells(found: Samples, *, ranks: bool) -> tuple[str, ...]:
    if not found:
        return ("0", *[NOTHING] * (1 + len(QUANTILES)))
    values, weights = np.array(found, dtype=np.float64).T
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    if ranks:
        share = np.cumsum(weights) / weights.sum() if weights.sum() > 0 else np.linspace(0, 1, len(values))
        at = [float(values[min(np.searchsorted(share, q - 1e-12), len(values) - 1)]) for q in QUANTILES]
    else:
        at = [float(each) for each in np.quantile(values, QUANTILES)]
    mean = float(np.average(values, weights=weights)) if weights.sum() > 0 else None
    return (f"{len(found):,}", number(mean), *map(number, at))


def _row(title: str, cells: Sequence[str]) -> str:
    return f"{title:<{_TITLE}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent)
