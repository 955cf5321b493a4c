"""How a calibration is told: a table for the console, one JSON object."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.analysis.calibration import Compared, Level
from locust_llm.analysis.calibration_safe import LIMITS, first_unsafe, safe_streams, stop_reason

SCHEMA: Final = "locust_llm.calibration/1"
WIDTH: Final = 120

_COLUMNS: Final = (
    ("mode", 6), ("streams", 8), ("tok/s", 8), ("off", 7), ("TTFT p50", 9), ("off", 7), ("p99", 8), ("off", 7),
    ("ITL p50", 8), ("off", 7), ("p99", 7), ("off", 7), ("stamps p50", 11), ("p99", 8), ("coal.", 7), ("busy", 6),
    ("us/tok", 7), ("core", 5),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Calibration:
    """All levels of one machine. `set_up` is what they belong to, `wanted` the most streams that were asked for."""

    levels: Sequence[Level]
    set_up: Mapping[str, Any]
    date: str
    stream_tokens_per_s: float
    wanted: int

    def safe(self, limit: float) -> int | None:
        """Streams per process up to which every figure is right within `limit`."""
        return safe_streams(self.levels, limit)

    def safe_text(self, limit: float) -> str:
        """The safe number in words: "at least" where more streams were not asked for, or the engine gave up first."""
        found = self.safe(limit)
        if found is None:
            return "none"
        beyond = [level for level in self.levels if level.streams > found]
        open_ended = all(level.engine_limited for level in beyond)
        return f"{'at least ' if open_ended else ''}{found:,}"

    @property
    def stops(self) -> list[str]:
        """Why more streams were not tried, mode by mode."""
        return [reason for level in self.levels if (reason := stop_reason(level)) is not None]

    @property
    def disturbed(self) -> str | None:
        """A sentence when other work on the machine had a part in the safe number; None when it is the machine's."""
        level = first_unsafe(self.levels, LIMITS[0])
        if level is None or level.waited is None or not level.disturbed:
            return None
        return (
            f"Other work had the client's core for {100 * level.waited:.0f} % of the time at {level.streams:,} streams "
            f"({level.mode}), so that the safe number is too low. Calibrate again on a quiet machine."
        )

    @property
    def conclusions(self) -> list[str]:
        """What follows, a sentence each."""
        rate = f"{self.stream_tokens_per_s:g} tokens/s each"
        safe = ", ".join(f"{self.safe_text(limit)} for an error below {100 * limit:g} %" for limit in LIMITS)
        found = [f"Safe streams per process ({rate}): {safe}."]
        found += [f"No more streams were tried: {reason}." for reason in self.stops]
        if self.set_up["cpus"] == 1:
            found.append("This machine has one CPU, which engine and client had to share: the client is good for more.")
        return [*found, *([self.disturbed] if self.disturbed is not None else [])]

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "schema": SCHEMA,
            "date": self.date,
            "machine": dict(self.set_up),
            "stream_tokens_per_s": self.stream_tokens_per_s,
            "safe_streams": {f"{limit:g}": self.safe(limit) for limit in LIMITS},
            "stopped": self.stops,
            "disturbed": self.disturbed,
            "levels": [level.to_dict() for level in self.levels],
        }


def text_of(calibration: Calibration) -> str:
    """The table and what follows from it, without a final newline."""
    return "\n".join(line.rstrip() for line in _lines(calibration))


def machine_line(calibration: Calibration) -> str:
    """What the figures belong to."""
    told = calibration.set_up
    return (
        f"{calibration.date} · {told['cpu']} · {told['cpus']} CPUs · Python {told['python']} · "
        f"locust_llm {told['locust_llm']}"
    )


def _lines(calibration: Calibration) -> Iterator[str]:
    yield f"Calibration · {machine_line(calibration)}"
    yield "As reported by LLMUsers in a locust process; off: against when the engine really sent each token. TTFT and"
    yield "ITL in ms, stamps: microseconds after the send. even: each stream on its own; bursts: all at the same steps."
    yield "coal.: read together with the token before; busy: streams with a request under way; core: of the client."
    yield "".join(f"{title:>{width}}" for title, width in _COLUMNS)
    for level in calibration.levels:
        yield "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells(level), _COLUMNS, strict=True))
    yield ""
    for sentence in calibration.conclusions:
        yield from textwrap.wrap(sentence, WIDTH, subsequent_indent="  ")


def cells(level: Level) -> list[str]:
    """A level as the cells of the table."""
    return [
        level.mode,
        f"{level.streams:,}",
        *_pair(level.tokens_per_s, ",.0f"),
        *_pair(level.ttft_ms["p50"], ".2f"),
        *_pair(level.ttft_ms["p99"], ".2f"),
        *_pair(level.itl_ms["p50"], ".2f"),
        *_pair(level.itl_ms["p99"], ".2f"),
        f"{level.stamp_us['p50']:,.0f}",
        f"{level.stamp_us['p99']:,.0f}",
        percent(level.coalesced),
        f"{100 * level.kept_busy:.0f}%",
        f"{level.cpu_us_per_token:.1f}",
        f"{100 * level.core_share:.0f}%",
    ]


def percent(share: float) -> str:
    """A share with the digits that matter."""
    return f"{100 * share:.2f}%" if share < 0.1 else f"{100 * share:.0f}%"


def _pair(compared: Compared, digits: str) -> tuple[str, str]:
    return format(compared.reported, digits), percent(compared.error)
