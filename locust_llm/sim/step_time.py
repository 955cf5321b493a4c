"""How long one step of the engine takes: the law whose parameters a load test tries to find again."""

from __future__ import annotations

from locust_llm.sim.settings import EngineSettings


def step_ms(settings: EngineSettings, streams: int, context_tokens: int, prompt_tokens: int) -> float:
    """Milliseconds of a step with `streams` decoding, reading `context_tokens`, and `prompt_tokens` prefilled."""
    prefill_ms = prompt_tokens * 1000 / settings.prefill_tps
    if streams == 0:
        return prefill_ms
    slope_ms = settings.decode_slope_ms * streams
    linear = settings.decode_law == "linear"
    decode_ms = settings.decode_ms + slope_ms if linear else max(settings.decode_ms, slope_ms)
    return decode_ms + settings.decode_context_ms * context_tokens / 1000 + prefill_ms
