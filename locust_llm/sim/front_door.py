"""Which requests the engine takes at all: length, rate and queue limits."""

from __future__ import annotations

import math

from locust_llm.sim.sequence import Refusal
from locust_llm.sim.settings import EngineSettings

_NS_PER_S = 1_000_000_000


class FrontDoor:
    """Refuses what does not fit. The rate limit is a token bucket that holds `rate_limit_burst` requests when full."""

    def __init__(self, settings: EngineSettings, now_ns: int) -> None:
        rate_rps = settings.rate_limit_rps
        self._interval_ns = _NS_PER_S / rate_rps if rate_rps is not None else 0.0
        self._depth_ns = (settings.rate_limit_burst - 1) * self._interval_ns
        self._due_ns = float(now_ns) - self._depth_ns  # when the next request comes at the rate exactly
        self._room = min((n for n in (settings.context_tokens, settings.kv_tokens) if n is not None), default=None)
        self._default_max_tokens = settings.default_max_tokens
        self._max_queue = settings.max_queue
        self._queue_status = settings.queue_status

    def default_limit(self, prompt_tokens: int) -> int:
        """The answer limit of a request that names none: the default, or what the context leaves, but at least 1."""
        if self._room is None:
            return self._default_max_tokens
        return max(1, min(self._default_max_tokens, self._room - prompt_tokens))

    def refusal(self, now_ns: int, tokens: int, queued: int) -> Refusal | None:
        """Judges a request of `tokens` (prompt and longest answer); `queued` are those already waiting in vain."""
        if self._room is not None and tokens > self._room:
            return Refusal(400, "too_long")
        due_ns = max(self._due_ns, now_ns - self._depth_ns)
        if due_ns > now_ns:
            return Refusal(429, "rate_limit", math.ceil((due_ns - now_ns) / _NS_PER_S))
        if self._max_queue is not None and queued >= self._max_queue:
            return Refusal(self._queue_status, "queue_full", 1)
        self._due_ns = due_ns + self._interval_ns
        return None
