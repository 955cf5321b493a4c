"""A token bucket in front of the engine."""

from __future__ import annotations

_NS_PER_S = 1_000_000_000


class RateLimit:
    """Lets `rate_rps` requests a second through, `burst` at once after a pause; everything when `rate_rps` is None."""

    def __init__(self, rate_rps: float | None, burst: int, now_ns: int) -> None:
        self._interval_ns = _NS_PER_S / rate_rps if rate_rps is not None else 0.0
        self._burst = burst
        self._free_at_ns = (
            now_ns - burst * self._interval_ns
        )  # when the bucket was, or will be, one request short of empty

    def wait_ns(self, now_ns: int) -> float:
        """How long until the next request may pass; 0 when it may now."""
        self._free_at_ns = max(self._free_at_ns, now_ns - self._burst * self._interval_ns)
        return max(0.0, self._free_at_ns + self._interval_ns - now_ns)

    def take(self) -> None:
        """Lets one request pass; only right after `wait_ns` gave 0."""
        self._free_at_ns += self._interval_ns
