"""OpenLoad: what became of the arrivals of an open-loop run, as words and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from locust_llm.analysis.overload import OpenTotals, overloaded
from locust_llm.measure.catalogue import BY_KEY
from locust_llm.measure.summary import summary_row
from locust_llm.report.digits import three
from locust_llm.report.run import RunView

TIMES: Final = (
    ("schedule_delay", "Schedule delay", (0.5, 0.99)),
    ("ttft_from_schedule", "TTFT from schedule", (0.5, 0.95, 0.99)),
    ("e2e_from_schedule", "E2E from schedule", (0.5, 0.95, 0.99)),
)
"""What an arrival waited, from when it was due: metric, title, quantiles shown."""


def facts(view: RunView) -> Iterator[tuple[str, str]]:
    """Titles and values; nothing in closed loop. While the test runs they are of the run so far."""
    totals = view.open_load
    if totals is None:
        return
    rate = f" at {_number(totals.rate_rps)} requests/s" if totals.rate_rps is not None else ""
    yield "Scheduled", f"{totals.scheduled:,}{rate}"
    yield "Sent", f"{totals.sent:,}"
    yield "Dropped", f"{totals.dropped:,}"
    yield "Waiting for a free user", f"{totals.waiting:,}"
    for key, title, quantiles in TIMES:
        row = summary_row(view.stats, BY_KEY[key])
        if row.n:
            told = ", ".join(f"p{100 * q:g} {_number(row.at(q).value)}" for q in quantiles)
            yield title, f"{told} ms, n {row.n:,}"


def _number(value: float | None) -> str:
    told = three(value)
    return f"{told:,}" if told is not None else "–"


def trouble(view: RunView) -> str | None:
    """How the load outgrew the service, as a sentence; None when it did not."""
    told = overloaded(view.stats, view.open_load) if view.open_load is not None else None
    return f"{told[:1].upper()}{told[1:]}." if told is not None else None


def panel(view: RunView) -> dict[str, Any] | None:
    """What the page and the HTML report show; None in closed loop."""
    if view.open_load is None:
        return None
    return {"facts": [[title, text] for title, text in facts(view)], "overloaded": trouble(view)}


# -- plain values --------------------------------------------------------------------------------------------------


def open_load_dict(view: RunView) -> dict[str, Any] | None:
    """For the run document: the totals, and in words how the load outgrew the service; None in closed loop."""
    return {**asdict(view.open_load), "overloaded": trouble(view)} if view.open_load is not None else None


def open_load_of(told: Mapping[str, Any]) -> OpenTotals:
    """The totals that `open_load_dict` described; raises TypeError when they are damaged."""
    return OpenTotals(**{key: value for key, value in told.items() if key != "overloaded"})
