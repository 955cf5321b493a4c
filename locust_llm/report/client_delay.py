"""How late the client read what had arrived: the error bar of a run, in words."""

from __future__ import annotations

from locust_llm.measure.findings.client import COALESCED_LIMIT
from locust_llm.report.run import ProcessLag, RunView


def latest_reader(view: RunView) -> ProcessLag | None:
    """The process that read latest; None where no kernel stamp tells."""
    return max((lag for lag in view.lag if lag.reads), key=lambda lag: lag.read_p99_ms or 0.0, default=None)


def client_delay_text(view: RunView) -> str | None:
    """One line on the process that read latest; None where no kernel stamp tells."""
    worst = latest_reader(view)
    if worst is None:
        return None
    whose = f" ({worst.process})" if sum(lag.reads > 0 for lag in view.lag) > 1 else ""
    return f"read packets within {read_delay_text(worst)} of their arrival{whose}{_reservation(view)}"


def _reservation(view: RunView) -> str:
    """What the delay means for the stamps: nothing, unless a read held several packets, of which it dates the last."""
    counts = view.stats.counts()
    if counts.events and counts.coalesced_events / counts.events > COALESCED_LIMIT:
        return ", as far as the last packet of each read tells: many held several"
    return ", which touches no kernel stamp" if view.clock == "kernel" else ""


def read_delay_text(lag: ProcessLag) -> str:
    """p50, p99 and largest; each is the upper end of a bin."""
    told = (("p50", lag.read_p50_ms), ("p99", lag.read_p99_ms), ("max", lag.read_max_ms))
    return ", ".join(f"{value:.2g} ms ({name})" for name, value in told if value is not None)
