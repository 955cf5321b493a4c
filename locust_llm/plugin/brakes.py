"""Brakes: stop a test that has sent enough, used enough tokens, or fails too often; for keys that cost money.

Theory of operation. Every process counts what it sends itself, apart from RunStats, which a reset clears. Each request
asks `admit` first: once a brake is pulled it ends its user instead, so that one process never sends more requests than
`--llm-max-requests`. In one process that brake lets the last requests end before the test stops; the others stop it at
once, as `--run-time` does, and `--stop-timeout` says what becomes of the requests under way.

Workers send their counts with Locust's reports (every 3 s), and a worker that pulls a brake by itself tells the master
at once; the master adds up and stops the test for all. So together they may overshoot by what they send in 3 s. The
preflight's request and --llm-warmup are not counted.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import gevent
from locust.exception import StopUser

from locust_llm.measure.record import Outcome, RequestRecord

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

BRAKE: Final = "llm_brake"
REPORT_KEY: Final = "llm_brakes"
LAST: Final = 50
"""Outcomes that --llm-stop-on-errors looks back on."""

logger = logging.getLogger(__name__)


class Brakes:
    """Those of one process; on a master, of all. `reason` is None until one is pulled, then a sentence."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self.reason: str | None = None
        self.failing = False
        self._started = 0
        self._ended = 0
        self._tokens = 0
        self._last: deque[bool] = deque(maxlen=LAST)
        self._untold: deque[bool] = deque(maxlen=LAST)
        self._workers: dict[str, tuple[int, int]] = {}
        self._stopping = False

    def install(self) -> None:
        """Add the listeners."""
        events, runner = self.environment.events, self.environment.runner
        self.session.listener.on_ended.append(self._on_ended)
        self.session.listener.on_tick.append(self._check_tokens)
        if self.session.is_worker:
            events.report_to_master.add_listener(self._on_report_to_master)
        elif self.session.is_master:
            events.worker_report.add_listener(self._on_worker_report)
            runner.register_message(BRAKE, self._on_brake)

    def begin(self) -> None:
        """A test starts in this process."""
        self.reason, self.failing, self._stopping = None, False, False
        self._started = self._ended = self._tokens = 0
        self._last.clear()
        self._untold.clear()
        self._workers = {}

    def admit(self) -> None:
        """A request is about to be sent; raises StopUser when it must not."""
        if self.reason is None and self._limit and self._started >= self._limit:
            self._pull(f"{self._started} requests were sent (--llm-max-requests)", at_once=False)
        if self.reason is not None:
            raise StopUser
        self._started += 1

    @property
    def _limit(self) -> int:
        return self.session.settings.max_requests

    # -- counting ----------------------------------------------------------------------------------------------

    def _on_ended(self, record: RequestRecord, user: int) -> None:
        output = record.output_tokens if record.output_tokens is not None else len(record.event_ns)
        self._tokens += output + (record.input_tokens or 0)
        self._ended += 1
        if record.outcome is not Outcome.CANCELLED:
            self._untold.append(record.outcome is Outcome.FAILED)
            self._note_outcomes([record.outcome is Outcome.FAILED])
        self._check_tokens()
        self._check_requests()

    def _check_requests(self) -> None:
        """In one process: the last request has ended."""
        limit = self._limit
        if limit and self._started >= limit and self._ended >= self._started and not self.session.is_worker:
            self._pull(f"{self._started} requests were sent (--llm-max-requests)")

    def _check_tokens(self) -> None:
        limit = self.session.settings.max_total_tokens
        if limit and (used := self._used()) >= limit:
            self._pull(f"{used} tokens were used (--llm-max-total-tokens {limit})")

    def _used(self) -> int:
        """Tokens of ended requests as told, and the output events of running ones, whose tokens nobody has told."""
        running = sum(len(timeline.event_ns) for timeline in self.session.listener.running)
        return self._tokens + running + sum(tokens for _, tokens in self._workers.values())

    def _note_outcomes(self, failed: list[bool]) -> None:
        share = self.session.settings.stop_on_errors
        if share is None or self.reason is not None:
            return
        self._last.extend(failed)
        failures = sum(self._last)
        if failures >= math.ceil(share * LAST - 1e-9):
            self.failing = True
            self._pull(
                f"{failures} of the last {len(self._last)} requests failed (--llm-stop-on-errors {100 * share:.6g}%)"
            )

    # -- from worker to master ---------------------------------------------------------------------------------

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if self.session.run:
            told = [self._started, self._used(), list(self._untold)]
            data[REPORT_KEY] = {"run": self.session.run, "told": told}
            self._untold.clear()

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is None or report["run"] != self.session.run:
            return
        started, tokens, failed = report["told"]
        self._workers[client_id] = (started, tokens)
        self._note_outcomes(failed)
        self._check_tokens()
        total = sum(started for started, _ in self._workers.values())
        if self._limit and total >= self._limit:
            self._pull(f"{total} requests were sent (--llm-max-requests {self._limit})")

    def _on_brake(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self.failing = self.failing or msg.data["failing"]
            self._pull(msg.data["reason"])

    # -- stopping ----------------------------------------------------------------------------------------------

    def _pull(self, what: str, *, at_once: bool = True) -> None:
        """Pull a brake, once; `at_once` False: the test is stopped when the requests under way have ended."""
        if self.reason is None:
            self.reason = f"Stopped: {what}."
            logger.warning("%s", self.reason)
            if self.session.is_worker:
                message = {"run": self.session.run, "reason": what, "failing": self.failing}
                self.environment.runner.send_message(BRAKE, message)
        if at_once and not self._stopping and not self.session.is_worker:
            self._stopping = True
            gevent.spawn(self._stop)

    def _stop(self) -> None:
        """As --run-time does; a headless shape ends the process by itself when its greenlet ends."""
        runner, options = self.environment.runner, self.environment.parsed_options
        shape = runner.shape_greenlet
        if options is None or not options.headless:
            runner.stop()
        elif shape is not None and not shape.dead:
            shape.kill(block=False)
        else:
            runner.quit()
