"""Up to how many streams a calibrated client is right, and when trying more tells nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from locust_llm.analysis.calibration import BUSY_LIMIT, Level
from locust_llm.measure.findings.client import CPU_LIMIT

LIMITS: Final = (0.01, 0.05)
"""Errors that a safe number of streams is told for."""


def safe_streams(levels: Iterable[Level], limit: float) -> int | None:
    """The largest number of streams up to which every level of every mode is safe; None when not even the smallest is.

    Modes that got less far count with what they reached.
    """
    by_mode: dict[str, list[Level]] = {}
    for level in levels:
        by_mode.setdefault(level.mode, []).append(level)
    reached = [_reached(found, limit) for found in by_mode.values()]
    if not reached or None in reached:
        return None
    return min(streams for streams in reached if streams is not None)


def first_unsafe(levels: Iterable[Level], limit: float) -> Level | None:
    """The level with the fewest streams that is not safe; None when all are."""
    return min((level for level in levels if not level.safe(limit)), key=lambda level: level.streams, default=None)


def _reached(levels: list[Level], limit: float) -> int | None:
    best: int | None = None
    for level in sorted(levels, key=lambda level: level.streams):
        if not level.safe(limit):
            break
        best = level.streams
    return best


def stop_reason(level: Level) -> str | None:
    """Why more streams would tell nothing; None when they would."""
    at = f"at {level.streams:,} streams ({level.mode})"
    if level.failed:
        return f"{level.failed} of {level.requests} requests failed {at}"
    if level.engine_limited:
        return (
            f"the engine itself could not hold its pace {at}: its tokens were {100 * (level.pace - 1):.0f} % further "
            "apart than wanted. That is no fault of the client, which may be good for more"
        )
    if level.error >= LIMITS[-1]:
        return f"the largest error was {100 * level.error:.1f} % ({level.worst}) {at}"
    if level.core_share > CPU_LIMIT:
        return f"the client used {100 * level.core_share:.0f} % of a core {at} (limit {100 * CPU_LIMIT:.0f} %)"
    if level.client_limited:
        return (
            f"the client was late with its next requests {at}: its streams were busy for {100 * level.kept_busy:.0f} % "
            f"of the time (limit {100 * BUSY_LIMIT:.0f} %)"
        )
    return None
