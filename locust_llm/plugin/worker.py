"""The worker's side of a run: check its own path before the load, hand everything over at the end.

Theory of operation. Before a test the master sends CHECK with our settled options; the worker answers with CHECKED and
what is wrong, if anything (a key or a prompt file that is not on this machine, a server it does not reach). At the end
the master sends FINISH: the worker stops its users, sends its last report and then FINISHED; messages arrive in order,
so the word comes after the numbers. A worker that quits by itself (Ctrl-C reaches it too, SIGTERM) does the same before
Locust tells the master that it is gone.

Until the next CHECK the worker takes no users: while the workers finish one after the other, the master may still be
spawning, or move the users of those that have left to those that are about to.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from typing import Any

import gevent
from locust import argument_parser

from locust_llm.plugin.session import Session
from locust_llm.wire.target import ConfigurationError

CHECK = "llm_check"
CHECKED = "llm_checked"
FINISH = "llm_finish"
FINISHED = "llm_finished"
REPORT_KEY = "llm"
OUR_OPTIONS = "llm_"

POLL_S = 0.05
LAST_WORDS_S = 2.0

logger = logging.getLogger(__name__)


class Worker:
    """This process as a worker, from `init` on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self.runner = session.environment.runner
        self._finishing: dict[str, gevent.Greenlet] = {}

    def install(self) -> None:
        """Listen to the master."""
        # For each option of each spawn message Locust's worker makes all of its options anew: together half a second
        # and more, in which no stream is read and no heartbeat sent.
        argument_parser.default_args_dict = functools.cache(argument_parser.default_args_dict)
        self.environment.events.report_to_master.add_listener(self._on_report_to_master)
        self.runner.register_message(CHECK, self._on_check, concurrent=True)
        self.runner.register_message(FINISH, self._on_finish, concurrent=True)

    # -- before a test -----------------------------------------------------------------------------------------

    def _on_check(self, msg: Any, **_: Any) -> None:
        self.runner.last_received_spawn_timestamp = 0
        if self.environment.parsed_options is not None:
            vars(self.environment.parsed_options).update(msg.data["options"])
        try:
            trouble = self.session.probe(msg.data["hosts"])
        except ConfigurationError as error:
            trouble = str(error)
        if trouble is not None:
            logger.error("%s", trouble)
        self.runner.send_message(CHECKED, {"run": msg.data["run"], "trouble": trouble})

    # -- during a test -----------------------------------------------------------------------------------------

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        if self.session.run:
            data[REPORT_KEY] = {"run": self.session.run, **self.session.listener.take()}

    # -- the end -----------------------------------------------------------------------------------------------

    def _on_finish(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] != self.session.run:  # a test that this worker never started
            self.runner.send_message(FINISHED, {"run": msg.data["run"]})
            return
        if msg.data["now"]:
            self.runner.user_greenlets.kill(block=False)
        self.finish()

    def finish(self) -> None:
        """Stop the users, send the last report, say so; whoever asks later waits for the same."""
        run = self.session.run
        if not run:
            return
        if run not in self._finishing:
            self._finishing = {run: gevent.spawn(self._finish, run)}
        self._finishing[run].join()

    def _finish(self, run: str) -> None:
        self.runner.last_received_spawn_timestamp = math.inf
        self.runner.stop()
        await_last_words(self.session)
        # Told to stop by the master, Locust's worker sleeps that long before it is ready again; all have finished by
        # then. The next test's spawn message sets it anew.
        self.environment.stop_timeout = 0.0
        # Locust sends a report every 3 s and has no public way to send one now.
        self.runner._send_stats()
        self.runner.send_message(FINISHED, {"run": run})


def await_last_words(session: Session) -> None:
    """Greenlets that were killed note their cancelled requests as they go."""
    deadline = time.monotonic() + LAST_WORDS_S
    while session.listener.running and time.monotonic() < deadline:
        gevent.sleep(POLL_S)
