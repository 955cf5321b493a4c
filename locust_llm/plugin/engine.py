"""The embedded engine: started in a process of its own, it lives as long as Locust."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys

import gevent.socket

from locust_llm.wire.target import ConfigurationError

READY_WITHIN_S = 20.0
logger = logging.getLogger(__name__)


class EmbeddedEngine:
    """The `locust_llm.sim` server on a free loopback port. It ends when our end of its standard input closes, so even
    `kill -9` of Locust leaves none behind."""

    def __init__(self, arguments: tuple[str, ...] = ()) -> None:
        # unbuffered, so that waiting for a line waits for the pipe only
        self.command = (sys.executable, "-m", "locust_llm.sim", "--port", "0", "--end-with-stdin", *arguments)
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
        )
        try:
            self.url = self._wait_until_ready()
        except BaseException:  # the UI's stop button kills the greenlet that starts a test
            self.stop()
            raise
        atexit.register(self._let_go)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        line = b""
        try:
            while b"\n" not in line:
                gevent.socket.wait_read(descriptor, timeout=READY_WITHIN_S)
                data = os.read(descriptor, 4096)
                line += data
                if not data:
                    raise ConfigurationError(
                        "the embedded engine ended before it was ready; try `locust-llm sim` alone"
                    )
        except TimeoutError:
            raise ConfigurationError(f"the embedded engine was not ready within {READY_WITHIN_S:g} s") from None
        word, _, url = line.decode().partition(" ")
        if word != "READY":
            raise ConfigurationError(f"the embedded engine said {line[:80]!r} instead of READY")
        return url.split()[0]

    def _let_go(self) -> None:
        """End it without waiting for that: waiting would run Locust's greenlets on, whose files are closed by now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._let_go()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
