"""Lifecycle: from before the first user to after the last byte, so that no ending loses what was measured.

Theory of operation. Stock Locust loses the end of a distributed run: the master stops without waiting for its workers
to drain, and their last report is lost when draining outlasts half a second. So, on the master, `test_stopping` asks
every worker to finish; each stops its users, sends its final report and then says so (messages of one worker arrive in
order, so the word comes after the numbers); the master goes on when all have, when the rest are lost, or at a deadline.
A worker that quits by itself (Ctrl-C reaches it too, SIGTERM) does the same before Locust tells the master that it is
gone. `quitting` fires before the drain on SIGTERM and Ctrl-C, so it first quits the runner, then judges the run.

Locust installs its SIGTERM handler only once a headless run with a shape, or the wait for workers, is over; ours is
there from `init` and acts only until then.

No event tells of a lost worker: `clients.missing` is polled. All messages and reports carry the run's id, since late
ones arrive after the next test has started.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
import time
from typing import Any

import gevent
import gevent.event
from locust.exception import StopTest

from locust_llm.plugin.outputs import Outputs
from locust_llm.plugin.session import Session
from locust_llm.wire.target import ConfigurationError

FINISH = "llm_finish"
FINISHED = "llm_finished"
UNREACHABLE = "llm_unreachable"
REPORT_KEY = "llm"

MARGIN_S = 5.0
POLL_S = 0.05
LAST_WORDS_S = 2.0

logger = logging.getLogger(__name__)


class Lifecycle:
    """Listens to one Environment from `init` on."""

    def __init__(self, session: Session, outputs: Outputs) -> None:
        self.session = session
        self.outputs = outputs
        self.environment = session.environment
        self.runner = session.environment.runner
        self._finished: dict[str, set[str]] = {}
        self._finishing: dict[str, gevent.event.Event] = {}
        self._prepared = False
        self._main = gevent.getcurrent()

    def install(self) -> None:
        """Add the listeners, in every process."""
        events = self.environment.events
        events.test_start.add_listener(self._on_test_start)
        events.quitting.add_listener(self._on_quitting)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        if self.session.is_worker:
            events.report_to_master.add_listener(self._on_report_to_master)
            self.runner.register_message(FINISH, self._on_finish, concurrent=True)
        elif self.session.is_master:
            events.worker_report.add_listener(self._on_worker_report)
            events.worker_connect.add_listener(self._on_worker_connect)
            self.runner.register_message(FINISHED, self._on_finished)
            self.runner.register_message(UNREACHABLE, self._on_unreachable)
            gevent.spawn(self._watch_workers)
        if not self.session.is_worker:
            gevent.signal_handler(signal.SIGTERM, self._on_sigterm)
            self._prepare_now()

    # -- the start ---------------------------------------------------------------------------------------------

    @property
    def _unattended(self) -> bool:
        """Whether the test starts by itself, so that a mistake must end the process."""
        options = self.environment.parsed_options
        return options is not None and bool(options.headless or options.autostart)

    def _prepare_now(self) -> None:
        """Headless: settle and check the target before anything starts; a mistake ends the process."""
        if not self._unattended or not self.session.hosts():
            return
        try:
            self.session.prepare()
            self.outputs.check()
        except ConfigurationError as error:
            logger.error("%s", error)
            sys.exit(1)
        self._prepared = True

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        if not self.session.is_worker and self.session.hosts():
            if not self._prepared:
                self._prepare_for_web()
            self._prepared = False
        self.session.begin()
        self.outputs.begin()
        if self.session.is_worker and not self.session.settings.no_preflight:
            gevent.spawn(self._probe)

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        self.session.listener.all_running()

    def _prepare_for_web(self) -> None:
        """Started from the web UI: a mistake ends the test, shows its sentence, and leaves the UI."""
        try:
            self.session.prepare()
            self.outputs.check()
            self._refuse_remote_workers()
        except ConfigurationError as error:
            self.runner.log_exception("locust_llm", str(error), str(error))
            raise StopTest(str(error)) from None

    def _refuse_remote_workers(self) -> None:
        if self.session.is_master:
            for client_id in self.runner.clients:
                self._refuse_if_remote(client_id)

    def _refuse_if_remote(self, client_id: str) -> None:
        """The embedded engine listens on this machine's loopback only."""
        if self.session.simulated and client_id.rsplit("_", 1)[0] != socket.gethostname():
            raise ConfigurationError(
                f"worker {client_id} runs on another machine, which cannot reach the embedded engine: give --host URL"
            )

    def _on_worker_connect(self, client_id: str, **_: Any) -> None:
        try:
            self._refuse_if_remote(client_id)
        except ConfigurationError as error:
            if self._unattended:
                logger.error("%s", error)
                gevent.kill(self._main, SystemExit(1))

    # -- the end: master ---------------------------------------------------------------------------------------

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        self.session.listener.stopping()
        self.session.stopped_wall_s = time.time()
        if self.session.is_master:
            self._gather()

    def _gather(self) -> None:
        """Ask the workers to finish, and wait for their last numbers."""
        run = self.session.run
        done = self._finished.setdefault(run, set())
        waiting = {client.id for client in self.runner.clients.all if client.state != "missing"} - done
        for client_id in waiting:
            self.runner.send_message(FINISH, {"run": run}, client_id)
        deadline = time.monotonic() + self.environment.stop_timeout + MARGIN_S
        while waiting and time.monotonic() < deadline:
            gevent.sleep(POLL_S)
            self._note_missing()
            waiting = (
                {client_id for client_id in waiting if client_id in self.runner.clients}
                - done
                - self.session.lost.keys()
            )
        for client_id in waiting:
            self._lose(client_id, "did not finish in time")
        self._finished = {run: done}

    def _on_finished(self, msg: Any, **_: Any) -> None:
        self._finished.setdefault(msg.data["run"], set()).add(msg.node_id)

    def _on_unreachable(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            logger.error("Worker %s: %s", msg.node_id, msg.data["why"])

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is not None and report["run"] == self.session.run:
            self.session.listener.merge(client_id, report)

    def _watch_workers(self) -> None:
        while True:
            gevent.sleep(1)
            self._note_missing()

    def _note_missing(self) -> None:
        if self.runner.state in ("spawning", "running", "stopping"):
            done = self._finished.get(self.session.run, set())
            for client in self.runner.clients.missing:
                if client.id not in done:
                    self._lose(client.id, "was lost")

    def _lose(self, client_id: str, how: str) -> None:
        if client_id not in self.session.lost:
            self.session.lost[client_id] = time.time()
            logger.error("Worker %s %s: the figures of this run are incomplete.", client_id, how)

    # -- the end: worker ---------------------------------------------------------------------------------------

    def _probe(self) -> None:
        """This worker's own path to the server may differ from the master's."""
        trouble = self.session.probe()
        if trouble is not None:
            logger.error("%s", trouble)
            self.runner.send_message(UNREACHABLE, {"run": self.session.run, "why": trouble})

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if self.session.run:
            data[REPORT_KEY] = {"run": self.session.run, **self.session.listener.take()}

    def _on_finish(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self._finish()
        else:  # a test that this worker never started
            self.runner.send_message(FINISHED, {"run": msg.data["run"]})

    def _finish(self) -> None:
        """Stop the users, send the last report, say so; whoever asks later waits for the same."""
        run = self.session.run
        begun = self._finishing.get(run)
        if begun is not None:
            begun.wait()
            return
        finished = self._finishing[run] = gevent.event.Event()
        try:
            self.runner.stop()
            self._await_last_words()
            # Locust sends a report every 3 s and has no public way to send one now.
            self.runner._send_stats()
            self.runner.send_message(FINISHED, {"run": run})
        finally:
            finished.set()
            self._finishing = {run: finished}

    def _await_last_words(self) -> None:
        """Greenlets that were killed note their cancelled requests as they go."""
        deadline = time.monotonic() + LAST_WORDS_S
        while self.session.listener.running and time.monotonic() < deadline:
            gevent.sleep(POLL_S)

    # -- the end: everywhere -----------------------------------------------------------------------------------

    def _on_quitting(self, environment: Any, **_: Any) -> None:
        if self.session.is_worker:
            if self.session.run:
                self._finish()
            return
        self.runner.quit()
        self._await_last_words()
        self._judge()

    def _judge(self) -> None:
        """The exit code, where Locust's own rule would call an empty or incomplete run a success."""
        if self.environment.process_exit_code is not None or not self.session.run:
            return
        if self.session.lost:
            logger.error("Incomplete run: lost %s.", ", ".join(sorted(self.session.lost)))
            self.environment.process_exit_code = 1
        elif not self.environment.stats.total.num_requests and not self.environment.stats.errors:
            logger.error("No request was completed in this run.")
            self.environment.process_exit_code = 1

    def _on_sigterm(self) -> None:
        """SIGTERM before Locust's own handler is there: while a headless shape runs, or workers are waited for."""
        options = self.environment.parsed_options
        if options is None or not options.headless:
            return
        shape = self.runner.shape_greenlet
        if shape is not None and not shape.dead:
            logger.info("Got SIGTERM signal")
            self.runner.quit()
        elif self.session.is_master and self.runner.state == "ready":
            logger.info("Got SIGTERM signal while waiting for workers")
            self.runner.quit()
            gevent.kill(self._main, SystemExit(1))
