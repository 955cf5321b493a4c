"""Billing: what a run cost by a price list, and whether the server's counts can be right.

Prices are per million tokens, in any currency. Billed are the tokens that the server told: all input, of it the cached
part at its own price, and all output, reasoning included, also of failed requests where they were told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.measure.counts import Counts

MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens; None: not given, 0 for output and input, the input's for cached input."""

    input: float | None = None
    output: float | None = None
    cached: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost, in the prices' currency. The two ratios are None without a success or an output token."""

    total: float
    input: float
    cached: float
    output: float
    per_1000_requests: float | None
    per_million_output: float | None


def prices_of(options: Mapping[str, Any]) -> Prices | None:
    """The prices in a run's options (`llm_price_in` …); None when none is given."""
    found = [options.get(f"llm_price_{kind}") for kind in ("in", "out", "cached")]
    prices = Prices(*(float(price) if price is not None else None for price in found))
    return prices if prices != Prices() else None


def cost(counts: Counts, prices: Prices) -> Cost:
    """The cost of the tokens that were told."""
    price_in = prices.input if prices.input is not None else 0.0
    price_out = prices.output if prices.output is not None else 0.0
    price_cached = prices.cached if prices.cached is not None else price_in
    cached = min(counts.cached_tokens, counts.input_tokens)
    told_out = counts.output_tokens + counts.partial_tokens
    fresh_cost = (counts.input_tokens - cached) * price_in / MILLION
    cached_cost = cached * price_cached / MILLION
    output_cost = told_out * price_out / MILLION
    total = fresh_cost + cached_cost + output_cost
    return Cost(
        total,
        fresh_cost,
        cached_cost,
        output_cost,
        1e3 * total / counts.succeeded if counts.succeeded else None,
        MILLION * total / counts.output_tokens if counts.output_tokens else None,
    )
