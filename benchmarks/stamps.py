"""What a client's stamps are worth: each token's arrival against the time its server put into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Answer = tuple[int | None, Sequence[int], str]
"""(when the request was sent, the arrival of each token, the text that holds the send times); monotonic ns."""


def figures(answers: Iterable[Answer], since_ns: int, until_ns: int, used_s: float) -> dict[str, Any]:
    """The figures of one window, in which the client used `used_s` of CPU.

    A token is *handled* in the window if it was stamped there. `coalesced` = share of the gaps that came out under a
    tenth of the true one: these tokens have no time of their own. `own` = CPU per token that has one.
    """
    handled = mismatched = 0
    errors_us: list[float] = []
    gap_errors_us: list[float] = []
    ttfts_ms: list[float] = []
    gaps_ms: list[float] = []
    coalesced = 0
    for sent_ns, arrivals, text in answers:
        sends = [int(word) for word in text.split()]
        mismatched += len(sends) != len(arrivals)
        if sent_ns is not None and since_ns <= sent_ns < until_ns and arrivals:
            ttfts_ms.append((arrivals[0] - sent_ns) / 1e6)
        before: tuple[int, int] | None = None
        for at_ns, send_ns in zip(arrivals, sends, strict=False):
            handled += since_ns <= at_ns < until_ns
            if since_ns <= send_ns < until_ns:
                errors_us.append((at_ns - send_ns) / 1e3)
                if before is not None:
                    gap, true_gap = at_ns - before[0], send_ns - before[1]
                    gaps_ms.append(gap / 1e6)
                    gap_errors_us.append(abs(gap - true_gap) / 1e3)
                    coalesced += gap < 0.1 * true_gap
            before = at_ns, send_ns
    window_s = (until_ns - since_ns) / 1e9
    share = coalesced / max(len(gap_errors_us), 1)
    cost_us = used_s * 1e6 / max(handled, 1)
    return {
        "tokens_per_s": round(handled / window_s),
        "cpu_us_per_token": round(cost_us, 2),
        "cpu_us_per_own": round(cost_us / (1 - share), 2) if share < 1 else None,
        "core_share": round(used_s / window_s, 3),
        "stamp_error_us": spread(errors_us),
        "itl_error_us": spread(gap_errors_us),
        "ttft_ms": spread(ttfts_ms),
        "itl_ms": spread(gaps_ms),
        "coalesced_share": round(share, 5),
        "mismatched": mismatched,
    }


def spread(values: list[float]) -> dict[str, float] | None:
    """p50, p99 and max; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[int(share * (len(ordered) - 1))], 3) for name, share in places.items()}
