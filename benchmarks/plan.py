"""Plan: what one client process of a benchmark is to do; handed over in $BENCH_PLAN."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROMPT = "Tell me a story about a fox and a dog. " * 8
VARIABLE = "BENCH_PLAN"


@dataclass(frozen=True)
class Plan:
    """`streams` users of `stack` at `url`, started over `ramp_s`; figures of `window_s`, `warm_s` later, into `out`.
    `trusted`: PEM file of the authority to trust, for https."""

    stack: str
    url: str
    out: str
    streams: int
    tokens: int
    ramp_s: float
    window_s: float
    warm_s: float = 1.0
    trusted: str = ""

    @classmethod
    def given(cls) -> Plan:
        """The plan that this process was started with."""
        return cls(**json.loads(os.environ[VARIABLE]))

    def environment(self) -> dict[str, str]:
        """The environment for a process that is to follow this plan."""
        return {**os.environ, VARIABLE: json.dumps(asdict(self))}

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of each request."""
        return {
            "model": "m",
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": self.tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def report(self, result: dict[str, Any]) -> None:
        """Hand the result back."""
        Path(self.out).write_text(json.dumps(result))


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
