"""What a server's own metrics said, second by second: its queue, its batch, its KV cache."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One look at a server's metrics page. None: not exported.

    `running` and `waiting` are requests; `kv_use` is the share of the KV cache in use (0 … 1). Since the server's
    start: `preemptions`, requests that lost their KV; of `prompt_tokens`, `cached_tokens` were in the prefix cache;
    of its histograms of time to first token, time in the queue and prefill time the sum in seconds and the requests.
    """

    engine: str
    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    ttft_s: float | None = None
    ttft_n: float | None = None
    queue_s: float | None = None
    queue_n: float | None = None
    prefill_s: float | None = None
    prefill_n: float | None = None


@dataclass(slots=True)
class ServerSeries:
    """Samples by wall-clock time, in order. A second in which the page could not be read has none."""

    url: str = ""
    at_s: list[float] = field(default_factory=list)
    samples: list[ServerSample] = field(default_factory=list)

    def add(self, at_s: float, sample: ServerSample) -> None:
        """The next sample."""
        self.at_s.append(at_s)
        self.samples.append(sample)

    def between(self, begin_s: float, end_s: float) -> list[ServerSample]:
        """The samples taken in [begin, end]."""
        return [sample for at_s, sample in zip(self.at_s, self.samples, strict=True) if begin_s <= at_s <= end_s]
