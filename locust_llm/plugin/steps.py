"""Stepped load: runs one step after the other, hands the rows of each to its window, and keeps the results.

Theory of operation. A step is asked for by a plan (a fixed list, or a KneeSearch, which looks at the results so far).
It counts from when its users really run, is measured by a SteadyWindow, and ends when that says so. The rows of ended
requests come from this process, or from the workers, with Locust's own reports; the seconds come from RunStats, once
they are complete. What takes longer than a moment (reading the results, fitting) runs on a thread of its own, so that
streams are read meanwhile. `tick` is called once a second by Locust's shape worker, in local and master.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import gevent

from locust_llm.analysis.knee import Step, read_steps
from locust_llm.analysis.outcomes import Outcomes, ended
from locust_llm.analysis.steady import Phase, SteadyWindow, WindowRule
from locust_llm.analysis.step import Asked, Status, StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.measure.findings.client import CPU_LIMIT, HUB_LAG_LIMIT_MS
from locust_llm.measure.record import RequestRecord
from locust_llm.measure.slo import met

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

REPORT_KEY = "llm_rows"
FASTEST_PER_S = 50.0
"""Users started per second when there is no residence to spread them over yet."""

logger = logging.getLogger(__name__)


class Plan(Protocol):
    """Says what to run next, from the results so far."""

    def next(self, results: Sequence[StepResult]) -> Step | Verdict:
        """The next step, or the verdict when there is none."""

    def verdict(self, results: Sequence[StepResult]) -> Verdict:
        """What the results say, also of a run that was cut off."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A fixed list of loads, each run once, in the order given."""

    loads: tuple[int, ...]

    def next(self, results: Sequence[StepResult]) -> Step | Verdict:
        """The next load of the list."""
        if len(results) >= len(self.loads):
            return self.verdict(results)
        return Step(self.loads[len(results)], results[-1].residence_s if results else None)

    def verdict(self, results: Sequence[StepResult]) -> Verdict:
        """The same reading as of a search."""
        return read_steps(results, max(self.loads), complete=len(results) >= len(self.loads))


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


class StepRun:
    """One stepped test, in local or master."""

    def __init__(self, session: Session, plan: Plan, *, step_s: float, run_s: float | None = None) -> None:
        """`step_s`: the longest a step's window may take; `run_s`: the longest all may take, None without limit."""
        self.session = session
        self.plan = plan
        self.results: list[StepResult] = []
        self.verdict: Verdict | None = None
        self.asked = Step(0)
        self._rule = WindowRule(max_s=step_s)
        self._run_s = run_s
        self._begun_s = time.monotonic()
        self._window: SteadyWindow | None = None
        self._last_second: int | None = None
        self._thinking: gevent.Greenlet | None = None
        self._rate_of: tuple[Step, float] | None = None
        self._think()

    def tick(self) -> tuple[int, float] | None:
        """(users, users to start a second) for Locust, or None when the test is over."""
        if self._run_s is not None and time.monotonic() - self._begun_s >= self._run_s:
            self.finish()
        if self.verdict is not None:
            return None
        if self._thinking is None:
            self._measure()
        return self._wanted()

    def finish(self) -> None:
        """The test ends, at its end or before: read what there is."""
        if self.verdict is None:
            if self._window is not None and self._thinking is None:
                self._take(self._window)
            self.verdict = self.plan.verdict(self.results)

    @property
    def step_text(self) -> str:
        """What is going on, for the log and the page."""
        if self.verdict is not None:
            return "done"
        wanting = self._window.state(time.time()).wanting if self._window is not None else "users are being started"
        return f"step of {self.asked.load:g}: {wanting or 'measuring'}"

    def _wanted(self) -> tuple[int, float]:
        users = round(self.asked.load)
        more = users - self.session.environment.runner.user_count
        spread_s = self.asked.spread_s
        rate = FASTEST_PER_S if spread_s is None or more <= 0 else max(more / max(spread_s, 1.0), 0.1)
        # The rate of a step must not change while its users are being started: Locust would begin anew.
        if self._rate_of is None or self._rate_of[0] is not self.asked:
            self._rate_of = (self.asked, rate)
        return users, self._rate_of[1]

    def _measure(self) -> None:
        """Feed the window what is new; end the step when it is done."""
        runner = self.session.environment.runner
        if self._window is None:
            if runner.user_count == round(self.asked.load) and runner.state == "running":
                self._window = SteadyWindow(round(self.asked.load), time.time(), self._rule)
                self._last_second = math.ceil(time.time()) - 1
                self.session.listener.step_health.clear()
            return
        window, rows = self._window, self.session.step_rows.outcomes
        window.outcomes.merge_packed(rows.pack())
        rows.clear()
        for point in self.session.stats.points(self._last_second):
            users = point.users if point.users is not None else window.users
            window.add_second(float(point.second), point.output_tokens, float(point.in_flight), float(users))
            self._last_second = point.second
        if window.state(time.time()).phase is Phase.DONE:
            self._take(window)
            self._think()

    def _take(self, window: SteadyWindow) -> None:
        """The result of a step."""
        busy = self._busy()
        status = Status.CLIENT_LIMITED if busy else Status.STEADY
        asked = Asked(self.asked.load, status, busy, self.asked.output_factor)
        result = window.result(asked)
        self._window = None
        self.results.append(result)
        for hear in self.session.on_step:
            hear(result)

    def _busy(self) -> str | None:
        """Why the client, not the server, was the bottleneck of this step; None when it was not."""
        for process, health in self.session.listener.step_health.items():
            cpu = health.cpu_percent.percentile(0.5)
            lag = health.lag_ms.percentile(0.99)
            if process != "master" and cpu is not None and cpu > 100 * CPU_LIMIT:
                return f"{process} used {cpu:.0f} % of a core"
            if process != "master" and lag is not None and lag > 5 * HUB_LAG_LIMIT_MS:
                return f"{process} was {lag:.0f} ms late at p99"
        return None

    def _think(self) -> None:
        """Ask the plan for the next step, on a thread: fits take longer than streams may wait."""

        def think() -> None:
            told = gevent.get_hub().threadpool.apply(self.plan.next, (tuple(self.results),))
            if isinstance(told, Verdict):
                self.verdict = told
            else:
                self.asked = told
                logger.info("Step of %g users.", told.load)
            self._thinking = None

        self._thinking = gevent.spawn(think)
