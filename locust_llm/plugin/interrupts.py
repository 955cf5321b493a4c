"""Signals: an interrupted run still has whole figures.

Theory of operation. Python raises KeyboardInterrupt in whatever code runs when Ctrl-C comes: in the middle of reading a
stream, whose bytes are then lost, or of counting a request. So the handler of SIGINT raises it in the main greenlet
alone, at the point where that waits, which is where Locust expects it. The first ends the run, the second cuts off what
still runs (see lifecycle), further ones raise at once, as Python does.

Locust installs its handler of SIGTERM only once a headless run with a shape, or the wait for workers, is over. Ours is
there from `init` and acts only until then.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from types import FrameType

import gevent

PATIENCE = 2
"""How many Ctrl-C are raised in the main greenlet."""

logger = logging.getLogger(__name__)


class Interrupts:
    """Handles SIGINT and SIGTERM of a `locust` process; made in its main greenlet.

    `early()` acts on a signal where Locust itself would not end well just now, and tells whether it did. `terminated`:
    SIGTERM came, whoever acted on it.
    """

    def __init__(self, early: Callable[[], bool]) -> None:
        self._main = gevent.getcurrent()
        self._early = early
        self._interrupts = 0
        self.terminated = False

    def install(self, *, sigterm: bool) -> None:
        """Take SIGINT over, where nobody else has, and SIGTERM if that is wanted."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_sigint)
        if sigterm:
            gevent.signal_handler(signal.SIGTERM, self._on_sigterm)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C came."""
        return self._interrupts > 0

    def raise_in_main(self, error: BaseException) -> None:
        """Raise `error` in the main greenlet as soon as that waits."""
        gevent.kill(self._main, error)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > PATIENCE:
            signal.default_int_handler(signum, frame)
        if not self._early():
            self.raise_in_main(KeyboardInterrupt())

    def _on_sigterm(self) -> None:
        self.terminated = True
        if self._early():
            logger.info("Got SIGTERM signal")
