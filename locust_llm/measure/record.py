"""RequestRecord: everything known of one request once it has ended. The only thing that travels on.

All instants are nanoseconds of this process's monotonic clock (`time.monotonic_ns`); wall time is a label only.
A value that is not known is `None`, never 0. The metrics derived from a record live in `metrics.py`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum

from locust_llm.measure import metrics

DEFINITIONS_VERSION = 1
"""Version of the definitions of every metric; written into each run document."""


class Outcome(StrEnum):
    """How a request ended. Cancelled = cut off by us (stop, ramp-down): neither a success nor a failure."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Clock(StrEnum):
    """Which clock stamped the reads: the kernel at the packet's arrival, or the process after its read returned."""

    KERNEL = "kernel"
    READ = "read"


class TokenSource(StrEnum):
    """Where the number of output tokens comes from, best first. Everything but `USAGE` is an estimate."""

    USAGE = "usage"
    LOGPROBS = "logprobs"
    TOKENIZER = "tokenizer"
    CHUNKS = "chunks"


@dataclass(slots=True)
class Transit:
    """What the transport saw of one exchange; filled in by `wire.transport` while it runs.

    `dns_ns`, `tcp_ns` and `tls_ns` are durations and present only when this exchange opened its connection.
    `lost_ns` is the time spent on a stale connection before the one transparent retry.
    `max_lag_ns` is the largest delay between a packet's kernel stamp and our read of it (kernel clock only).
    """

    sent_ns: int | None = None
    headers_ns: int | None = None
    end_ns: int | None = None
    dns_ns: int | None = None
    tcp_ns: int | None = None
    tls_ns: int | None = None
    lost_ns: int = 0
    reused: bool = False
    stale_retries: int = 0
    clock: Clock = Clock.READ
    max_lag_ns: int | None = None
    reads: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server reported them; `None` where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request. Times in ns on the monotonic clock; see the module's docstring.

    `event_ns` holds the arrival of every output event in order; `event_choice` (parallel) the choice each belongs to,
    or None when there was only one; `event_tokens` (parallel) the tokens each carried, where the server told, and
    `event_source` how: by a usage in each event, or by logprobs or token ids.
    `stream_asked`: whether the request asked for a stream; `streamed`: whether its events tell when tokens came.
    `first_visible_ns` is the first event a reader could see (text, tool call, refusal, audio; not reasoning).
    """

    name: str
    outcome: Outcome
    api: str = "chat"
    url: str = ""
    model: str = ""
    model_answered: str | None = None
    error: str | None = None
    detail: str | None = None
    status: int | None = None
    retry_after_s: float | None = None

    started_wall_s: float = 0.0
    scheduled_ns: int = 0
    started_ns: int = 0
    done_ns: int | None = None
    ended_ns: int = 0
    transit: Transit = field(default_factory=Transit)

    streamed: bool = True
    stream_asked: bool = True
    event_ns: array[int] = field(default_factory=lambda: array("q"))
    event_choice: array[int] | None = None
    event_tokens: array[int] | None = None
    event_source: TokenSource | None = None
    first_visible_ns: int | None = None

    text: str = ""
    reasoning: str = ""
    choices: tuple[str, ...] = ()
    tool_calls: tuple[dict[str, str], ...] = ()
    finish_reasons: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    output_tokens: int | None = None
    token_source: TokenSource | None = None
    streamed_tokens: int | None = None
    hidden_reasoning: bool = False
    max_tokens: int | None = None
    warmup: bool = False

    @property
    def success(self) -> bool:
        """True when the answer is complete and nobody marked it as failed."""
        return self.outcome is Outcome.SUCCESS

    @property
    def finish_reason(self) -> str | None:
        """The (first choice's) terminal finish reason."""
        return self.finish_reasons[0] if self.finish_reasons else None

    @property
    def generates(self) -> bool:
        """Whether output tokens are to be expected: an embedding has none."""
        return self.api != "embeddings"

    @property
    def input_tokens(self) -> int | None:
        """Prompt tokens as the server counted them."""
        return self.usage.input_tokens

    @property
    def sent_ns(self) -> int | None:
        """When the request's first byte was handed to a ready connection."""
        return self.transit.sent_ns

    ttft_ms = property(metrics.ttft_ms)
    ttfc_ms = property(metrics.ttfc_ms)
    itl_ms = property(metrics.itl_ms)
    tpot_ms = property(metrics.tpot_ms)
    e2e_ms = property(metrics.e2e_ms)
    connect_ms = property(metrics.connect_ms)
    tps = property(metrics.tps)
