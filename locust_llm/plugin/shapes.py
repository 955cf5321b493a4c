"""Load shapes: `--llm-shape sweep|knee` runs a plan of steps, whatever the locustfile.

Locust activates every concrete shape that a locustfile imports, so this one is abstract; it is made in `init`, where
the option asks for it. A shape of the locustfile's own beside the option is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locust import LoadTestShape

from locust_llm.analysis.knee import KneeSearch
from locust_llm.plugin.steps import Plan, StepRun, Sweep
from locust_llm.wire.target import ConfigurationError

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session
    from locust_llm.plugin.settings import Settings

SWEEP, KNEE = "sweep", "knee"
SHAPES = (SWEEP, KNEE)


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
            session.steps = StepRun(session, plan_of(session.settings), step_s=session.settings.step_time, run_s=run_s)
        return session.steps.tick()


def install(environment: Any, session: Session) -> None:
    """Set the environment's shape when the options ask for one; raises ConfigurationError."""
    if not session.settings.shape or session.is_worker:
        return
    plan_of(session.settings)
    if environment.shape_class is not None:
        raise ConfigurationError(
            f"--llm-shape {session.settings.shape} beside the locustfile's own shape"
            f" {type(environment.shape_class).__name__}: take one of them out"
        )
    shape = SteppedShape(session)
    shape.runner = environment.runner
    environment.shape_class = shape


def plan_of(settings: Settings) -> Plan:
    """The plan that the options ask for; raises ConfigurationError."""
    if settings.shape == KNEE:
        return KneeSearch(settings.max_users)
    try:
        loads = tuple(int(word) for word in settings.steps.replace(",", " ").split())
    except ValueError:
        loads = ()
    if not loads or min(loads) < 1:
        raise ConfigurationError(f"--llm-steps takes numbers of users, such as 1,4,8,16, not {settings.steps!r}")
    return Sweep(loads)
