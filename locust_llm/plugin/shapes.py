"""Load shapes: `--llm-shape sweep|knee` runs a plan of steps, whatever the locustfile.

With OpenLoopUsers the steps are rates of arrivals, else numbers of users.

Locust activates every concrete shape that a locustfile imports, so this one is abstract; it is made in `init`, where
the option asks for it. A shape of the locustfile's own beside the option is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from locust import LoadTestShape

from locust_llm.analysis.backlog import BacklogRule
from locust_llm.analysis.knee import KneeSearch
from locust_llm.analysis.rate import RateSearch
from locust_llm.analysis.steady import WindowRule
from locust_llm.plugin.plans import Plan, RateSweep, Repeated, Sweep
from locust_llm.plugin.step_load import RateLoad, UserLoad
from locust_llm.plugin.steps import StepRun
from locust_llm.wire.target import ConfigurationError

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session
    from locust_llm.plugin.settings import Settings

SWEEP, KNEE = "sweep", "knee"
SHAPES = (SWEEP, KNEE)

FIRST_RPS: Final = 1.0
"""Where a search of rates begins when --llm-rate does not say."""

Number = TypeVar("Number", int, float)


class SteppedShape(LoadTestShape):
    """Runs the steps of a plan; made anew for each test."""

    abstract = True
    use_common_options = True

    def __init__(self, session: Session) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._session = session
        self._run: str | None = None

    def tick(self) -> tuple[int, float] | None:
        """Called by Locust once a second."""
        session = self._session
        if self._run != session.run or session.steps is None:
            self._run = session.run
            options = session.environment.parsed_options
            run_s = float(options.run_time) if options is not None and options.run_time else None
            plan = Repeated(plan_of(session.settings, rates=session.open_load.active), session.settings.repeat)
            session.steps = StepRun(session, plan, load_of(session), run_s=run_s)
        return session.steps.tick()


def install(environment: Any, session: Session) -> None:
    """Set the environment's shape when the options ask for one; raises ConfigurationError."""
    if not session.settings.shape or session.is_worker:
        return
    plan_of(session.settings, rates=session.open_load.active)
    if environment.shape_class is not None:
        raise ConfigurationError(
            f"--llm-shape {session.settings.shape} beside the locustfile's own shape"
            f" {type(environment.shape_class).__name__}: take one of them out"
        )
    shape = SteppedShape(session)
    shape.runner = environment.runner
    environment.shape_class = shape


def plan_of(settings: Settings, *, rates: bool) -> Plan:
    """The plan that the options ask for, of rates or of users; raises ConfigurationError."""
    target = slo_target(settings)
    if settings.shape == KNEE:
        if not rates:
            return KneeSearch(settings.max_users, probe=not settings.no_probe, slo_target=target)
        first = settings.rate if settings.rate else min(FIRST_RPS, settings.max_rate)
        if first > settings.max_rate:
            raise ConfigurationError(f"--llm-rate {first:g}, the first to try, is above --llm-max-rate")
        return RateSearch(settings.max_rate, first, slo_target=target)
    if rates:
        return RateSweep(_numbers(settings.steps, float, "rates of requests per second, such as 2,4,8"), target)
    return Sweep(_numbers(settings.steps, int, "numbers of users, such as 1,4,8,16"), target)


def slo_target(settings: Settings) -> float | None:
    """The share of requests (0 … 1) that has to meet the SLOs; None when there are none."""
    return settings.slo_target if settings.slo else None


def load_of(session: Session) -> UserLoad | RateLoad:
    """How the steps of a test are put on."""
    settings = session.settings
    if not session.open_load.active:
        rule = WindowRule(max_s=settings.step_time, interval=slo_target(settings) is not None)
        return UserLoad(session, rule)
    options = session.environment.parsed_options
    users = getattr(options, "num_users", None)
    return RateLoad(session, BacklogRule(max_s=settings.step_time), users if users else settings.max_users)


def _numbers(text: str, kind: Callable[[str], Number], what: str) -> tuple[Number, ...]:
    """The numbers of --llm-steps; raises ConfigurationError."""
    try:
        loads = tuple(kind(word) for word in text.replace(",", " ").split())
    except ValueError:
        loads = ()
    if not loads or not all(0 < load < math.inf for load in loads):
        raise ConfigurationError(f"--llm-steps takes {what}, not {text!r}")
    return loads
