"""GET /metrics: the engine's own view, in vLLM's names and buckets, as Prometheus text.

Times are the engine's schedule: what a client measures beyond them is the network, the server's writing, or itself.
The queue's time begins when a request joins the queue, so the fixed delay on entry is in the TTFT alone, as in vLLM.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from locust_llm.sim.engine import Engine
from locust_llm.sim.sequence import Sequence, Tick

_NS_PER_S = 1_000_000_000
_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
           160.0, 640.0, 2560.0)  # fmt: skip
_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_PHASE_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0)  # fmt: skip
_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)


class _Histogram:
    """Prometheus' kind: counts by upper bound, and the sum."""

    def __init__(self, name: str, bounds: tuple[float, ...]) -> None:
        self._name = name
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += count
        self._sum += value * count

    def lines(self, labels: str) -> Iterator[str]:
        yield f"# TYPE vllm:{self._name} histogram"
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'vllm:{self._name}_bucket{{le="{bound}",{labels}}} {total}'
        yield f"vllm:{self._name}_count{{{labels}}} {total}"
        yield f"vllm:{self._name}_sum{{{labels}}} {self._sum!r}"


class Metrics:
    """Watches an engine's ticks; only a tick's newcomers and leavers cost anything."""

    def __init__(self, engine: Engine, model: str) -> None:
        self._engine = engine
        name = model.replace("\\", "\\\\").replace('"', '\\"')
        self._labels = f'engine="0",model_name="{name}"'
        self._ttft = _Histogram("time_to_first_token_seconds", _TTFT_S)
        self._itl = _Histogram("inter_token_latency_seconds", _TOKEN_S)
        self._tpot = _Histogram("request_time_per_output_token_seconds", _TOKEN_S)
        self._e2e = _Histogram("e2e_request_latency_seconds", _PHASE_S)
        self._queue = _Histogram("request_queue_time_seconds", _PHASE_S)
        self._prefill = _Histogram("request_prefill_time_seconds", _PHASE_S)
        self._decode = _Histogram("request_decode_time_seconds", _PHASE_S)
        self._inference = _Histogram("request_inference_time_seconds", _PHASE_S)
        self._prompts = _Histogram("request_prompt_tokens", _LENGTHS)
        self._answers = _Histogram("request_generation_tokens", _LENGTHS)

    def observe(self, tick: Tick) -> None:
        """Takes in one tick of one step."""
        following = len(tick.emitted) - tick.firsts - len(tick.gaps_ns)
        if following:
            self._itl.observe(tick.step_ns / _NS_PER_S, following)
        for gap_ns in tick.gaps_ns:
            self._itl.observe(gap_ns / _NS_PER_S)
        if tick.firsts:
            for sequence in tick.emitted:
                if sequence.first_ns == tick.time_ns:
                    self._ttft.observe((tick.time_ns - sequence.arrived_ns) / _NS_PER_S)
        for sequence in tick.ended:
            if sequence.outcome in ("length", "stop"):
                self._observe_answer(sequence)

    def _observe_answer(self, sequence: Sequence) -> None:
        arrived_ns, started_ns, ended_ns = sequence.arrived_ns, sequence.started_ns, sequence.ended_ns
        assert started_ns is not None
        assert ended_ns is not None
        first_ns = sequence.first_ns if sequence.first_ns is not None else ended_ns
        self._e2e.observe((ended_ns - arrived_ns) / _NS_PER_S)
        joined_ns = sequence.joined_ns if sequence.joined_ns is not None else arrived_ns
        self._queue.observe((started_ns - joined_ns) / _NS_PER_S)
        self._prefill.observe((first_ns - started_ns) / _NS_PER_S)
        self._decode.observe((ended_ns - first_ns) / _NS_PER_S)
        self._inference.observe((ended_ns - started_ns) / _NS_PER_S)
        self._prompts.observe(sequence.prompt_tokens)
        self._answers.observe(sequence.tokens)
        if sequence.tokens > 1:
            self._tpot.observe((ended_ns - first_ns) / _NS_PER_S / (sequence.tokens - 1))

    def page(self) -> bytes:
        """Everything as Prometheus text."""
        lines = [*self._gauges(), *self._counters()]
        for histogram in (self._ttft, self._itl, self._tpot, self._e2e, self._queue, self._prefill, self._decode,
                          self._inference, self._prompts, self._answers):  # fmt: skip
            lines += histogram.lines(self._labels)
        return ("\n".join(lines) + "\n").encode()

    def _gauges(self) -> Iterator[str]:
        engine = self._engine
        values: dict[str, float] = {"num_requests_running": engine.running, "num_requests_waiting": engine.waiting}
        if engine.settings.kv_tokens is not None:
            values["kv_cache_usage_perc"] = engine.kv_used / engine.settings.kv_tokens
        for name, value in values.items():
            yield f"# TYPE vllm:{name} gauge"
            yield f"vllm:{name}{{{self._labels}}} {value}"

    def _counters(self) -> Iterator[str]:
        tally = self._engine.tally
        values = {
            "num_preemptions": tally.preemptions,
            "prompt_tokens": tally.prompt_tokens,
            "generation_tokens": tally.tokens,
        }
        if self._engine.settings.prefix_cache_tokens is not None:
            values["prompt_tokens_cached"] = values["prefix_cache_hits"] = tally.cached_tokens
            values["prefix_cache_queries"] = tally.prompt_tokens
        for name, value in values.items():
            yield f"# TYPE vllm:{name}_total counter"
            yield f"vllm:{name}_total{{{self._labels}}} {value}"
        yield "# TYPE vllm:request_success_total counter"
        ends = {"stop": tally.stop, "length": tally.length, "abort": tally.cancelled, "error": tally.faulted}
        for reason, value in ends.items():
            yield f'vllm:request_success_total{{finished_reason="{reason}",{self._labels}}} {value}'
        yield "# TYPE vllm:admission_rejections_total counter"
        yield f'vllm:admission_rejections_total{{{self._labels},reason="max_num_queued_reqs"}} {tally.queue_full}'
