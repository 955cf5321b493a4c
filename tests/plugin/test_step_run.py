"""StepRun: what spoils a step besides the server, and what it hands on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from locust_llm.analysis.knee import Step
from locust_llm.analysis.steady import SteadyWindow
from locust_llm.analysis.step import Status, StepResult
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.plugin.listener import Health
from locust_llm.plugin.plans import Repeated, Sweep
from locust_llm.plugin.steps import StepRun
from tests.analysis.build import done

BEGUN_S = 100.0


class Load:
    """Puts nothing on: the test hands the window over."""

    unit = "users"

    def wanted(self, asked: Any) -> tuple[int, float]:
        return round(asked.load), 1.0

    def end(self) -> None:
        """Nothing to end."""


def health(cpu_percent: float, lag_ms: float) -> Health:
    cpu, lag = Histogram(), Histogram()
    for _ in range(100):
        cpu.add(cpu_percent)
        lag.add(lag_ms)
    return Health(lag, cpu)


def run_of(*, starts: int | list[int] = 2, **more: Any) -> tuple[StepRun, Any]:
    """A run whose only step is a window of 30 quiet seconds with two users."""
    each = starts if isinstance(starts, list) else [starts] * 30
    points = [SimpleNamespace(second=int(BEGUN_S) + at, started=count) for at, count in enumerate(each)]
    session = SimpleNamespace(
        lost=more.get("lost", {}),
        listener=SimpleNamespace(step_health=more.get("health", {})),
        scraper=SimpleNamespace(series=more.get("series")),
        stats=SimpleNamespace(points=lambda since: iter(points)),
        on_step=[],
    )
    run = StepRun(session, Repeated(Sweep((2,))), Load())  # type: ignore[arg-type]
    return run, session


def result_of(run: StepRun) -> StepResult:
    window = SteadyWindow(2, BEGUN_S)
    for second in range(30):
        at_s = BEGUN_S + second
        window.add([done(user, at_s - 1.0, at_s) for user in range(2) if second > 0])
        window.add_second(at_s, 200.0, 2.0, 2.0)
    run.asked = Step(2)
    run._take(window)
    return run.results[0]


# id, what is known of the client, status, why
CLIENTS: list[tuple[str, dict[str, Any], Status, str | None]] = [
    ("fine", {"health": {"local": health(20.0, 1.0)}}, Status.STEADY, None),
    ("its CPU", {"health": {"worker1": health(97.0, 1.0)}}, Status.CLIENT_LIMITED, "worker1 used 97 % of a core"),
    ("its hub", {"health": {"local": health(20.0, 150.0)}}, Status.CLIENT_LIMITED, "local was 150 ms late at p99"),
    ("the master is no client", {"health": {"master": health(97.0, 150.0)}}, Status.STEADY, None),
    ("a worker was lost meanwhile", {"lost": {"w1": 110.0}}, Status.CLIENT_LIMITED, "worker w1 was lost"),
    ("a worker was lost before", {"lost": {"w1": 90.0}}, Status.STEADY, None),
]


@pytest.mark.parametrize(("known", "status", "why"), [c[1:] for c in CLIENTS], ids=[c[0] for c in CLIENTS])
def test_the_client(known: dict[str, Any], status: Status, why: str | None) -> None:
    run, _ = run_of(**known)
    result = result_of(run)
    assert (result.status, result.why) == (status, why)


def test_users_that_run_in_step_are_seen() -> None:
    run, _ = run_of(starts=[0, 0, 0, 0, 24] * 6)
    waves = result_of(run).waves
    assert waves is not None
    assert waves > 4
    run, _ = run_of(starts=5)
    assert result_of(run).waves is None


def test_what_the_server_said_meanwhile() -> None:
    series = ServerSeries("http://h/metrics")
    for at_s, running in ((90.0, 9.0), (105.5, 1.0), (120.5, 2.0), (140.0, 9.0)):
        series.add(at_s, ServerSample("vLLM", running, 0.0))
    run, _ = run_of(series=series)
    server = result_of(run).server
    assert server is not None
    assert (server.running, server.engine) == (1.5, "vLLM")
