"""What `locust-llm calibrate` tells the Locust process that it starts: handed over in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

VARIABLE: Final = "LLM_CALIBRATION_PLAN"
PROMPT: Final = "Tell me a story about a fox and a dog. " * 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Levels to measure, one after the other; each found one goes as a line of JSON to the descriptor `report_to`."""

    engine_url: str
    mode: str
    streams: Sequence[int]
    window_s: int
    report_to: int
    answer_tokens: int
    gap_ms: float
    ramp_s: float

    @classmethod
    def given(cls) -> Plan:
        """The plan of this process."""
        return cls(**json.loads(os.environ[VARIABLE]))

    def text(self) -> str:
        """For the environment."""
        return json.dumps(asdict(self))
