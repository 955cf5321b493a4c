"""How the load of a step is put on and its window fed: a number of users, or a rate of arrivals.

Theory of operation. A step of users begins when they all run. A step of rate begins on an empty server: the schedule
before is ended, its requests are waited for, and the next schedule starts on a whole second. What is in flight of open
load is all that nobody has answered yet, so arrivals that wait for a free sender, and those that were dropped, count as
well: a sender that is missing must not make the backlog look short.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from typing import TYPE_CHECKING, Final

from locust_llm.analysis.backlog import BacklogRule, BacklogWindow
from locust_llm.analysis.knee import Step
from locust_llm.analysis.rate import RateStep
from locust_llm.analysis.steady import SteadyWindow, WindowRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from locust_llm.measure.series import Point
    from locust_llm.plugin.session import Session

FASTEST_PER_S: Final = 50.0
"""Users started per second when there is no residence to spread them over yet."""

LEAD_S: Final = 1.0
"""From the message to the first second of a step of rate, at least, so that every worker has it in time."""

logger = logging.getLogger(__name__)


class UserLoad:
    """Steps of users."""

    unit = "users"

    def __init__(self, session: Session, rule: WindowRule) -> None:
        self.session = session
        self._rule = rule
        self._rate_of: tuple[Step, float] | None = None

    def wanted(self, asked: Step) -> tuple[int, float]:
        """(users, users to start a second): new users are spread over one residence, so that none run in step."""
        users = round(asked.load)
        more = users - self.session.environment.runner.user_count
        spread_s = asked.spread_s
        rate = FASTEST_PER_S if spread_s is None or more <= 0 else max(more / spread_s, 0.1)
        # The rate of a step must not change while its users are being started: Locust would begin anew.
        if self._rate_of is None or self._rate_of[0] is not asked:
            self._rate_of = (asked, min(rate, FASTEST_PER_S))
        return users, self._rate_of[1]

    def begin(self, asked: Step) -> SteadyWindow | None:
        """The step's window, once its users run; None before."""
        runner = self.session.environment.runner
        if runner.user_count != round(asked.load) or runner.state != "running":
            return None
        if self.session.probing.factor != asked.output_factor:
            self.session.probing.ask(asked.output_factor)
            return None  # until the next tick: the workers have heard it by then
        return SteadyWindow(round(asked.load), time.time(), self._rule)

    def feed(self, window: SteadyWindow | BacklogWindow, point: Point) -> None:
        """Tell the window of one second."""
        assert isinstance(window, SteadyWindow)
        users = point.users if point.users is not None else window.users
        window.add_second(float(point.second), point.output_tokens, float(point.in_flight), float(users))

    def end(self) -> None:
        """The step is over: its users stay for the next one."""


class RateLoad:
    """Steps of rate, sent by `senders` OpenLoopUsers."""

    unit = "requests/s"

    def __init__(self, session: Session, rule: BacklogRule, senders: int) -> None:
        self.session = session
        self.senders = senders
        self._rule = rule
        self._steps = 0
        self._paused_s: float | None = None
        self._offered: Iterator[float] = iter(())
        self._next_s = math.inf
        self._t0_s = 0
        self._waiting = 0

    def wanted(self, asked: RateStep) -> tuple[int, float]:
        """(users, users to start a second): all senders, at once."""
        return self.senders, float(self.senders)

    def begin(self, asked: RateStep) -> BacklogWindow | None:
        """The step's window, once all senders run and the server is empty; None before."""
        runner = self.session.environment.runner
        if runner.user_count != self.senders or runner.state != "running" or not self._drained():
            return None
        self._t0_s = math.ceil(time.time() + LEAD_S)
        self._steps += 1
        self._offered = self.session.open_load.retime(asked.rate_rps, float(self._t0_s), self._steps)
        self._next_s, self._waiting = next(self._offered), 0
        return BacklogWindow(asked.rate_rps, float(self._t0_s), self._rule)

    def feed(self, window: SteadyWindow | BacklogWindow, point: Point) -> None:
        """Tell the window of one second."""
        if point.second < self._t0_s:
            return
        self._waiting += self._offered_until(point.second + 1 - self._t0_s)
        self._waiting -= self.session.open_load.taken()[point.second - self._t0_s]
        backlog = float(point.in_flight + max(self._waiting, 0))
        window.add_second(float(point.second), point.output_tokens, backlog, float(point.in_flight))

    def end(self) -> None:
        """The step is over: stop its arrivals."""
        self.session.open_load.pause()
        self._paused_s = time.time()

    def _offered_until(self, offset_s: float) -> int:
        """Arrivals up to an offset that were not counted yet."""
        count = 0
        while self._next_s < offset_s:
            count += 1
            self._next_s = next(self._offered, math.inf)
        return count

    def _drained(self) -> bool:
        """Whether nothing of the step before is in flight any more; after the longest step time it is given up."""
        if self._paused_s is None:
            return True
        points = self.session.stats.points(math.ceil(self._paused_s))
        if any(point.in_flight == 0 for point in itertools.islice(points, 1000)):
            return True
        if time.time() - self._paused_s < self._rule.max_s:
            return False
        logger.warning("Requests of the step before are still in flight: the next step begins all the same.")
        return True
