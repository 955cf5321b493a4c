"""Locust events of one request: `E2E` always, and `TTFT`, `ITL` (one per interval) and `TPOT` when it succeeded.

A failed request fires `E2E` with its exception and no response time, so that its time cannot flatter a percentile; a
cancelled one fires nothing, it is neither a success nor a failure. Nothing that is not a finite number is fired:
Locust would raise in the middle of its own bookkeeping.
"""

from __future__ import annotations

import math
from typing import Any

from locust_llm.measure import metrics
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.plugin import rows

SIMULATED = " (SIMULATED)"
"""What the name of every Locust row of a run against the embedded engine ends in."""


class LLMError(Exception):
    """A failed request. Its text is a stable, bounded label without secrets, so that failures group well."""

    def __init__(self, label: str, record: RequestRecord | None = None) -> None:
        super().__init__(label)
        self.label = label
        self.record = record

    def __repr__(self) -> str:
        return self.label


def fire(
    environment: Any,
    record: RequestRecord,
    *,
    context: dict[str, Any],
    exception: BaseException | None = None,
    simulated: bool = False,
) -> None:
    """Fire the events of one ended request. `exception` overrides the record's own error (catch_response)."""
    if record.outcome is Outcome.CANCELLED:
        return
    name = record.name + (SIMULATED if simulated else "")
    if record.outcome is Outcome.FAILED:
        error = exception if exception is not None else LLMError(record.error or "failed", record)
        _fire(environment, rows.E2E, name, None, record, context, error)
        return
    _fire(environment, rows.TTFT, name, metrics.ttft_ms(record), record, context)
    itl = metrics.itl_ms(record)
    if len(itl):
        if rows.somebody_listens(environment.events.request):
            for value in itl.tolist():
                _fire(environment, rows.ITL, name, value, record, context)
        else:
            rows.fold(environment.stats, name, itl)
    tpot = metrics.tpot_ms(record)
    if tpot is not None:
        _fire(environment, rows.TPOT, name, tpot, record, context)
    _fire(environment, rows.E2E, name, metrics.e2e_ms(record), record, context)


def _fire(
    environment: Any,
    kind: str,
    name: str,
    response_time_ms: float | None,
    record: RequestRecord,
    context: dict[str, Any],
    exception: BaseException | None = None,
) -> None:
    """One event; metric events without a value are left out, an E2E without one counts without a time."""
    if response_time_ms is not None and not (math.isfinite(response_time_ms) and response_time_ms >= 0):
        response_time_ms = None
    if response_time_ms is None and kind != rows.E2E:
        return
    tokens = record.output_tokens if record.output_tokens is not None else 0
    environment.events.request.fire(
        request_type=kind,
        name=name,
        response_time=response_time_ms,
        response_length=tokens if kind == rows.E2E and exception is None else 0,
        response=record,
        context=context,
        exception=exception,
        start_time=record.started_wall_s,
        url=record.url,
    )
