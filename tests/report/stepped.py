"""Sweeps made up by formula: a server of 14 slots, and one that sustains 8 requests a second."""

from __future__ import annotations

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.rate import read_rates
from locust_llm.analysis.step import Quantiles, Status, StepResult
from locust_llm.report.run import RunView
from tests.analysis.build import step
from tests.web.runs import stats_of, view_of

LOADS = (1, 2, 4, 8, 11, 16, 23, 32, 64)
SLOTS = 14


def user_step(load: float, **more: object) -> StepResult:
    """One step of users; the one of 2 users was too short for an interval."""
    rate = load / (0.025**4 + (load * 0.025 / SLOTS) ** 4) ** 0.25
    wait_ms = 8 * max(0.0, load - 12) ** 1.5
    known: dict[str, object] = {
        "decoding": min(load, SLOTS),
        "in_flight": load,
        "interval": Interval(0.97 * rate, 1.03 * rate, 12) if load != 2 else NoInterval("too short"),
        "ttft": Quantiles(50 + wait_ms / 2, 80 + wait_ms, 90 + wait_ms, 100),
    }
    return step(load, rate, **(known | more))  # type: ignore[arg-type]


def sweep() -> tuple[StepResult, ...]:
    """A whole sweep of users."""
    return tuple(user_step(load) for load in LOADS)


def rate_step(rate_rps: float) -> StepResult:
    """One step of rate: above 8 requests a second the backlog grows."""
    served = min(rate_rps, 8.0)
    over = rate_rps > 8
    return step(
        rate_rps,
        100 * served,
        status=Status.OVERLOADED if over else Status.STEADY,
        users=3 * served,
        requests_per_s=served,
        backlog_per_s=Estimate(rate_rps - served, 0.1),
        open_loop=True,
        ttft=Quantiles(50, 4000.0 if over else 80.0, 90, 100),
    )


def rate_view() -> RunView:
    """A search of rates that is over."""
    steps = tuple(map(rate_step, (2, 4, 8, 16, 11.31)))
    return view_of(stats_of(), steps=steps, verdict=read_rates(steps, complete=True))
