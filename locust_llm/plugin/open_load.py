"""Open load: requests come when a schedule says, whether or not earlier ones have been answered.

Theory of operation. `OpenLoopUser`s are the senders: each waits for the next arrival of its process's Schedule. Their
number (`--users`) is the most that can be in flight; the rate (`--llm-rate`) is the load. When all users are there the
master sends each worker t0, its number k and the number of workers n (workers do not know these), and each takes the
arrivals k, k+n, k+2n … of the one seeded process. A lost worker's share of the arrivals counts as dropped.

Steps of rate (`--llm-shape` with OpenLoopUsers) send one schedule after the other: `pause` ends one, `retime` sends the
next to all workers that are there, each a process of its own seed. How many arrivals nobody has served yet is known
second by second: the master knows the process, and each worker tells in which second it took how many.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from locust_llm.analysis.overload import OpenTotals
from locust_llm.plugin.schedule import DROPPED, TAKEN, Schedule
from locust_llm.plugin.settings import Settings
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.arrivals import CONSTANT, ArrivalsError, arrivals, from_file, ramped, stripe
from locust_llm.workload.trace import TraceError, read_trace

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

SCHEDULE = "llm_schedule"
REPORT_KEY = "llm_open"
LEAD_S = 0.5
"""From the message to t0, so that every worker has it in time."""


@dataclass(slots=True)
class _Share:
    """One process's share of a schedule: arrivals `index`, `index` + `count` … from `t0_wall_s` on.

    `rate` and `step` are those of a step of rate; None when the options alone tell.
    """

    index: int
    count: int
    t0_wall_s: float
    rate: float | None = None
    step: int | None = None


class OpenLoad:
    """The open load of one process: its schedule, and on the master the workers' shares."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self.schedule = Schedule()
        self.counts: Counter[str] = Counter()
        self.taken_at: Counter[int] = Counter()
        """Arrivals of the running step of rate by the second, counted from its begin, in which they were taken."""
        self._backlogs: dict[str, int] = {}
        self._shares: dict[str, _Share] = {}
        self._lost: dict[str, _Lost] = {}
        self._lost_before = 0
        self._step: int | None = None
        self._waited: int | None = None  # at the stop of this process, since nobody takes any after it
        self._started = False

    def install(self) -> None:
        """Add the listeners."""
        events = self.environment.events
        events.spawning_complete.add_listener(self._on_spawning_complete)
        events.test_stopping.add_listener(self._on_test_stopping)
        if self.session.is_worker:
            events.report_to_master.add_listener(self._on_report_to_master)
            self.environment.runner.register_message(SCHEDULE, self._on_schedule)
        elif self.session.is_master:
            events.worker_report.add_listener(self._on_worker_report)

    def begin(self) -> None:
        """A test starts in this process."""
        settings = self.session.settings
        self.schedule = Schedule(lambda: len(self.session.listener.running), settings.max_in_flight or None)
        self.counts, self.taken_at = Counter(), Counter()
        self._backlogs, self._shares, self._lost, self._started = {}, {}, {}, False
        self._lost_before, self._step, self._waited = 0, None, None

    def check(self) -> None:
        """Raise ConfigurationError when the schedule cannot be made."""
        settings = self.session.settings
        if not self.active:
            return
        if not settings.shape:
            next(_offsets(settings, self.session.run), None)
            return
        if settings.arrivals_file or settings.rate_ramp or settings.trace:
            raise ConfigurationError(
                "steps of rate set the arrivals: leave out --llm-arrivals-file, --llm-rate-ramp and --llm-trace, or"
                " --llm-shape"
            )
        if not all(getattr(user, "open_loop", False) for user in self.environment.user_classes):
            raise ConfigurationError(
                "--llm-shape takes either OpenLoopUsers (steps of rate) or other users (steps of users), not both"
            )
        next(_offsets(settings, self.session.run, _Share(0, 1, 0.0, 1.0, 0)), None)

    @property
    def active(self) -> bool:
        """Whether any user of this test sends open load."""
        return any(getattr(user, "open_loop", False) for user in self.environment.user_classes)

    @property
    def backlog(self) -> int:
        """Arrivals that are due and wait for a free user, all processes; after the stop, those that did then."""
        own = self._waited if self._waited is not None else self.schedule.backlog
        return own + sum(self._backlogs.values())

    def totals(self) -> dict[str, int]:
        """Arrivals offered so far, and of them taken, dropped and still waiting; a lost worker's share is dropped."""
        self.counts.update(self.schedule.take_counts())
        self.taken_at.update(self.schedule.take_seconds())
        lost = self._lost_before + sum(self._lost_share(worker) for worker in self.session.lost)
        dropped = self.counts[DROPPED] + lost
        waiting = self.backlog
        taken = self.counts[TAKEN]
        return {"offered": taken + dropped + waiting, "taken": taken, "dropped": dropped, "waiting": waiting}

    def told(self) -> OpenTotals:
        """The same for the outputs, with what was asked for."""
        totals, settings = self.totals(), self.session.settings
        rate_rps = settings.rate or None
        if settings.shape or settings.arrivals_file or settings.trace:
            rate_rps = None  # no rate that holds for the whole run
        return OpenTotals(
            scheduled=totals["offered"],
            sent=totals["taken"],
            dropped=totals["dropped"],
            waiting=totals["waiting"],
            rate_rps=rate_rps,
            settle_s=settings.rate_ramp,
            stepped=bool(settings.shape),
        )

    # -- the start ---------------------------------------------------------------------------------------------

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        if self._started or not self.active or self.session.is_worker or self.session.settings.shape:
            return
        self._started = True
        self._hand_out(_Share(0, 1, time.time() + LEAD_S))

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        if self._waited is None:
            self._waited = self.schedule.close()

    def _hand_out(self, whole: _Share) -> None:
        """Give every process its share of a schedule."""
        if not self.session.is_master:
            self._start(whole)
            return
        runner = self.environment.runner
        workers = sorted(client.id for client in runner.clients.all if client.state in ("running", "spawning"))
        for index, worker in enumerate(workers):
            share = self._shares[worker] = replace(whole, index=index, count=len(workers))
            runner.send_message(SCHEDULE, {"run": self.session.run, "share": asdict(share)}, worker)

    def _on_schedule(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] != self.session.run:
            return
        if msg.data["share"] is None:
            self.schedule.pause()
        else:
            self._start(_Share(**msg.data["share"]))

    def _start(self, share: _Share) -> None:
        settings = self.session.settings
        if settings.max_in_flight:
            self.schedule.limit = max(1, round(settings.max_in_flight / share.count))
        offset_ns = time.time_ns() - time.monotonic_ns()
        offsets = stripe(_offsets(settings, self.session.run, share), share.index, share.count)
        self._step = share.step
        self.schedule.start(offsets, int(share.t0_wall_s * 1e9) - offset_ns)

    # -- steps of rate: local or master ------------------------------------------------------------------------

    def pause(self) -> None:
        """End the running schedule: no more arrivals; those that wait are dropped."""
        self._lost_before += sum(self._lost_share(worker) for worker in self.session.lost)
        self._shares, self._lost = {}, {}
        if not self.session.is_master:
            self.schedule.pause()
            return
        runner = self.environment.runner
        for client in runner.clients.all:
            runner.send_message(SCHEDULE, {"run": self.session.run, "share": None}, client.id)

    def retime(self, rate_rps: float, t0_wall_s: float, step: int) -> Iterator[float]:
        """Begin the schedule of a step at `t0_wall_s`, a whole second; returns all its arrivals, as offsets from it."""
        whole = _Share(0, 1, t0_wall_s, rate_rps, step)
        self.taken_at, self._step = Counter(), step
        self._hand_out(whole)
        return _offsets(self.session.settings, self.session.run, whole)

    def taken(self) -> Counter[int]:
        """`taken_at` as far as it is known; on a master as far as its workers have reported."""
        self.taken_at.update(self.schedule.take_seconds())
        return self.taken_at

    # -- from worker to master ---------------------------------------------------------------------------------

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if self.active and self.session.run:
            data[REPORT_KEY] = {
                "run": self.session.run,
                "backlog": self.backlog,
                **self.schedule.take_counts(),
                "step": self._step,
                "seconds": dict(self.schedule.take_seconds()),
            }

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is not None and report["run"] == self.session.run:
            self._backlogs[client_id] = report["backlog"]
            self.counts.update({TAKEN: report[TAKEN], DROPPED: report[DROPPED]})
            if report["step"] == self._step:
                self.taken_at.update(report["seconds"])

    def _lost_share(self, worker: str) -> int:
        """Arrivals that a lost worker should have sent from its loss to the end of the run."""
        share = self._shares.get(worker)
        if share is None:
            return 0
        lost = self._lost.get(worker)
        if lost is None:
            mine = stripe(_offsets(self.session.settings, self.session.run, share), share.index, share.count)
            lost = self._lost[worker] = _Lost(mine, self.session.lost[worker] - share.t0_wall_s)
        stopped = self.session.stopped_wall_s
        return lost.until((stopped if stopped is not None else time.time()) - share.t0_wall_s)


