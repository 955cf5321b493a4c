"""The view of a session's run: all that any output needs, gathered in one place."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from locust_llm import __version__
from locust_llm.measure.histogram import Histogram
from locust_llm.plugin.options import OPTIONS
from locust_llm.plugin.session import Session
from locust_llm.report.run import ProcessLag, RunView, without_secrets

LOCUST_OPTIONS = ("num_users", "spawn_rate", "run_time", "processes", "expect_workers", "tags")
PACKAGES = ("locust", "httpx", "gevent", "numpy", "httptools", "msgspec")


def view_of(session: Session) -> RunView:
    """The run as it stands now."""
    environment = session.environment
    options = environment.parsed_options
    return RunView(
        stats=session.stats,
        run=session.run,
        test=session.test,
        simulated=session.simulated,
        state=environment.runner.state if environment.runner is not None else "ready",
        target=session.target_url,
        models=(session.model,) if session.model else (),
        options=without_secrets({option.dest: getattr(options, option.dest, None) for option in OPTIONS}),
        locust_options=_locust_options(environment, options),
        versions=versions(),
        machine=machine(),
        started_wall_s=session.started_wall_s,
        stopped_wall_s=session.stopped_wall_s,
        lost_workers=tuple(sorted(session.lost)),
        findings=(),
        lag=tuple(_lag(process, lags) for process, lags in sorted(session.listener.lags.items())),
        engine_command=session.engine_command,
    )


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


def _locust_options(environment: Any, options: Any) -> dict[str, Any]:
    known = {name: getattr(options, name, None) for name in LOCUST_OPTIONS}
    known["stop_timeout"] = environment.stop_timeout
    if environment.shape_class is not None:
        known["shape"] = type(environment.shape_class).__name__
    return {name: value for name, value in known.items() if value is not None}


def _lag(process: str, lags: Histogram) -> ProcessLag:
    return ProcessLag(process, lags.count, lags.percentile(0.5), lags.percentile(0.99), lags.max)
