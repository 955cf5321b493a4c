"""KneePanel: a sweep or knee search as the page and the HTML report draw it: points, marks, facts, table, words.

What stands on the x axis is what the steps were about: the users that ran on average, or the requests a second that
were offered. A probe step, with answers twice as long, is in the table and not on the curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from locust_llm.analysis.intervals import Interval
from locust_llm.analysis.rate import RateVerdict
from locust_llm.analysis.step import StepResult
from locust_llm.analysis.verdict import Repeats, Verdict
from locust_llm.report.digits import Number, short, three
from locust_llm.report.run import RunView
from locust_llm.report.steps import steps_dict

USERS: Final = "running users"
RATE: Final = "requests/s offered"

THROUGHPUT: Final = {"tok/s": "output tok/s"}
"""What a step's throughput is called, by its unit; requests are called by their unit."""

NAMES: Final = {
    "users": "Users, before → past",
    "in_flight": "Requests in flight",
    "decoding": "Streams decoding",
    "tpot": "TPOT (ms)",
    "throughput": "Throughput",
    "refused_share": "Share refused",
}
"""What the numbers of a cause are called."""


def panel(view: RunView) -> dict[str, Any] | None:
    """What the panel shows; None for a run without steps.

    Beside `steps_dict`: `now` (what the running step waits for, or None), `rates` (steps are rates), `x` and `y` (names
    of the axes), `points` in the order of x, `marks` (places on x; a missing one is None, a missing side of a pair too)
    and `facts` (titles and values: the numbers that the verdict rests on).
    """
    steps, verdict = view.steps, view.verdict
    if not steps and view.step_now is None:
        return None
    rates = bool(steps) and steps[0].open_loop
    unit = steps[0].unit if steps else "tok/s"
    curve = sorted((step for step in steps if step.output_factor == 1.0), key=lambda step: _x(step))
    return steps_dict(steps, verdict) | {
        "now": view.step_now,
        "rates": rates,
        "x": RATE if rates else USERS,
        "y": THROUGHPUT.get(unit, unit),
        "unit": unit,
        "points": [_point(step) for step in curve],
        "marks": _marks(curve, verdict),
        "facts": [[title, text] for title, text in _facts(verdict)],
    }


def _x(step: StepResult) -> float:
    return step.load if step.open_loop else step.users


def _point(step: StepResult) -> dict[str, Any]:
    """One step on the chart. `low` and `high`: the throughput's 95 % interval within this run, where there is one."""
    interval = step.interval if isinstance(step.interval, Interval) else None
    return {
        "x": short(_x(step)),
        "load": short(step.load),
        "throughput": short(step.throughput.value) if step.throughput is not None else None,
        "low": short(interval.low) if interval is not None else None,
        "high": short(interval.high) if interval is not None else None,
        "ttft_p95": three(step.ttft.p95),
        "few": step.ttft.few(0.95),
        "status": step.status.value,
    }


# -- marks ---------------------------------------------------------------------------------------------------------


def _marks(steps: Sequence[StepResult], verdict: Verdict | RateVerdict | None) -> dict[str, Any]:
    """Where knee, best step, bracket and zone are; of rates the highest sustained and the lowest overloaded one."""
    if isinstance(verdict, RateVerdict):
        return {"sustained": short(verdict.sustained_rps), "overloaded": short(verdict.overloaded_rps)}
    if verdict is None:
        return {}

    def at(load: float | None) -> Number | None:
        """The users that ran when so many were asked for."""
        return next((short(step.users) for step in steps if step.load == load), None)

    return {
        "knee": three(verdict.knee),
        "best": at(verdict.best),
        "bracket": [at(load) for load in verdict.bracket],
        "zone": [three(end) for end in verdict.zone] if verdict.zone is not None else None,
    }


# -- facts ---------------------------------------------------------------------------------------------------------


def _facts(verdict: Verdict | RateVerdict | None) -> Iterator[tuple[str, str]]:
    if isinstance(verdict, RateVerdict):
        yield from _rate_facts(verdict)
    elif verdict is not None:
        yield from _knee_facts(verdict)
    if verdict is not None and verdict.repeats is not None:
        yield from _repeats_facts(verdict.repeats)


def _repeats_facts(repeats: Repeats) -> Iterator[tuple[str, str]]:
    yield "Found by each run", ", ".join(f"{three(value)}" if value is not None else "none" for value in repeats.values)
    interval = repeats.interval
    if isinstance(interval, Interval):
        yield "Between runs, 95 %", f"{three(interval.low)} to {three(interval.high)}"


def _knee_facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "Verdict", verdict.kind.value
    if verdict.slo_target is not None:
        capacity = (
            f"{verdict.slo_capacity:g} users" if verdict.slo_capacity is not None else "not even the lightest step"
        )
        yield f"SLO capacity ({100 * verdict.slo_target:.3g} %)", capacity
    if verdict.knee is not None:
        yield "Knee", f"{three(verdict.knee)} users, {'of the fitted curve' if verdict.fitted else 'the best step'}"
    low, high = verdict.bracket
    if low is not None or high is not None:
        yield "Bracket", _pair(low, high)
    if verdict.zone is not None:
        yield "Zone (power within 5 %)", _pair(*verdict.zone)
    if verdict.best is not None and verdict.throughput is not None:
        served = (
            f", {short(verdict.requests_per_s)} req/s" if verdict.requests_per_s and verdict.unit == "tok/s" else ""
        )
        yield f"Best step, {verdict.best:g} users", f"{short(verdict.throughput):,} {verdict.unit}{served}"
    if verdict.cause is not None:
        yield "Cause", verdict.cause.kind.value
        yield from _changes(verdict.cause.numbers)


def _changes(numbers: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """What the cause rests on: each figure before and past, and how it grew with the users (1: in proportion)."""
    for key in numbers:
        name = key.removesuffix("_before")
        if key.endswith("_before") and f"{name}_past" in numbers:
            told = f"{three(numbers[key]):,} → {three(numbers[f'{name}_past']):,}"
            growth = numbers.get(f"{name}_growth")
            yield (
                NAMES.get(name, name.replace("_", " ")),
                told + (f", growth {growth:.2f}" if growth is not None else ""),
            )
        elif not key.endswith(("_past", "_growth")):
            yield NAMES.get(key, key.replace("_", " ")), f"{three(numbers[key]):,}"


def _rate_facts(verdict: RateVerdict) -> Iterator[tuple[str, str]]:
    yield "Verdict", verdict.kind.value
    if verdict.slo_target is not None:
        capacity = verdict.slo_capacity_rps
        told = f"{short(capacity)} requests/s" if capacity is not None else "no rate that was tried"
        yield f"SLO capacity ({100 * verdict.slo_target:.3g} %)", told
    if verdict.sustained_rps is not None:
        yield "Highest sustained", f"{short(verdict.sustained_rps)} requests/s"
    if verdict.overloaded_rps is not None:
        yield "Lowest overloaded", f"{short(verdict.overloaded_rps)} requests/s"
    if verdict.served_rps is not None:
        yield "Served while overloaded", f"{short(verdict.served_rps)} requests/s"


def _pair(low: float | None, high: float | None) -> str:
    """`8 to 32 users`; a side that is open is said so."""
    if low is None:
        return f"up to {three(high)} users"
    return f"{three(low)} users and more" if high is None else f"{three(low)} to {three(high)} users"
