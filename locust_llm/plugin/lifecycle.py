"""Lifecycle: from before the first user to after the last byte, so that no ending loses what was measured.

Theory of operation. The target is settled and checked before any load: headless in `init`, where a mistake ends the
process; from the web UI in `test_start`, where it ends the test and leaves the UI. `quitting` fires before the drain on
SIGTERM and Ctrl-C, so it first quits the runner, then judges the run and sets the exit code, which Locust reads right
after it. What makes the end whole in a distributed run is told in `master` and `worker`, signals in `interrupts`.
"""

from __future__ import annotations

import inspect
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import gevent
import gevent.event

from locust_llm.plugin.interrupts import Interrupts
from locust_llm.plugin.master import Master
from locust_llm.plugin.outputs import Outputs
from locust_llm.plugin.session import Session
from locust_llm.plugin.worker import Worker, await_last_words
from locust_llm.wire.target import ConfigurationError

logger = logging.getLogger(__name__)


class Lifecycle:
    """Listens to one Environment from `init` on."""

    def __init__(self, session: Session, outputs: Outputs) -> None:
        self.session = session
        self.outputs = outputs
        self.environment = session.environment
        self.runner = session.environment.runner
        self._master = Master(session) if session.is_master else None
        self._worker = Worker(session) if session.is_worker else None
        self._interrupts = session.gates.interrupts = Interrupts(self._early)
        self._preparing = False
        self._prepared = False
        self._quitting: Any = None

    def install(self) -> None:
        """Add the listeners, in every process."""
        events = self.environment.events
        events.test_start.add_listener(self._on_test_start)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.quitting.add_listener(self._on_quitting)
        if self.environment.parsed_options is not None:  # the locust command, not a program that uses Locust
            self._interrupts.install(sigterm=self._worker is None)
        # Locust looks at the stack whenever a test is stopped; the first time that takes 0.2 s, with no stream read.
        inspect.stack()
        # gevent's clock has stood still while everything was imported; --run-time would be that much shorter.
        gevent.get_hub().loop.update_now()
        if self._worker is not None:
            self._worker.install()
            return
        if self._master is not None:
            self._master.install()
            events.worker_connect.add_listener(self._on_worker_connect)
        if self._unattended:
            self._prepare_now()

    # -- the start ---------------------------------------------------------------------------------------------

    @property
    def _headless(self) -> bool:
        options = self.environment.parsed_options
        return options is not None and bool(options.headless)

    @property
    def _unattended(self) -> bool:
        """Whether the test starts by itself, so that a mistake must end the process."""
        options = self.environment.parsed_options
        return options is not None and bool(options.headless or options.autostart)

    def _prepare_now(self) -> None:
        """In `init`: settle and check the target before anything starts; a mistake ends the process."""
        self._preparing = True
        try:
            self._prepare()
        except ConfigurationError as error:
            logger.error("%s", error)
            if self._master is not None:
                self._master.turn_away()
            sys.exit(self.session.gates.failure_code)
        finally:
            self._preparing = False
        self._prepared = True

    def _prepare(self) -> None:
        self.session.prepare()
        self.outputs.check()
        if self._master is not None:
            self._master.refuse_remote(list(self.runner.clients))

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        try:
            if self._worker is None and not self._prepared:
                self._prepare()
            self._prepared = False
            if self._master is not None:
                self._master.check()
            self.session.begin()
            self.outputs.begin()
        except ConfigurationError as error:
            self._abort(str(error))

    def _abort(self, sentence: str) -> None:
        """End the test that was about to start, show why, and leave the web UI.

        Not by StopTest, which Locust takes for a crash: a traceback, and on a master a test that never ends.
        """
        logger.error("%s", sentence)
        if self._worker is not None:  # it came late, with the load already on: leave as on Ctrl-C
            self._interrupts.raise_in_main(KeyboardInterrupt())
            raise gevent.GreenletExit
        self.runner.log_exception("locust_llm", sentence, sentence)
        self.runner.update_state("stopped")
        shape, self.runner.shape_greenlet, self.runner.shape_last_tick = self.runner.shape_greenlet, None, None
        if shape is not None and shape is not gevent.getcurrent():
            shape.kill(block=False)
        self.runner._users_dispatcher = None
        self.environment.events.test_stop.fire(environment=self.environment)
        if self._headless:
            self.environment.process_exit_code = self.session.gates.failure_code
            gevent.spawn(self._master.dismiss if self._master is not None else self.runner.quit)
        raise gevent.GreenletExit

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        self.session.listener.all_running()

    def _on_worker_connect(self, client_id: str, **_: Any) -> None:
        assert self._master is not None
        try:
            self._master.refuse_remote([client_id])
        except ConfigurationError as error:
            logger.error("%s", error)
            if self._unattended:
                gevent.spawn(self._give_up)

    # -- the end -----------------------------------------------------------------------------------------------

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        if self.session.stopped_wall_s is None:
            self.session.gates.note_stop()
        self.session.listener.stopping()
        if self.session.stopped_wall_s is None:
            self.session.stopped_wall_s = time.time()
        if self._master is not None:
            self._master.gather()

    def _on_quitting(self, environment: Any, **_: Any) -> None:
        self._enter_only_once()
        if self._worker is not None:
            self._end(self._worker.finish)
            return
        self._end(self._master.dismiss if self._master is not None else self.runner.quit)
        await_last_words(self.session)
        self._judge()

    def _enter_only_once(self) -> None:
        """Locust's handler of SIGTERM shuts down in a greenlet of its own, and the end of the runner makes the main
        greenlet do the same beside it. Whoever comes second waits here for the first to exit the process."""
        if self._quitting is None:
            self._quitting = gevent.getcurrent()
        while self._quitting is not gevent.getcurrent():
            try:
                gevent.event.Event().wait()
            except KeyboardInterrupt:
                self._hurry()

    def _end(self, end: Callable[[], None]) -> None:
        """Run `end` to its end; another Ctrl-C meanwhile cuts off what still runs."""
        ending = gevent.spawn(end)
        while not ending.ready():
            try:
                ending.join()
            except KeyboardInterrupt:
                self._hurry()

    def _hurry(self) -> None:
        logger.warning("Interrupted again: what still runs is cut off.")
        if self._master is not None:
            self._master.hurry()
        else:
            self.runner.user_greenlets.kill(block=False)

    def _judge(self) -> None:
        """The exit code: the gates' alone where there are any; else where Locust's own rule would call an empty or
        incomplete run a success."""
        if self._unattended and self.session.gates.exit_code is not None:
            self.environment.process_exit_code = self.session.gates.exit_code
            return
        if self.environment.process_exit_code is not None or not self.session.run:
            return
        if self.session.lost:
            logger.error("Incomplete run: lost %s.", ", ".join(sorted(self.session.lost)))
            self.environment.process_exit_code = 1
        elif self.session.targets.hosts() and not self.environment.stats.total.num_requests and not self.runner.errors:
            logger.error("No request was completed in this run.")
            self.environment.process_exit_code = 1

    def _early(self) -> bool:
        """A signal came: act on it where Locust itself would not end well, and tell whether that was so."""
        waits_for_workers = self._headless and self._master is not None and self.runner.state == "ready"
        if self._preparing or waits_for_workers:
            gevent.spawn(self._give_up)
            return True
        shape = self.runner.shape_greenlet
        if self._headless and shape is not None and not shape.dead:
            self._interrupts.raise_in_main(KeyboardInterrupt())
            return True
        return False

    def _give_up(self) -> None:
        """Leave before any load was sent."""
        if self._master is not None:
            self._master.dismiss()
        self._interrupts.raise_in_main(SystemExit(1))
