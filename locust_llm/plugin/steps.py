"""Stepped load: runs one step after the other, hands the rows of each to its window, and keeps the results.

Theory of operation. A step is asked for by a plan (a fixed list, or a search, which looks at the results so far). It
counts from when its load is really on (`step_load`), is measured by a window, and ends when that says so. The rows of
ended requests come from this process, or from the workers, with Locust's own reports (`step_rows`); the seconds come
from RunStats, once they are complete. What takes longer than a moment (reading the results, fitting) runs on a thread
of its own, so that streams are read meanwhile. `tick` is called once a second by Locust's shape worker, in local and
master.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import gevent

from locust_llm.analysis.backlog import BacklogWindow
from locust_llm.analysis.knee import Step
from locust_llm.analysis.rate import RateStep, RateVerdict
from locust_llm.analysis.server_load import server_load
from locust_llm.analysis.steady import Phase, SteadyWindow
from locust_llm.analysis.step import Asked, ServerLoad, Status, StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.measure.findings.client import CPU_LIMIT, HUB_LAG_LIMIT_MS, waves_of
from locust_llm.plugin.plans import Repeated
from locust_llm.plugin.step_load import RateLoad, UserLoad

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

MEASURING: Final = "measuring"

logger = logging.getLogger(__name__)


class StepRun:
    """One stepped test, in local or master."""

    def __init__(
        self, session: Session, plan: Repeated, load: UserLoad | RateLoad, *, run_s: float | None = None
    ) -> None:
        """`run_s`: the longest all steps may take, None without limit."""
        self.session = session
        self.plan = plan
        self.load = load
        self.results: list[StepResult] = []
        self.verdict: Verdict | RateVerdict | None = None
        self._run_s = run_s
        self._begun_s = time.monotonic()
        self._window: SteadyWindow | BacklogWindow | None = None
        self._doing = MEASURING
        self._last_second: int | None = None
        self._thinking: gevent.Greenlet | None = None
        first = plan.next(())
        assert isinstance(first, Step | RateStep)
        self.asked: Step | RateStep = first
        self._say()

    def tick(self) -> tuple[int, float] | None:
        """(users, users to start a second) for Locust, or None when the test is over."""
        if self._run_s is not None and time.monotonic() - self._begun_s >= self._run_s:
            self.finish()
        if self.verdict is not None:
            return None
        if self._thinking is None:
            self._measure()
        return self.load.wanted(self.asked)  # type: ignore[arg-type]

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
        doing = self._doing if self._window is not None else "the load is being put on"
        return f"step of {self.asked.load:g} {self.load.unit}: {doing}"

    def _measure(self) -> None:
        """Feed the window what is new; end the step when it is done."""
        if self._window is None:
            self._window = self.load.begin(self.asked)  # type: ignore[arg-type]
            self._last_second = math.ceil(time.time()) - 1
            self.session.listener.step_health.clear()
            return
        window, rows = self._window, self.session.step_rows.outcomes
        window.outcomes.merge_packed(rows.pack())
        rows.clear()
        for point in self.session.stats.points(self._last_second):
            self.load.feed(window, point)
            self._last_second = point.second
        state = window.state(time.time())
        self._doing = state.wanting if state.wanting is not None else MEASURING
        if state.phase is Phase.DONE:
            self._take(window)
            self._think()

    def _take(self, window: SteadyWindow | BacklogWindow) -> None:
        """The result of a step."""
        busy = self._busy(window)
        status = Status.CLIENT_LIMITED if busy else Status.STEADY
        asked = Asked(self.asked.load, status, busy, self.asked.output_factor, server=self._server(window))
        result = window.result(asked)
        self._window = None
        self.load.end()
        result = replace(result, repeat=self.plan.repeat, waves=self._waves(result))
        self.results.append(result)
        for hear in self.session.on_step:
            hear(result)

    def _server(self, window: SteadyWindow | BacklogWindow) -> ServerLoad | None:
        """What the server's own metrics said over the window."""
        series, state = self.session.scraper.series, window.state(time.time())
        if series is None or state.begin_s is None or state.end_s is None:
            return None
        return server_load(series.between(state.begin_s, state.end_s))

    def _waves(self, result: StepResult) -> float | None:
        """How far the requests started per second scatter, where users run in step; open load scatters as it likes."""
        if result.open_loop:
            return None
        points = self.session.stats.points(math.ceil(result.begin_s) - 1)
        return waves_of([point.started for point in points if point.second < result.end_s - 1])

    def _busy(self, window: SteadyWindow | BacklogWindow) -> str | None:
        """Why the client, not the server, was the bottleneck of this step; None when it was not."""
        for worker, lost_s in self.session.lost.items():
            if lost_s >= window.begun_s:
                return f"worker {worker} was lost"
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
            if isinstance(told, Verdict | RateVerdict):
                self.verdict = told
            else:
                self.asked = told
                self._say()
            self._thinking = None

        self._thinking = gevent.spawn(think)

    def _say(self) -> None:
        logger.info("Step of %g %s.", self.asked.load, self.load.unit)
