"""What the simulated engine is told: sizes, speeds, limits and faults, with their units.

A value that is `None` switches its mechanism off. `problem()` names the first setting that makes no sense.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from locust_llm.sim.answers import AnswerLength
from locust_llm.sim.faults import Fault

DecodeLaw = Literal["linear", "roofline"]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One engine. The time of a step with B decoding streams and p prompt tokens is `decode(B) + p / prefill_tps`.

    decode(B), for B > 0, is `decode_ms + decode_slope_ms · B` (linear) or `max(decode_ms, decode_slope_ms · B)`
    (roofline: flat while memory-bound, then rising), plus `decode_context_ms` per 1,000 tokens of context read.
    decode(0) is 0.
    """

    slots: int = 16  # requests that run at once
    prefill_tps: float = 8000.0  # prompt tokens a second; inf makes prefill free
    decode_ms: float = 15.0
    decode_slope_ms: float = 0.1
    decode_law: DecodeLaw = "linear"
    decode_context_ms: float = 0.0  # per 1,000 tokens of context, summed over the decoding streams
    step_jitter: float = 0.0  # each step's time is drawn within ± this share
    entry_ms: float = 0.0  # fixed delay of every request before it joins the queue (tokenising, routing)
    step_tokens: int = 2048  # token budget of one step: decoding streams first, prompt chunks with the rest
    context_tokens: int | None = None  # longest prompt + answer; longer requests are refused (400)
    kv_tokens: int | None = None  # KV capacity; beyond it the youngest request is preempted and recomputed
    prefix_cache_tokens: int | None = None  # size of the prefix cache
    max_queue: int | None = None  # waiting requests; beyond it a request is refused with `queue_status`
    queue_status: int = 503
    rate_limit_rps: float | None = None  # requests a second let in; the rest get 429 with Retry-After
    rate_limit_burst: int = 1
    default_max_tokens: int = 256  # for a request that names none
    answers: AnswerLength = field(default_factory=AnswerLength)
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def problem(self) -> str | None:
        """The first setting that makes no sense, as a sentence; `None` when all do."""
        positive = ("slots", "prefill_tps", "step_tokens", "context_tokens", "kv_tokens", "prefix_cache_tokens")
        for name in (*positive, "rate_limit_rps", "rate_limit_burst", "default_max_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                return f"{_flag(name)} must be greater than 0, not {value}."
        for name in ("decode_ms", "decode_slope_ms", "decode_context_ms", "entry_ms", "max_queue"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                return f"{_flag(name)} must be 0 or more, not {value}."
        if self.decode_ms == 0 and self.decode_slope_ms == 0:
            return "--decode-ms and --decode-slope-ms cannot both be 0: decoding would take no time at all."
        if not 0 <= self.step_jitter < 1:
            return f"--step-jitter must be at least 0 and less than 1, not {self.step_jitter}."
        if self.step_tokens < self.slots:
            return f"--step-tokens ({self.step_tokens}) must be at least --slots ({self.slots}), one token a stream."
        if self.queue_status not in (429, 503):
            return f"--queue-status must be 429 or 503, not {self.queue_status}."
        if sum(fault.share for fault in self.faults) > 1:
            return "the shares of all --fault options together must not exceed 1."
        return None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The HTTP server around an engine. Port 0 takes any free one."""

    host: str = "127.0.0.1"
    port: int = 0
    model: str = "sim"
    any_model: bool = False  # answer to every model's name
    api_key: str | None = None
    tokens_per_chunk: int = 1  # tokens in one stream event, the first token always alone
    emit_send_time: bool = False  # tokens say when they were sent (CLOCK_MONOTONIC ns), ids when the request came
    spread: bool = False  # streams of one step are sent apart, within `decode_ms`, instead of in one burst
    overreport: float = 0.0  # usage names this share more completion tokens than were made
    end_with_stdin: bool = False

    def problem(self) -> str | None:
        """The first setting that makes no sense, as a sentence; `None` when all do."""
        if not 0 <= self.port <= 65535:
            return f"--port must lie between 0 and 65535, not {self.port}."
        if self.tokens_per_chunk < 1:
            return f"--tokens-per-chunk must be at least 1, not {self.tokens_per_chunk}."
        if not 0 <= self.overreport < float("inf"):
            return f"--overreport must be 0 or more, not {self.overreport}."
        return None
