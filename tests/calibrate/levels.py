"""Answers and levels made by hand."""

from __future__ import annotations

from typing import Any

from locust_llm.analysis.calibration import Answer, Compared, Level, Window

MS = 1_000_000
SINCE, UNTIL = 1_000 * MS, 3_000 * MS
GAP_MS = 20.0


def answer(
    begin_ms: float, *, tokens: int = 40, late_us: float = 5.0, gap_ms: float = GAP_MS, pairs: bool = False
) -> Answer:
    """Sent at `begin_ms`, first token 100 ms later, each stamped `late_us` after its send; with `pairs` every second
    token arrives with the stamp of the one before."""
    sent = int(begin_ms * MS)
    sends = [sent + int((100 + i * gap_ms) * MS) for i in range(tokens)]
    arrivals = [at + int(late_us * 1000) for at in sends]
    if pairs:
        arrivals = [arrivals[i - i % 2] for i in range(tokens)]
    text = "".join(f" {at:018d}" for at in sends)
    return Answer(sent, arrivals, arrivals[-1] + MS, text)


def window(streams: int = 1, **told: Any) -> Window:
    """Two seconds from 1 s on."""
    values: dict[str, Any] = {"cpu_s": 0.2, "engine_cpu_s": 0.1, "arrived_tokens": 100.0} | told
    return Window(SINCE, UNTIL, streams, "even", GAP_MS, **values)


def level(streams: int = 100, mode: str = "even", *, error: float = 0.001, **told: Any) -> Level:
    """A level with this output-rate error, all else right."""
    right = {"p50": Compared(20.0, 20.0), "p99": Compared(21.0, 21.0)}
    values: dict[str, Any] = {
        "mode": mode,
        "streams": streams,
        "tokens_per_s": Compared(1000 * (1 + error), 1000.0),
        "ttft_ms": right,
        "itl_ms": right,
        "engine_ttft_ms": {"p50": 19.9, "p99": 20.9},
        "stamp_us": {"p50": 4.0, "p99": 9.0, "max": 40.0},
        "delay_us": {"p50": 1048.576, "p99": 2097.152},
        "coalesced": 0.0,
        "kept_busy": 0.99,
        "cpu_us_per_token": 15.0,
        "core_share": 0.3,
        "engine_core_share": 0.2,
        "pace": 1.0,
        "waited": 0.01,
        "requests": 100,
        "failed": 0,
    }
    return Level(**(values | told))
