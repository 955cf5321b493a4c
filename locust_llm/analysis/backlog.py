"""BacklogWindow: whether an open-loop step can be sustained, decided while it runs.

Theory of operation. Requests arrive whatever happens, so the question is whether those in flight pile up. The backlog's
slope is a least-squares line through the requests in flight at each second's end. Its standard error treats the backlog
as the worst it can be while not growing, a random walk (a server right at its capacity): the variance of its increments
over batches, q a second, makes the slope of a window of T seconds uncertain by sqrt(6/5 · q / T). A server with room
pulls its backlog back, so there the true error is smaller.

The step is "overloaded" as soon as the slope is above 0 by 3 standard errors and above 1 % of the arrivals, and in the
window's later half alone by 2 and by half as much as in all of it: a queue that only fills to its level slows down, one
that overflows does not. It is "steady" once the slope's upper bound (2 standard errors) is below 5 % of the arrivals.
That takes some 600 to 1,400 arrivals; a rate just above capacity (up to 5 %) may still pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.outcomes import Ended, Fate, Outcomes
from locust_llm.analysis.seconds import Seconds
from locust_llm.analysis.steady import LOOK_GROWTH, Phase, WindowState
from locust_llm.analysis.step import Asked, Status, StepResult
from locust_llm.analysis.window import nearest_rank, residences, step_result, within

Floats = NDArray[np.float64]

BATCHES: Final = 16
_OPENING: Final = WindowState(Phase.OPENING, None, None, None, wanting="too few requests of this step have ended")


@dataclass(frozen=True, slots=True)
class BacklogRule:
    """When an open-loop step is decided. `resolution`: the growth, as a share of the arrivals, that must be ruled out.

    The window opens `settle_residences` after the step's begin and lasts at least `least_s` and `least_residences`, a
    residence being the median of the first `first_outcomes` requests of the step that ended.
    """

    resolution: float = 0.05
    least_share: float = 0.01
    overload_errors: float = 3.0
    later_errors: float = 2.0
    later_share: float = 0.5
    steady_errors: float = 2.0
    first_outcomes: int = 10
    settle_residences: float = 3.0
    least_s: float = 16.0
    least_residences: float = 8.0
    max_s: float = 1200.0


class BacklogWindow:
    """The window of one open-loop step of `rate_rps` requests a second, begun at `begun_s` (wall clock)."""

    def __init__(
        self, rate_rps: float, begun_s: float, rule: BacklogRule | None = None, *, span_s: float = 1.0
    ) -> None:
        self.rate_rps = rate_rps
        self.begun_s = begun_s
        self.rule = rule if rule is not None else BacklogRule()
        self.outcomes = Outcomes()
        self.seconds = Seconds(span_s)
        self._begin_s: float | None = None
        self._next_look_s = 0.0  # the window's length at which it is judged next
        self._done: WindowState | None = None

    def add(self, ended: Iterable[Ended]) -> None:
        """Requests that ended."""
        self.outcomes.extend(ended)

    def add_second(self, begin_s: float, tokens: float, in_flight: float, users: float) -> None:
        """The next second's figures, all in: see `Seconds.add`. In open loop the users are the requests in flight."""
        self.seconds.add(begin_s, tokens, in_flight, users)

    @property
    def slope(self) -> Estimate | None:
        """By how much the backlog grows, requests a second; None before the window opened."""
        return self._slope()

    def state(self, now_s: float) -> WindowState:
        """What is known at `now_s` (wall clock). Once DONE it stays so."""
        if self._done is not None:
            return self._done
        state = self._judge()
        if state.phase is not Phase.DONE and now_s - self.begun_s >= self.rule.max_s:
            state = replace(state, phase=Phase.DONE, status=self._at_last())
        if state.phase is Phase.DONE:
            self._done = state
        return state

    def result(self, asked: Asked) -> StepResult:
        """The step's figures. The status is the window's own, unless `asked` names a graver one."""
        state = self._done if self._done is not None else self._judge()
        own = state.status if state.status is not None else Status.TOO_SHORT
        status = own if asked.status is Status.STEADY else asked.status
        asked = replace(asked, status=status, why=asked.why if asked.why is not None else state.wanting, open_loop=True)
        begin_s, end_s = self._span()
        if begin_s is None or end_s is None or end_s <= begin_s:
            return StepResult(asked.load, 0.0, status, self.begun_s, self.begun_s, open_loop=True, why=asked.why)
        result = step_result(asked, self.outcomes, self.seconds, begin_s, end_s)
        return replace(result, backlog_per_s=self.slope)

    # -- judging -------------------------------------------------------------------------------------------------

    def _span(self) -> tuple[float | None, float | None]:
        if self._begin_s is None:
            self._begin_s = self._opens_s()
        return self._begin_s, self.seconds.end_s

    def _opens_s(self) -> float | None:
        """By the residence of the first requests to end: under overload that of later ones has no limit."""
        rows = self.outcomes.rows
        rows = rows[(rows["started_s"] >= self.begun_s) & (rows["fate"] != Fate.CANCELLED)]
        end_s = self.seconds.end_s
        if len(rows) < self.rule.first_outcomes or end_s is None:
            return None
        first = rows[np.argsort(rows["ended_s"], kind="stable")][: self.rule.first_outcomes]
        median_s = nearest_rank(residences(first), 0.5)
        assert median_s is not None
        self._next_look_s = max(self.rule.least_s, self.rule.least_residences * median_s)
        opens_s = self.begun_s + self.rule.settle_residences * median_s
        return opens_s if opens_s <= end_s else None

    def _judge(self) -> WindowState:
        begin_s, end_s = self._span()
        if begin_s is None or end_s is None:
            return _OPENING
        ended = len(within(self.outcomes.rows, begin_s, end_s))
        state = WindowState(Phase.MEASURING, None, begin_s, end_s, ended)
        slope = self.slope
        if slope is None or end_s - begin_s < self._next_look_s:
            return replace(state, wanting=self._growth(slope))
        self._next_look_s = LOOK_GROWTH * (end_s - begin_s)
        rule = self.rule
        if self._grows(rule.overload_errors):
            return replace(state, phase=Phase.DONE, status=Status.OVERLOADED, wanting=self._growth(slope))
        if slope.value + rule.steady_errors * slope.error < rule.resolution * self.rate_rps:
            return replace(state, phase=Phase.DONE, status=Status.STEADY)
        return replace(state, wanting=self._growth(slope))

    def _at_last(self) -> Status:
        """The status when the time is up."""
        if self.slope is None:
            return Status.TOO_SHORT
        return Status.OVERLOADED if self._grows(self.rule.later_errors) else Status.NOISY

    def _slope(self, since: float = 0.0) -> Estimate | None:
        """The slope of the window's part after the share `since` of it."""
        begin_s, end_s = self._span()
        if begin_s is None or end_s is None:
            return None
        begin_s += since * (end_s - begin_s)
        if end_s - begin_s < 3 * self.seconds.span_s:
            return None
        edges = np.linspace(begin_s, end_s, int((end_s - begin_s) / self.seconds.span_s) + 1)
        return backlog_slope(self.seconds.mean_in_flight(edges), float(edges[1] - edges[0]))

    def _grows(self, errors: float) -> bool:
        """Whether the backlog grows by that many standard errors, and still does in the window's later half."""
        whole, later = self._slope(), self._slope(0.5)
        if whole is None or later is None:
            return False
        least = self.rule.least_share * self.rate_rps
        if whole.value <= max(errors * whole.error, least):
            return False
        return later.value > max(self.rule.later_errors * later.error, least, self.rule.later_share * whole.value)

    def _growth(self, slope: Estimate | None) -> str | None:
        if slope is None:
            return None
        return f"requests in flight grow by {slope.value:.3g} ± {slope.error:.2g} a second"


def backlog_slope(in_flight: Floats, span_s: float) -> Estimate | None:
    """Slope of requests in flight, sampled every `span_s`, and its standard error as of a random walk, per second."""
    count = len(in_flight)
    if count < 3:
        return None
    time_s = (np.arange(count) - (count - 1) / 2) * span_s
    slope = float(time_s @ in_flight / (time_s @ time_s))
    marks = in_flight[np.linspace(0, count - 1, min(BATCHES, count - 1) + 1).astype(int)]
    batch_s = (count - 1) * span_s / (len(marks) - 1)
    variance_per_s = float(np.var(np.diff(marks), ddof=1)) / batch_s
    return Estimate(slope, math.sqrt(1.2 * variance_per_s / (count * span_s)))
