"""Counts: everything of one request name that is a whole number. Adding two Counts field by field merges them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

TALLY_LIMIT: Final = 64
"""Labels kept apart in one tally; what comes after is counted as `OTHER`, so that memory is bounded."""

OTHER: Final = "(other)"


@dataclass(slots=True)
class Counts:
    """Whole numbers of one request name, or of all.

    Warm-up requests are in `warmup_started` and `warmup_ended` only. In a worker's report the numbers are what was
    added since the last one, so that single fields may be negative or smaller than their parts.
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    warmup_started: int = 0
    warmup_ended: int = 0

    empty: int = 0  # successes without any output event though they streamed
    not_streamed: int = 0
    buffered: int = 0
    hidden_reasoning: int = 0
    length_judged: int = 0  # successes whose N and max_tokens are both known …
    short: int = 0  # … and of these, with N < max_tokens
    model_differs: int = 0
    tpot_left_out: int = 0  # answers with a TPOT but fewer than min_tokens tokens
    clock_faults: int = 0  # samples that would have been negative

    connections_new: int = 0
    connections_reused: int = 0
    stale_retries: int = 0
    lagged: int = 0  # requests whose stamps the client's own delay may have touched

    events: int = 0  # output events of successes
    coalesced_events: int = 0
    weighed_events: int = 0  # events of the successes whose N the server told …
    weighed_tokens: int = 0  # … and their streamed tokens: tokens per event
    decode_ns: int = 0  # sum of (last event - first), for token-weighted TPOT …
    decode_tokens: int = 0  # … and of (N_stream - n1)

    output_tokens: int = 0  # sum of N over successes
    partial_tokens: int = 0  # tokens of failed and cancelled requests, where they were told
    partial_events: int = 0  # output events of failed and cancelled requests whose tokens nobody told
    input_tokens: int = 0
    cache_judged_tokens: int = 0  # input tokens of the requests that told their cached share …
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    before_tokens: int = 0  # tokens that arrived before the figures were reset
    drained_tokens: int = 0  # tokens that arrived after the stop request …
    drained_events: int = 0  # … and events not weighed yet
    drained_succeeded: int = 0

    errors: dict[str, int] = field(default_factory=dict)
    finish_reasons: dict[str, int] = field(default_factory=dict)
    token_sources: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Requests that were started and have not ended."""
        return self.started - self.succeeded - self.failed - self.cancelled

    @property
    def outcomes(self) -> int:
        """Succeeded + failed: what shares of failures and goodput are shares of."""
        return self.succeeded + self.failed

    @property
    def tokens_per_event(self) -> float:
        """Output tokens of one output event, where the server told N; 1 as long as it has told nothing."""
        return self.weighed_tokens / self.weighed_events if self.weighed_events > 0 else 1.0

    def merge(self, other: Counts) -> None:
        """Add all numbers of `other`."""
        for name in NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in TALLIES:
            mine = getattr(self, name)
            for label, count in getattr(other, name).items():
                tally(mine, label, count)

    def pack(self) -> dict[str, Any]:
        """What is not zero, as plain values."""
        return {name: value for name in NUMBERS + TALLIES if (value := getattr(self, name))}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Counts:
        """The counts that `pack` described."""
        return cls(**packed)


NUMBERS: Final = tuple(f.name for f in fields(Counts) if f.type == "int")
TALLIES: Final = tuple(f.name for f in fields(Counts) if f.type != "int")


def tally(counts: dict[str, int], label: str, count: int = 1) -> None:
    """Count `label`, or `OTHER` when there are too many labels already."""
    if label not in counts and len(counts) >= TALLY_LIMIT:
        label = OTHER
    counts[label] = counts.get(label, 0) + count
