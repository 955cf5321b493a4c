"""Open load: requests come when a schedule says, whether or not earlier ones have been answered.

Theory of operation. `OpenLoopUser`s are the senders: each waits for the next arrival of its process's Schedule. Their
number (`--users`) is the most that can be in flight; the rate (`--llm-rate`) is the load. When all users are there the
master sends each worker t0, its number k and the number of workers n (workers do not know these), and each takes the
arrivals k, k+n, k+2n … of the one seeded process. A lost worker's share of the arrivals counts as dropped.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from locust_llm.plugin.schedule import DROPPED, TAKEN, Schedule
from locust_llm.plugin.settings import Settings
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.arrivals import CONSTANT, ArrivalsError, arrivals, from_file, ramped, stripe

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

SCHEDULE = "llm_schedule"
REPORT_KEY = "llm_open"
LEAD_S = 0.5
"""From the message to t0, so that every worker has it in time."""


@dataclass(slots=True)
class _Share:
    index: int
    count: int
    t0_wall_s: float


class OpenLoad:
    """The open load of one process: its schedule, and on the master the workers' shares."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self.schedule = Schedule()
        self.counts: Counter[str] = Counter()
        self._backlogs: dict[str, int] = {}
        self._shares: dict[str, _Share] = {}
        self._started = False

    def install(self) -> None:
        """Add the listeners."""
        events = self.environment.events
        events.spawning_complete.add_listener(self._on_spawning_complete)
        if self.session.is_worker:
            events.report_to_master.add_listener(self._on_report_to_master)
            self.environment.runner.register_message(SCHEDULE, self._on_schedule)
        elif self.session.is_master:
            events.worker_report.add_listener(self._on_worker_report)

    def begin(self) -> None:
        """A test starts in this process."""
        settings = self.session.settings
        self.schedule = Schedule(lambda: len(self.session.listener.running), settings.max_in_flight or None)
        self.counts = Counter()
        self._backlogs, self._shares, self._started = {}, {}, False

    def check(self) -> None:
        """Raise ConfigurationError when the schedule cannot be made."""
        if self.active:
            next(_offsets(self.session.settings, self.session.run), None)

    @property
    def active(self) -> bool:
        """Whether any user of this test sends open load."""
        return any(getattr(user, "open_loop", False) for user in self.environment.user_classes)

    @property
    def backlog(self) -> int:
        """Arrivals that are due and wait for a free user, all processes."""
        return self.schedule.backlog + sum(self._backlogs.values())

    def totals(self) -> dict[str, int]:
        """Arrivals offered so far, and of them taken, dropped and still waiting; a lost worker's share is dropped."""
        self.counts.update(self.schedule.take_counts())
        dropped = self.counts[DROPPED] + sum(self._lost_share(worker) for worker in self.session.lost)
        waiting = self.backlog
        taken = self.counts[TAKEN]
        return {"offered": taken + dropped + waiting, "taken": taken, "dropped": dropped, "waiting": waiting}

    # -- the start ---------------------------------------------------------------------------------------------

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        if self._started or not self.active or self.session.is_worker:
            return
        self._started = True
        t0 = time.time() + LEAD_S
        if not self.session.is_master:
            self._start(_Share(0, 1, t0))
            return
        runner = self.environment.runner
        workers = sorted(client.id for client in runner.clients.all if client.state in ("running", "spawning"))
        for index, worker in enumerate(workers):
            share = self._shares[worker] = _Share(index, len(workers), t0)
            message = {"run": self.session.run, "index": index, "count": share.count, "t0_wall_s": t0}
            runner.send_message(SCHEDULE, message, worker)

    def _on_schedule(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self._start(_Share(msg.data["index"], msg.data["count"], msg.data["t0_wall_s"]))

    def _start(self, share: _Share) -> None:
        settings = self.session.settings
        if settings.max_in_flight:
            self.schedule.limit = max(1, round(settings.max_in_flight / share.count))
        offset_ns = time.time_ns() - time.monotonic_ns()
        offsets = stripe(_offsets(settings, self.session.run), share.index, share.count)
        self.schedule.start(offsets, int(share.t0_wall_s * 1e9) - offset_ns)

    # -- from worker to master ---------------------------------------------------------------------------------

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if self.active and self.session.run:
            counts = self.schedule.take_counts()
            data[REPORT_KEY] = {"run": self.session.run, "backlog": self.schedule.backlog, **counts}

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is not None and report["run"] == self.session.run:
            self._backlogs[client_id] = report["backlog"]
            self.counts.update({TAKEN: report[TAKEN], DROPPED: report[DROPPED]})

    def _lost_share(self, worker: str) -> int:
        """Arrivals that a lost worker should have sent from its loss to the end of the run."""
        share = self._shares.get(worker)
        if share is None:
            return 0
        begin = self.session.lost[worker] - share.t0_wall_s
        stopped = self.session.stopped_wall_s
        end = (stopped if stopped is not None else time.time()) - share.t0_wall_s
        mine = stripe(_offsets(self.session.settings, self.session.run), share.index, share.count)
        return sum(offset >= begin for offset in itertools.takewhile(lambda offset: offset < end, mine))


def _offsets(settings: Settings, run: str) -> Iterator[float]:
    """The arrival process that the options ask for; raises ConfigurationError."""
    try:
        if settings.arrivals_file:
            return iter(from_file(settings.arrivals_file))
        if not settings.rate:
            raise ConfigurationError("open load needs --llm-rate (requests per second) or --llm-arrivals-file")
        seed = run if settings.seed is None else settings.seed
        kind, burstiness = settings.arrivals or CONSTANT, settings.burstiness
        if settings.rate_ramp:
            unit = arrivals(kind, 1.0, burstiness=burstiness, seed=seed)
            return ramped(unit, settings.rate_from, settings.rate, settings.rate_ramp)
        return arrivals(kind, settings.rate, burstiness=burstiness, seed=seed)
    except ArrivalsError as error:
        raise ConfigurationError(str(error)) from None
