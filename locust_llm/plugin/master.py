"""The master's side of a run: no load before every worker is able to send it, no end before every worker has told all.

Theory of operation. Stock Locust loses the end of a distributed run: the master stops without waiting for its workers
to drain, and their last report is lost when draining outlasts half a second. So `gather` (at `test_stopping`) asks
every worker to finish and waits until all have said so, the rest are lost, or a deadline has passed. No event tells of
a lost worker: `clients.missing` is polled, and one that comes back is no longer lost. All messages carry the run's id,
since late ones arrive after the next test has started. What the workers do is told in `worker`.
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from typing import Any

import gevent
import psutil
from locust.rpc import Message

from locust_llm.plugin.session import Session
from locust_llm.plugin.worker import CHECK, CHECKED, FINISH, FINISHED, OUR_OPTIONS, POLL_S, REPORT_KEY
from locust_llm.wire.target import ConfigurationError

MARGIN_S = 5.0
"""How much longer than --stop-timeout a worker may take to finish."""

logger = logging.getLogger(__name__)


class Master:
    """This process as a master, from `init` on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self.runner = session.environment.runner
        self._checked: dict[str, str | None] = {}
        self._finished: set[str] = set()
        self._asked: set[str] = set()
        self._open = False

    def install(self) -> None:
        """Listen to the workers."""
        self.environment.events.worker_report.add_listener(self._on_worker_report)
        self.runner.register_message(CHECKED, self._on_checked)
        self.runner.register_message(FINISHED, self._on_finished)
        self.runner.greenlet.spawn(self._watch)

    # -- before a test -----------------------------------------------------------------------------------------

    def refuse_remote(self, client_ids: list[str]) -> None:
        """The embedded engine listens on this machine's loopback only; raises ConfigurationError."""
        for client_id in client_ids:
            if self.session.simulated and client_id.rsplit("_", 1)[0] != socket.gethostname():
                raise ConfigurationError(
                    f"worker {client_id} runs on another machine, which cannot reach the embedded engine: give --host"
                    " URL"
                )

    def check(self) -> None:
        """Let every worker check its own path to the targets; raises ConfigurationError with the first trouble."""
        self._checked, self._finished, self._asked = {}, set(), set()
        self.session.workload.divide(self._present())
        options = vars(self.environment.parsed_options) if self.environment.parsed_options is not None else {}
        ours = {name: value for name, value in options.items() if name.startswith(OUR_OPTIONS)}
        asked = self._present()
        for client_id in asked:
            self.runner.send_message(
                CHECK, {"run": self.session.run, "hosts": self.session.targets.hosts(), "options": ours}, client_id
            )
        patience_s = (self.session.settings.connect_timeout or MARGIN_S) + self.session.workload.reading_s
        deadline = time.monotonic() + patience_s + MARGIN_S
        while (asked & self._present()) - self._checked.keys() and time.monotonic() < deadline:
            gevent.sleep(POLL_S)
        for client_id, trouble in self._checked.items():
            if trouble is not None:
                raise ConfigurationError(f"worker {client_id}: {trouble}")
        self._open = True

    def _on_checked(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self._checked[msg.node_id] = msg.data["trouble"]

    # -- during a test -----------------------------------------------------------------------------------------

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is not None and report["run"] == self.session.run:
            self.session.listener.merge(client_id, report)

    def _watch(self) -> None:
        while True:
            gevent.sleep(1)
            self._note_missing()

    def _note_missing(self) -> None:
        """Keep `session.lost` up to date while a test is on."""
        if not self._open:
            return
        for client in self.runner.clients.all:
            if client.state != "missing":
                if self.session.lost.pop(client.id, None) is not None:
                    logger.warning("Worker %s is back.", client.id)
            elif client.id not in self._finished:
                self._lose(client.id, "was lost")

    def _lose(self, client_id: str, how: str) -> None:
        if client_id not in self.session.lost:
            self.session.lost[client_id] = time.time()
            logger.error("Worker %s %s: the figures of this run are incomplete.", client_id, how)

    # -- the end -----------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Ask the workers to finish, and wait for their last numbers."""
        deadline = time.monotonic() + self.environment.stop_timeout + MARGIN_S
        while True:
            self._note_missing()
            waiting = self._present() - self._finished
            self._ask_to_finish(waiting - self._asked)
            if not waiting or time.monotonic() > deadline:
                break
            gevent.sleep(POLL_S)
        for client_id in waiting:
            self._lose(client_id, "did not finish in time")
        self._open = False

    def hurry(self) -> None:
        """Have the workers cut off what still runs."""
        self._ask_to_finish(self._present() - self._finished, now=True)

    def _ask_to_finish(self, client_ids: set[str], *, now: bool = False) -> None:
        for client_id in client_ids:
            self._asked.add(client_id)
            self.runner.send_message(FINISH, {"run": self.session.run, "now": now}, client_id)

    def _on_finished(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self._finished.add(msg.node_id)

    def dismiss(self) -> None:
        """Tell every worker to quit, also those that Locust does not count just now: after the UI's stop button they
        are unknown to it for the length of the stop timeout."""
        for client_id in self.runner.worker_indexes:
            if client_id not in self.runner.clients:
                self.runner.server.send_to_client(Message("quit", None, client_id))
        self.runner.quit()

    def turn_away(self) -> None:
        """Dismiss the workers, and end those of `--processes` that are still on their way and could not be told.

        Locust means to interrupt what it forked, but takes a child that still runs for one that has ended; it would
        go on asking for this master for minutes. Nothing has been measured yet that SIGTERM could lose.
        """
        self.dismiss()
        if self.environment.parsed_options.processes:
            for child in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    child.terminate()

    def _present(self) -> set[str]:
        return {client.id for client in self.runner.clients.all if client.state != "missing"}
