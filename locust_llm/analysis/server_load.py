"""ServerLoad of a window, from the samples of the server's own metrics."""

from __future__ import annotations

from collections.abc import Sequence

from locust_llm.analysis.step import ServerLoad
from locust_llm.measure.server_sample import ServerSample


def server_load(samples: Sequence[ServerSample]) -> ServerLoad | None:
    """Means of the gauges, the highest KV use, what the counters grew by; None without a sample.

    A counter that fell (the server was started anew) tells nothing.
    """
    if not samples:
        return None
    preemptions = _growth([sample.preemptions for sample in samples])
    cached = _growth([sample.cached_tokens for sample in samples])
    prompts = _growth([sample.prompt_tokens for sample in samples])
    return ServerLoad(
        running=_mean([sample.running for sample in samples]),
        waiting=_mean([sample.waiting for sample in samples]),
        kv_use=max((sample.kv_use for sample in samples if sample.kv_use is not None), default=None),
        preemptions=round(preemptions) if preemptions is not None else None,
        prefix_hits=cached / prompts if cached is not None and prompts else None,
        engine=samples[-1].engine,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _growth(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return known[-1] - known[0] if known and known[-1] >= known[0] else None
