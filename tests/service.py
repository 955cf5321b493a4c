"""A server process of the tests: started in a session of its own, known by its READY line, stopped by its pid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# What the machine's owner set for their own work must not steer a test: endpoints, keys, proxies, Locust options.
_FOREIGN_PREFIXES = ("OPENAI_", "ANTHROPIC_", "LOCUST_")
READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 5.0
_POLL_S = 0.02


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The machine's environment without what would steer Locust or us, HOME at `home`, and `extra` on top."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(_FOREIGN_PREFIXES) and not name.upper().endswith("_PROXY")
    }
    # A home of its own hides ~/.locust.conf and ~/.netrc.
    return kept | {"HOME": str(home), "PYTHONUNBUFFERED": "1"} | dict(extra or {})


def free_port() -> int:
    """A loopback TCP port that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL everything left in the session that `process` leads, and reap `process`. Never raises."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_DEADLINE_S)


@dataclass(slots=True)
class Service:
    """A running server. `url` is what its READY line said; `log_path` has its stdout and stderr."""

    name: str
    argv: Sequence[str]
    process: subprocess.Popen[bytes]
    url: str
    log_path: Path
    environment: Mapping[str, str]

    @classmethod
    def start(cls, name: str, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Service:
        """Start `argv` in `folder` and wait for "READY URL"; AssertionError with its log if none comes in time."""
        log_path = folder / f"{name}-{time.monotonic_ns()}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        try:
            url = _await_ready(name, process, log_path)
        except BaseException:
            kill_group(process)
            raise
        return cls(name, argv, process, url, log_path, environment)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def stop(self) -> int:
        """SIGTERM, then SIGKILL if it stays; the exit code. Stopping what has ended is fine."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_DEADLINE_S)
        kill_group(self.process)
        return self.process.returncode

    def kill(self) -> None:
        """SIGKILL: open connections break off in the middle, as when an engine crashes."""
        kill_group(self.process)


def _await_ready(name: str, process: subprocess.Popen[bytes], log_path: Path) -> str:
    deadline = time.monotonic() + READY_DEADLINE_S
    while True:
        ended = process.poll() is not None
        for line in log_path.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("READY ") and line.endswith("\n"):
                return line.split()[1].rstrip("/")
        if ended or time.monotonic() > deadline:
            what = f"ended with {process.returncode}" if ended else f"was not ready after {READY_DEADLINE_S:.0f} s"
            raise AssertionError(f"{name} {what}:\n{log_path.read_text(errors='replace')[-4000:]}")
        time.sleep(_POLL_S)
