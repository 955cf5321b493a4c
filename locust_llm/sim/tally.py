"""What one engine has done since its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts since the engine's start: received = finished + faulted + cancelled + refused + in flight, always."""

    received: int = 0
    length: int = 0  # ended at max_tokens
    stop: int = 0  # ended by themselves
    reset: int = 0
    error: int = 0
    truncate: int = 0
    cancelled: int = 0
    rate_limit: int = 0  # refused, by reason
    queue_full: int = 0
    too_long: int = 0
    preemptions: int = 0
    steps: int = 0
    tokens: int = 0  # produced
    prompt_tokens: int = 0  # of completed prompts, each counted once
    cached_tokens: int = 0  # of these, taken from the prefix cache

    def count(self, fate: str) -> None:
        """One more request with this outcome or reason of refusal."""
        setattr(self, fate, getattr(self, fate) + 1)

    @property
    def finished(self) -> int:
        """Requests answered in full."""
        return self.length + self.stop

    @property
    def faulted(self) -> int:
        """Requests ended by an injected fault."""
        return self.reset + self.error + self.truncate

    @property
    def refused(self) -> int:
        """Requests that were not taken."""
        return self.rate_limit + self.queue_full + self.too_long

    @property
    def in_flight(self) -> int:
        """Requests taken and not yet ended."""
        return self.received - self.finished - self.faulted - self.cancelled - self.refused
