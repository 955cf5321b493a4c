"""Finding: one sentence about a run, and the facts that the statistics cannot know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """NOTE: good to know. WARNING: some figures mean less than they seem. ERROR: do not use the figures."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a run. `key` is stable, for machines."""

    key: str
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the statistics cannot know. None: not measured.

    `cpu_share`: CPU time / wall time of the busiest load-generating process. `hub_lag_p99_ms`: how late gevent's hub
    was. `safe_streams`: streams per process up to which `locust-llm calibrate` found the figures right, each of
    `safe_stream_tps` tokens a second; `processes`: how many generate load. `timeout_s`: the limit after which a request
    fails.
    """

    simulated: bool = False
    lost_workers: tuple[str, ...] = ()
    cpu_share: float | None = None
    hub_lag_p99_ms: float | None = None
    safe_streams: int | None = None
    safe_stream_tps: float | None = None
    processes: int = 1
    min_tokens: int | None = None
    stop_timeout_s: float | None = None
    timeout_s: float | None = None


def note(key: str, sentence: str) -> Finding:
    """A finding that is good to know."""
    return Finding(key, Severity.NOTE, sentence)


def warning(key: str, sentence: str) -> Finding:
    """A finding that makes some figures mean less than they seem."""
    return Finding(key, Severity.WARNING, sentence)


def error(key: str, sentence: str) -> Finding:
    """A finding that makes the figures useless."""
    return Finding(key, Severity.ERROR, sentence)


def percent(share: float) -> str:
    """0.125 as "12.5 %"."""
    return f"{100 * share:.3g} %"


def milliseconds(value: float | None) -> str:
    """Three significant digits and the unit."""
    return f"{value:.3g} ms" if value is not None else "unknown"


def number(count: int, noun: str) -> str:
    """ "1 worker", "2 workers"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
