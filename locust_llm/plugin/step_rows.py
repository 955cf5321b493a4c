"""The rows of ended requests, from where they end to where steps are judged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from locust_llm.analysis.outcomes import Outcomes, ended
from locust_llm.measure.record import RequestRecord
from locust_llm.measure.slo import met

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

REPORT_KEY = "llm_rows"


class StepRows:
    """The rows of ended requests of one process, and in a master those of its workers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.outcomes = Outcomes()
        self.offset_ns = 0

    def install(self) -> None:
        """Add the listeners."""
        events = self.session.environment.events
        self.session.listener.on_ended.append(self._on_ended)
        if self.session.is_worker:
            events.report_to_master.add_listener(self._on_report_to_master)
        elif self.session.is_master:
            events.worker_report.add_listener(self._on_worker_report)

    def begin(self) -> None:
        """A test starts in this process."""
        self.outcomes.clear()
        self.offset_ns = time.time_ns() - time.monotonic_ns()

    def _on_ended(self, record: RequestRecord, user: int) -> None:
        if self.session.settings.shape and not record.warmup:
            self.outcomes.add(ended(record, user, self.offset_ns, met(record, self.session.settings.slo)))

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if len(self.outcomes):
            data[REPORT_KEY] = {"run": self.session.run, "rows": self.outcomes.pack()}
            self.outcomes.clear()

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is not None and report["run"] == self.session.run:
            self.outcomes.merge_packed(tuple(report["rows"]))
