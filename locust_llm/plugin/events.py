"""Locust events of one request: `E2E` always, and `TTFT`, `ITL` (one per interval) and `TPOT` when it succeeded.

A failed request fires `E2E` with its exception and no response time, so that its time cannot flatter a percentile; a
cancelled one fires nothing, it is neither a success nor a failure. Nothing that is not a finite number is fired:
Locust would raise in the middle of its own bookkeeping.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    fired = _Fired(environment, record, record.name + (SIMULATED if simulated else ""), context)
    if record.outcome is Outcome.FAILED:
        fired.one(rows.E2E, None, exception if exception is not None else LLMError(record.error or "failed", record))
    else:
        fired.one(rows.TTFT, metrics.ttft_ms(record))
        fired.intervals(metrics.itl_ms(record))
        fired.one(rows.TPOT, metrics.tpot_ms(record))
        fired.one(rows.E2E, metrics.e2e_ms(record))
    if fired.asked is not None:
        raise fired.asked


class _Fired:
    """Fires the events of one request.

    A listener may raise what steers the user (StopUser, RescheduleTask …): it is kept in `asked` until all events are
    out, so that no row misses one.
    """

    def __init__(self, environment: Any, record: RequestRecord, name: str, context: dict[str, Any]) -> None:
        self.asked: Exception | None = None
        self._environment = environment
        self._record = record
        self._name = name
        self._context = context

    def one(self, kind: str, response_time_ms: float | None, exception: BaseException | None = None) -> None:
        """One event; metric events without a value are left out, an E2E without one counts without a time."""
        if response_time_ms is not None and not (math.isfinite(response_time_ms) and response_time_ms >= 0):
            response_time_ms = None
        if response_time_ms is None and kind != rows.E2E:
            return
        record = self._record
        tokens = record.output_tokens if record.output_tokens is not None else 0
        try:
            self._environment.events.request.fire(
                request_type=kind,
                name=self._name,
                response_time=response_time_ms,
                response_length=tokens if kind == rows.E2E and exception is None else 0,
                response=record,
                context=self._context,
                exception=exception,
                start_time=record.started_wall_s,
                url=record.url,
            )
        except Exception as error:
            self.asked = self.asked if self.asked is not None else error

    def intervals(self, values_ms: NDArray[np.float64]) -> None:
        """One ITL event per interval, or one row entry for all where nobody else listens."""
        if not len(values_ms):
            return
        if rows.somebody_listens(self._environment.events.request):
            for value in values_ms.tolist():
                self.one(rows.ITL, value)
        else:
            rows.fold(self._environment.stats, self._name, values_ms)
