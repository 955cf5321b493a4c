"""The view of a session's run: all that any output needs, gathered in one place."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import Any

from locust_llm import __version__
from locust_llm.measure.findings import Finding, RunFacts, Severity, findings
from locust_llm.plugin.listener import Health
from locust_llm.plugin.options import OPTIONS
from locust_llm.plugin.session import Session
from locust_llm.report.calibration_store import Safe, saved
from locust_llm.report.run import ProcessLag, RunView, without_secrets

LOCUST_OPTIONS = ("num_users", "spawn_rate", "run_time", "processes", "expect_workers", "tags")
OF_ONE_LOAD = frozenset(("clumped_starts", "schedule_delay"))
"""Findings that a change of load brings about by itself: a stepped test looks for them in each step instead."""

BUSY_QUANTILE = 0.95
"""A process is as busy as it was in its busier seconds, not on average over ramp and drain."""

PACKAGES = ("locust", "httpx", "gevent", "numpy", "httptools", "msgspec")


def view_of(session: Session) -> RunView:
    """The run as it stands now."""
    environment = session.environment
    options = environment.parsed_options
    lags = tuple(_lag(process, health) for process, health in sorted(session.listener.health.items()))
    return RunView(
        stats=session.stats,
        run=session.run,
        test=session.test,
        simulated=session.simulated,
        state=_state(session),
        target=session.targets.url,
        models=(session.targets.model,) if session.targets.model else (),
        options=without_secrets({option.dest: getattr(options, option.dest, None) for option in OPTIONS}),
        locust_options=_locust_options(environment, options),
        versions=versions(),
        machine=machine(),
        started_wall_s=session.started_wall_s,
        stopped_wall_s=session.stopped_wall_s,
        lost_workers=tuple(sorted(session.lost)),
        findings=(*_stopped(session), *session.workload.findings(), *_found(session, lags)),
        lag=lags,
        engine_command=session.targets.engine_command,
        steps=tuple(session.steps.results) if session.steps is not None else (),
        verdict=session.steps.verdict if session.steps is not None else None,
        server=session.scraper.series,
        slos=tuple(str(slo) for slo in session.settings.slo),
        judgement=session.gates.judgement,
        sides=session.sides.compared,
        workload=session.workload.told(),
        origin=session.origin,
        gates=tuple(session.settings.gate),
        open_load=session.open_load.told() if session.open_load.active else None,
        step_now=session.steps.step_text if session.steps is not None and not session.over else None,
        calibration=_calibrated(lags),
    )


def _found(session: Session, lags: tuple[ProcessLag, ...]) -> Iterator[Finding]:
    stepped = session.steps is not None and bool(session.settings.shape)
    waves = [step for step in session.steps.results if step.waves is not None] if session.steps is not None else []
    if stepped and waves:
        loads = ", ".join(f"{step.load:g}" for step in waves)
        yield Finding(
            "clumped_starts",
            Severity.WARNING,
            f"Requests start in waves at {loads} users: they run in step and queue for each other. Vary the answer"
            " lengths.",
        )
    for finding in findings(session.stats, _facts(session, lags)):
        if finding.key == "short_answers" and session.workload.exact:
            continue  # the workload has its own words for it
        if not stepped or finding.key not in OF_ONE_LOAD:
            yield finding


def _stopped(session: Session) -> Iterator[Finding]:
    """What pulled a brake."""
    brakes = session.brakes
    if brakes.reason is not None:
        yield Finding("stopped", Severity.WARNING if brakes.failing else Severity.NOTE, brakes.reason)


@cache
def versions() -> dict[str, str]:
    """Versions of Python, of us and of the packages the figures rest on."""
    return {
        "python": platform.python_version(),
        "locust_llm": __version__,
        **{package: metadata.version(package) for package in PACKAGES},
    }


def machine() -> dict[str, Any]:
    """The machine the load came from."""
    return {"platform": sys.platform, "cpus": os.cpu_count(), "kernel": platform.release(), "arch": platform.machine()}


def _state(session: Session) -> str:
    """Locust's state of the run; a master stays in `stopping` though all is over."""
    runner = session.environment.runner
    if runner is None:
        return "ready"
    return "stopped" if session.over else str(runner.state)


def _locust_options(environment: Any, options: Any) -> dict[str, Any]:
    known = {name: getattr(options, name, None) for name in LOCUST_OPTIONS}
    known["stop_timeout"] = environment.stop_timeout
    if environment.shape_class is not None:
        known["shape"] = type(environment.shape_class).__name__
    return {name: value for name, value in known.items() if value is not None}


def _lag(process: str, health: Health) -> ProcessLag:
    lag, cpu, read = health.lag_ms, health.cpu_percent.percentile(BUSY_QUANTILE), health.read_ms
    return ProcessLag(
        process,
        lag.count,
        lag.percentile(0.5),
        lag.percentile(0.99),
        lag.max,
        cpu / 100 if cpu is not None else None,
        read.count,
        read.percentile(0.5),
        read.percentile(0.99),
        read.max,
    )


def _generating(lags: tuple[ProcessLag, ...]) -> list[ProcessLag]:
    """The processes that send requests."""
    return [lag for lag in lags if lag.process != "master"]


def _calibrated(lags: tuple[ProcessLag, ...]) -> Safe | None:
    """What calibration found for the machine that the load comes from; None when that is not (only) this one."""
    names = (lag.process for lag in _generating(lags))
    here = all(name == "local" or name.rsplit("_", 1)[0] == socket.gethostname() for name in names)
    return saved() if here else None


def _facts(session: Session, lags: tuple[ProcessLag, ...]) -> RunFacts:
    generating, calibrated = _generating(lags), _calibrated(lags)
    settings = session.settings
    return RunFacts(
        safe_streams=calibrated.streams if calibrated is not None else None,
        safe_stream_tps=calibrated.stream_tokens_per_s if calibrated is not None else None,
        simulated=session.simulated,
        lost_workers=tuple(sorted(session.lost)),
        cpu_share=max((lag.cpu_share for lag in generating if lag.cpu_share is not None), default=None),
        hub_lag_p99_ms=max((lag.p99_ms for lag in generating if lag.p99_ms is not None), default=None),
        processes=max(len(generating), 1),
        min_tokens=settings.min_tokens,
        stop_timeout_s=session.environment.stop_timeout,
        timeout_s=settings.timeout or None,
    )
