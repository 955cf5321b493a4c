"""How a path is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from locust_llm.analysis.calibration_path import Path

SCHEMA: Final = "locust_llm.path/1"


def path_text(path: Path) -> str:
    """A few lines, without a final newline."""
    return "\n".join(_lines(path))


def path_dict(path: Path) -> dict[str, Any]:
    """One JSON object."""
    told = {**asdict(path), "coalesced_share": path.coalesced_share, "conclusions": path.conclusions}
    return {"schema": SCHEMA, **told}


def _lines(path: Path) -> Iterator[str]:
    model = f", model {path.model}" if path.model else ""
    yield f"Path to {path.url}{model}{', through a proxy' if path.proxy else ''}"
    phases = (("DNS", path.dns_ms), ("TCP", path.tcp_ms), ("TLS", path.tls_ms))
    known = ", ".join(f"{name} {_ms(value)}" for name, value in phases if value is not None)
    yield f"  connecting  {known} (medians of {path.connections} connections); fastest round trip {_ms(path.rtt_ms)}"
    yield f"  keep-alive  {path.reused} of {path.reusable} later requests reused the connection"
    share = path.coalesced_share
    if share is not None:
        yield (
            f"  stream      {path.events + path.requests - path.failed - path.whole} events, a median of "
            f"{_ms(path.apart_ms)} apart; {path.coalesced} ({100 * share:.1f} %) came together with the one before"
        )
    if path.first_ms is not None:
        yield f"  first token {_ms(path.first_ms)} on a kept connection (median of small requests without load)"
    yield f"  stamps      {'by the kernel, as packets arrive' if path.kernel_clock else 'by this process, as it reads'}"
    yield from path.conclusions


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} ms"