class _Lost:
    """The arrivals of a lost worker, counted on from where they were counted last: outputs ask once a second."""

    def __init__(self, offsets: Iterator[float], begin_s: float) -> None:
        self._offsets = offsets
        self._begin_s = begin_s
        self._next_s = next(offsets, math.inf)
        self._count = 0

    def until(self, end_s: float) -> int:
        """How many came from the loss to `end_s`, which only grows."""
        while self._next_s < end_s:
            self._count += self._next_s >= self._begin_s
            self._next_s = next(self._offsets, math.inf)
        return self._count


def _offsets(settings: Settings, run: str, share: _Share | None = None) -> Iterator[float]:
    """The arrival process that the options, or a step of rate, ask for; raises ConfigurationError."""
    rate = share.rate if share is not None and share.rate is not None else settings.rate
    try:
        if settings.trace:
            return read_trace(settings.trace, settings.trace_speed).offsets()
        if settings.arrivals_file:
            return iter(from_file(settings.arrivals_file))
        if not rate:
            raise ConfigurationError(
                "open load needs --llm-rate (requests per second), --llm-arrivals-file or --llm-trace"
            )
        seed = run if settings.seed is None else settings.seed
        if share is not None and share.step is not None:
            seed = f"{seed} {share.step}"
        kind, burstiness = settings.arrivals or CONSTANT, settings.burstiness
        if settings.rate_ramp:
            unit = arrivals(kind, 1.0, burstiness=burstiness, seed=seed)
            return ramped(unit, settings.rate_from, rate, settings.rate_ramp)
        return arrivals(kind, rate, burstiness=burstiness, seed=seed)
    except (ArrivalsError, TraceError) as error:
        raise ConfigurationError(str(error)) from None
