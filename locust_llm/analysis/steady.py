"""SteadyWindow: when the figures of a closed-loop step may be taken, decided while it runs.

Theory of operation. A step begins when its users run. What they do first still shows the step before (requests begun
then, users all starting at once), so the window opens when each user has finished one request begun in this step. It
closes when there is enough of everything: at least 4 outcomes a user, at least 8 batches of at least one median
residence, and a 95 % half-width of ln X of at most 2 %. Then its halves are compared: if they differ by more than 3
standard errors and 5 %, the step was still settling; the window begins anew at its middle, once, and has to fulfil
all of it again. If its halves still differ, the step drifts. When the time is up the step is "noisy", or "too short"
if even outcomes or batches are missing.

A rule that looks every second and stops at the first good moment stops at lucky ones, and then claims errors that are
too small. So after a look that found X not precise enough the next one comes when the window is a quarter longer.

Only whole seconds that were told count: a window ends with the last second that was added, so the caller adds a second
when all its figures are in, and the outcomes that ended in it before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.analysis.batches import batch_edges, estimate, student_t
from locust_llm.analysis.intervals import NoInterval, interval_edges
from locust_llm.analysis.outcomes import Ended, Fate, Outcomes
from locust_llm.analysis.seconds import Seconds
from locust_llm.analysis.step import Asked, Status, StepResult
from locust_llm.analysis.window import MAX_BATCHES, nearest_rank, residences, step_result, throughput, within

Floats = NDArray[np.float64]

LOOK_GROWTH: Final = 1.25
"""By how much a window grows until its precision is judged again."""


@dataclass(frozen=True, slots=True)
class WindowRule:
    """When a window closes. `max_s` counts from the step's begin. `interval`: also long enough for intervals (SLOs)."""

    outcomes_per_user: float = 4.0
    batches: int = 8
    half_width: float = 0.02
    max_s: float = 300.0
    interval: bool = False
    drift_errors: float = 3.0
    drift_share: float = 0.05


class Phase(StrEnum):
    """Where a step is: waiting for its window to open, measuring, or done."""

    OPENING = "opening"
    MEASURING = "measuring"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class WindowState:
    """What is known by now. `status` is None until the phase is DONE; `half_width` is that of ln X.

    `wanting` says in words what is still missing.
    """

    phase: Phase
    status: Status | None
    begin_s: float | None
    end_s: float | None
    outcomes: int = 0
    batches: int = 0
    half_width: float | None = None
    wanting: str | None = None


_OPENING: Final = WindowState(Phase.OPENING, None, None, None)


