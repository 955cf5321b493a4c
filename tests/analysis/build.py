"""Rows and steps for tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.outcomes import Ended, Fate
from locust_llm.analysis.step import Quantiles, Status, StepResult

NAN = math.nan


def done(
    user: int, started_s: float, ended_s: float, *, tokens: float = 100.0, ttft_ms: float = 50.0, **more: Any
) -> Ended:
    """A successful request whose tokens come evenly from its first to its end."""
    first_s = started_s + ttft_ms / 1e3
    span_ms = (ended_s - first_s) * 1e3
    row = Ended(
        user=user,
        started_s=started_s,
        first_s=first_s,
        last_s=ended_s,
        ended_s=ended_s,
        input_tokens=NAN,
        tokens=tokens,
        decode_ms=span_ms,
        decode_tokens=tokens - 1,
        ttft_ms=ttft_ms,
        tpot_ms=span_ms / (tokens - 1),
        e2e_ms=(ended_s - started_s) * 1e3,
        fate=Fate.SUCCESS,
        met=-1,
        error=None,
    )
    return row._replace(**more)


def failed(
    user: int, started_s: float, ended_s: float, fate: Fate = Fate.FAILED, error: str = "boom", **more: Any
) -> Ended:
    """A request without an answer."""
    absent = dict.fromkeys(("first_s", "last_s", "tokens", "ttft_ms", "tpot_ms", "e2e_ms"), NAN)
    absent |= dict.fromkeys(("decode_ms", "decode_tokens"), NAN)
    return done(user, started_s, ended_s, **absent, fate=fate, error=error)._replace(**more)  # type: ignore[arg-type]


def step(
    load: float,
    rate: float,
    *,
    ln_error: float = 0.008,
    decoding: float | None = None,
    in_flight: float | None = None,
    status: Status = Status.STEADY,
    **more: Any,
) -> StepResult:
    """A step at `load` users that got `rate` tokens a second; D and L are the users unless they are told."""
    streams = decoding if decoding is not None else load
    tpot_ms = 1e3 * streams / rate if rate > 0 else 1.0
    values: dict[str, Any] = {
        "users": load,
        "begin_s": 0.0,
        "end_s": 60.0,
        "throughput": Estimate(rate, ln_error * rate),
        "requests_per_s": rate / 100.0 / more.get("output_factor", 1.0),
        "in_flight": Estimate(in_flight if in_flight is not None else load, 0.0),
        "decoding": Estimate(streams, 2 * ln_error * streams),
        "tpot_ms": Estimate(tpot_ms, ln_error * tpot_ms),
        "residence_s": 4.0,
        "p95_residence_s": 6.0,
        "ttft": Quantiles(50.0, 80.0, 90.0, 100),
        "outcomes": int(10 * load),
        "succeeded": int(10 * load),
        "little": 1.0,
    }
    return StepResult(load=load, status=status, **(values | more))


def sweep(loads: Sequence[float], law: Callable[[float], float], **more: Any) -> list[StepResult]:
    """Steps of a server that gives `law(users)` tokens a second."""
    return [step(load, law(load), **more) for load in loads]
