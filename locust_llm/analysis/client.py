"""When the client, not the server, was the bottleneck of a step: such a step proves nothing about the server."""

from __future__ import annotations

from locust_llm.measure.findings.client import CPU_LIMIT, HUB_LAG_LIMIT_MS


def client_limit(cpu_share: float | None, hub_lag_p99_ms: float | None) -> str | None:
    """Why the step counts as client-limited; None when it does not.

    `cpu_share`: CPU time / wall time of the busiest load-generating process over the window; `hub_lag_p99_ms`: how late
    the worst process's hub was. The limits are those of the run's own findings.
    """
    if cpu_share is not None and cpu_share > CPU_LIMIT:
        return f"a load-generating process used {100 * cpu_share:.0f} % of a core (limit {100 * CPU_LIMIT:.0f} %)"
    if hub_lag_p99_ms is not None and hub_lag_p99_ms > HUB_LAG_LIMIT_MS:
        return f"a load-generating process was {hub_lag_p99_ms:.0f} ms late at p99 (limit {HUB_LAG_LIMIT_MS:.0f} ms)"
    return None
