"""RunView: what every output needs to know of a run. The plugin fills it; nothing in this room asks for more."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from locust_llm.analysis.judgement import Judgement
from locust_llm.analysis.overload import OpenTotals
from locust_llm.analysis.rate import RateVerdict
from locust_llm.analysis.step import StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.measure.figures import FIGURES
from locust_llm.measure.gate import Gate
from locust_llm.measure.record import DEFINITIONS_VERSION
from locust_llm.measure.server_sample import ServerSeries
from locust_llm.measure.stats import RunStats
from locust_llm.report.calibration_store import Safe
from locust_llm.report.origin import Origin

if TYPE_CHECKING:
    from locust_llm.measure.findings import Finding
    from locust_llm.report.compare_sides import ComparedSides

OVER: Final = frozenset({"stopped", "ready"})
"""States in which no figure changes any more; in all others they are provisional."""

_FIGURES: Final = {figure.key: figure for figure in FIGURES}

MASK: Final = "***"

_SECRET_NAME = re.compile(r"key|secret|passw|authorization|cookie|(^|[-_])(auth|access|bearer)[-_]?token|^token$", re.I)
_USERINFO = re.compile(r"(://)[^/?#\s]*@")
_QUERY_VALUE = re.compile(r"([?&][^=&#\s]*=)[^&#\s]*")


@dataclass(frozen=True, slots=True)
class ProcessLag:
    """How late one process ran: samples of its hub-lag probe in ms, and its share (0 … 1) of one CPU.

    `reads` counts the packets that the kernel stamped, `read_…` how late after that each was read: upper bounds, within
    a factor of two. Stamps of the kernel are not touched by it.
    """

    process: str
    samples: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    cpu_share: float | None = None
    reads: int = 0
    read_p50_ms: float | None = None
    read_p99_ms: float | None = None
    read_max_ms: float | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """One test run as the outputs tell it.

    `run` is its id, `test` its number in this Locust session (from 1). `state` is in Locust's words (ready, spawning,
    running, stopping, stopped). `options` are ours and `locust_options` Locust's (users, spawn_rate, run_time,
    stop_timeout, processes), both without secrets: see `without_secrets`. `versions` holds python, locust, locust_llm,
    httpx, gevent, numpy; `machine` platform, cpus, kernel. Wall times are seconds since 1970, labels only.
    `lost_workers` names the workers whose last figures are missing. `engine_command` restarts the embedded engine.
    `slos` are the limits of each request; `judgement` tells the `gates`: None without any, or before the end.
    `origin` is what the run was started with. `sides` compares the two targets of --llm-ab, at the end. `open_load` is
    None in closed loop. `step_now` is what the running step of a sweep or search waits for, in words.
    """

    stats: RunStats
    run: str = ""
    test: int = 1
    simulated: bool = False
    state: str = "ready"
    target: str = ""
    models: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    locust_options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    started_wall_s: float | None = None
    stopped_wall_s: float | None = None
    lost_workers: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    definitions: int = DEFINITIONS_VERSION
    lag: tuple[ProcessLag, ...] = ()
    engine_command: tuple[str, ...] = ()
    steps: tuple[StepResult, ...] = ()
    verdict: Verdict | RateVerdict | None = None
    server: ServerSeries | None = None
    slos: tuple[str, ...] = ()
    judgement: Judgement | None = None
    sides: ComparedSides | None = None
    origin: Origin | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)  # the data set and its hash, what targets were found
    gates: tuple[Gate, ...] = ()
    open_load: OpenTotals | None = None
    step_now: str | None = None
    calibration: Safe | None = None  # what `locust-llm calibrate` found for the machine that the load came from

    @property
    def incomplete(self) -> bool:
        """Whether figures of a lost worker are missing."""
        return bool(self.lost_workers)

    @property
    def provisional(self) -> bool:
        """Whether figures may still change."""
        return self.state not in OVER

    @property
    def clock(self) -> str | None:
        """Which clock stamped the reads: `kernel`, `read`, or both joined by `+`; None before the first answer."""
        return "+".join(sorted(self.stats.counts().clocks)) or None

    def figure(self, key: str, name: str | None = None) -> float | int | None:
        """A figure of measure's list, of one request name or (None) of all; raises KeyError."""
        return _FIGURES[key].of(self.stats, name)

    @property
    def marks(self) -> tuple[str, ...]:
        """What must stand on every output: SIMULATED, INCOMPLETE."""
        return ("SIMULATED",) * self.simulated + ("INCOMPLETE",) * self.incomplete


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they may be written down: of headers only the names, no values of keys, no user in a URL."""
    return {name: _masked(name, value) for name, value in options.items()}


def shown_url(url: str) -> str:
    """A URL as it may be written down: without its user, password and the values of its query."""
    return _QUERY_VALUE.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1{MASK}@", url))


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(name, inner) for inner in value]
    if not isinstance(value, str):
        return value
    if name.endswith("header"):
        return f"{value.split(':', 1)[0].strip()}: {MASK}" if value else value
    if _SECRET_NAME.search(name) and not name.endswith("_env"):
        return MASK if value else value
    if value.lstrip().startswith("{"):
        return _masked_json(name, value)
    return shown_url(value) if "://" in value else value


def _masked_json(name: str, text: str) -> str:
    """A JSON object that stands in an option as text."""
    try:
        return json.dumps(_masked(name, json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return MASK
