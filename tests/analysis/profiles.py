"""Simulated servers whose knee is known, and their truths: the same rule on a fine, long sweep of the virtual clock.

The truths are computed by `truth.py` (run it to print the table) and checked by a long test.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from locust_llm.analysis.cause import CauseKind
from locust_llm.sim.answers import AnswerLength
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import Work


@dataclass(frozen=True, slots=True)
class Profile:
    """A server, its work, and what a search must find.

    `knee`: users at the maximum of power; `zone`: where the power is within 5 % of it. `kinked`: whether the maximum is
    sharp. `causes`: the right ones.
    """

    name: str
    settings: EngineSettings
    knee: int
    zone: tuple[int, int]
    kinked: bool
    causes: tuple[CauseKind, ...]
    work: Work = field(default_factory=lambda: Work(300, 150, 0.5))


def _slots(slots: int) -> EngineSettings:
    return EngineSettings(slots=slots, decode_ms=20.0, decode_slope_ms=0.02, prefill_tps=40_000.0)


CONTENTION = (CauseKind.CONTENTION,)
QUEUE = (CauseKind.SLOT_OR_KV,)
LIMIT = (CauseKind.RATE_LIMIT,)

PROFILES = [
    Profile("slots-5", _slots(5), 5, (5, 5), True, QUEUE),
    Profile("slots-11", _slots(11), 11, (11, 11), True, QUEUE),
    Profile("slots-23", _slots(23), 23, (22, 24), True, QUEUE),
    Profile("slots-45", _slots(45), 45, (43, 47), True, QUEUE),
    Profile(
        "linear",
        EngineSettings(slots=256, decode_ms=12.0, decode_slope_ms=0.5, prefill_tps=20_000.0),
        21,
        (13, 31),
        False,
        CONTENTION,
    ),
    Profile(
        "roofline",
        EngineSettings(slots=256, decode_ms=16.0, decode_slope_ms=0.5, decode_law="roofline", prefill_tps=40_000.0),
        32,
        (31, 34),
        True,
        CONTENTION,
    ),
    Profile(
        "prefill",
        EngineSettings(slots=64, prefill_tps=2500.0, decode_ms=10.0, decode_slope_ms=0.05),
        10,
        (7, 14),
        False,
        CONTENTION,
        Work(500, 200, 0.5),
    ),
    Profile(
        "kv",
        EngineSettings(slots=256, decode_ms=15.0, decode_slope_ms=0.02, kv_tokens=12_000),
        18,
        (15, 19),
        True,
        QUEUE,
        Work(500, 200, 0.5),
    ),
    Profile(
        "rate-limit",
        EngineSettings(slots=64, rate_limit_rps=5.0, rate_limit_burst=5),
        25,
        (20, 27),
        False,
        LIMIT,
        Work(500, 200, 0.5),
    ),
    Profile(
        "lognormal",
        EngineSettings(slots=16, decode_ms=20.0, decode_slope_ms=0.05, answers=AnswerLength("lognormal", 120.0, 0.8)),
        16,
        (15, 16),
        True,
        QUEUE,
        Work(300, 600, 0.5),
    ),
]