class SteadyWindow:
    """The window of one step with `users`, begun at `begun_s` (wall clock) when they all ran."""

    def __init__(self, users: int, begun_s: float, rule: WindowRule | None = None, *, span_s: float = 1.0) -> None:
        self.users = users
        self.begun_s = begun_s
        self.rule = rule if rule is not None else WindowRule()
        self.outcomes = Outcomes()
        self.seconds = Seconds(span_s)
        self._begin_s: float | None = None
        self._extended = False
        self._next_look_s = 0.0  # the window's length at which its precision is judged again
        self._done: WindowState | None = None

    def add(self, ended: Iterable[Ended]) -> None:
        """Requests that ended."""
        self.outcomes.extend(ended)

    def add_second(self, begin_s: float, tokens: float, in_flight: float, users: float) -> None:
        """The next second's figures, all in: see `Seconds.add`."""
        self.seconds.add(begin_s, tokens, in_flight, users)

    def state(self, now_s: float) -> WindowState:
        """What is known at `now_s` (wall clock). Once DONE it stays so."""
        if self._done is not None:
            return self._done
        overdue = now_s - self.begun_s >= self.rule.max_s
        state = self._judge(overdue=overdue)
        if overdue and state.phase is not Phase.DONE:
            enough = state.half_width is not None and self._enough(state.outcomes, state.batches)
            state = replace(state, phase=Phase.DONE, status=Status.NOISY if enough else Status.TOO_SHORT)
        if state.phase is Phase.DONE:
            self._done = state
        return state

    def result(self, asked: Asked) -> StepResult:
        """The step's figures, over the window as it is now.

        The status is the window's own, unless `asked` names a graver one (a client at its limit, say).
        """
        state = self._done if self._done is not None else self._judge()
        status = state.status if state.status is not None else Status.TOO_SHORT
        if asked.status is not Status.STEADY:
            status = asked.status
        why = asked.why if asked.why is not None else state.wanting
        begin_s = state.begin_s if state.begin_s is not None else self.begun_s
        end_s = state.end_s if state.end_s is not None else begin_s
        if end_s <= begin_s:
            return StepResult(asked.load, float(self.users), Status.TOO_SHORT, begin_s, end_s, why=why)
        result = step_result(replace(asked, status=status, why=why), self.outcomes, self.seconds, begin_s, end_s)
        return _with_drift(result) if state.status is Status.DRIFTING else result

    # -- judging -------------------------------------------------------------------------------------------------

    def _judge(self, *, overdue: bool = False) -> WindowState:
        end_s = self.seconds.end_s
        if self._begin_s is None:
            self._begin_s = self._opens_s()
        begin_s = self._begin_s
        if begin_s is None or end_s is None or end_s <= begin_s:
            return replace(_OPENING, wanting="not every user has finished a request of this step")
        rows = within(self.outcomes.rows, begin_s, end_s)
        counted = int(np.count_nonzero(rows["fate"] != Fate.CANCELLED))
        success = rows[rows["fate"] == Fate.SUCCESS]
        median_s = nearest_rank(residences(success if len(success) else rows), 0.5)
        if median_s is None:
            return WindowState(Phase.MEASURING, None, begin_s, end_s, wanting="nothing has ended in the window")
        least_s = max(median_s, self.seconds.span_s)
        edges = batch_edges(begin_s, end_s, least_s, MAX_BATCHES)
        rates, _ = throughput(self.outcomes.rows, self.seconds, edges)
        width = half_width(rates)
        state = WindowState(Phase.MEASURING, None, begin_s, end_s, counted, int((end_s - begin_s) / least_s), width)
        wanting = self._wanting(state, success, edges, overdue=overdue)
        return replace(state, wanting=wanting) if wanting is not None else self._close(state, rates)

    def _opens_s(self) -> float | None:
        """When the last user finished a first request begun in this step; None as long as one has not.

        Not before the first second that was told: of what came earlier only the outcomes are known, not the tokens.
        """
        rows = self.outcomes.rows
        rows = rows[(rows["started_s"] >= self.begun_s) & (rows["fate"] != Fate.CANCELLED)]
        if len(rows) < self.users:
            return None
        rows = rows[np.argsort(rows["ended_s"], kind="stable")]
        _, first = np.unique(rows["user"], return_index=True)
        told_s = self.seconds.begin_s
        if len(first) < self.users or told_s is None:
            return None
        return max(float(rows["ended_s"][np.sort(first)[self.users - 1]]), told_s)

    def _enough(self, outcomes: int, batches: int) -> bool:
        return outcomes >= self.rule.outcomes_per_user * self.users and batches >= self.rule.batches

    def _wanting(self, state: WindowState, success: NDArray[Any], edges: Floats, *, overdue: bool) -> str | None:
        """What is missing before the window may close, in words; None when nothing is.

        When the time is up a window that is only too short for intervals closes: they say themselves that they lack.
        """
        rule = self.rule
        assert state.begin_s is not None
        assert state.end_s is not None
        if not self._enough(state.outcomes, state.batches):
            least = math.ceil(rule.outcomes_per_user * self.users)
            return f"{state.outcomes} of {least} outcomes, {state.batches} of {rule.batches} batches"
        length_s = state.end_s - state.begin_s
        if state.half_width is None or state.half_width > rule.half_width or length_s < self._next_look_s:
            if length_s >= self._next_look_s:
                self._next_look_s = LOOK_GROWTH * length_s
            reached = f"± {100 * state.half_width:.1f} %" if state.half_width is not None else "unknown"
            return f"throughput known to {reached}, not ± {100 * rule.half_width:g} %"
        if rule.interval and not overdue:
            edges_or_none = interval_edges(state.begin_s, state.end_s, nearest_rank(residences(success), 0.95))
            if isinstance(edges_or_none, NoInterval):
                return edges_or_none.reason
        return None

    def _close(self, state: WindowState, rates: Floats) -> WindowState:
        """Everything is there: close, unless the halves differ and the window may still be extended."""
        if not self._halves_differ(rates):
            return replace(state, phase=Phase.DONE, status=Status.STEADY)
        first, second = halves(rates)
        wanting = f"the halves of the window differ: {np.mean(first):.4g} and {np.mean(second):.4g}"
        if self._extended:
            return replace(state, phase=Phase.DONE, status=Status.DRIFTING, wanting=wanting)
        self._extended = True
        self._next_look_s = 0.0
        assert state.begin_s is not None
        assert state.end_s is not None
        self._begin_s = (state.begin_s + state.end_s) / 2
        return replace(state, wanting=wanting)

    def _halves_differ(self, rates: Floats) -> bool:
        first, second = halves(rates)
        apart = abs(float(np.mean(second) - np.mean(first)))
        error = math.sqrt(float(np.var(first, ddof=1)) / len(first) + float(np.var(second, ddof=1)) / len(second))
        return apart > self.rule.drift_errors * error and apart > self.rule.drift_share * float(np.mean(rates))


def _with_drift(result: StepResult) -> StepResult:
    """X of a drifting step is known no better than half of what its halves differ by."""
    if result.throughput is None:
        return result
    first, second = halves(np.array(result.batches))
    apart = abs(float(np.mean(second) - np.mean(first)))
    error = max(result.throughput.error, apart / 2)
    return replace(result, throughput=replace(result.throughput, error=error))


def halves(rates: Floats) -> tuple[Floats, Floats]:
    """The first and the second half of the batches; an odd one in the middle belongs to neither."""
    half = len(rates) // 2
    return rates[:half], rates[len(rates) - half :]


def half_width(rates: Floats) -> float | None:
    """Half-width of the 95 % interval of ln X from its batches; None for fewer than two.

    0 when nothing came in any batch, as when every request fails: that is known well enough.
    """
    mean = estimate(rates)
    if mean is None:
        return None
    return student_t(0.975, len(rates) - 1) * mean.ln_error
