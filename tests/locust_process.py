"""Locust as its users run it: the real command in processes of its own, never left behind.

Each process leads a session of its own, so that whatever it forks (`--processes`) can be found and ended with it.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from tests.service import clean_environment, free_port, kill_group

LOCUST = Path(sys.executable).with_name("locust")
CSV_PREFIX = "run"
_ORPHAN_GRACE_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class LocustResult:
    """What a Locust process left: exit code (negative: the signal that ended it), output, CSV files, orphans."""

    exit_code: int
    stdout: str
    stderr: str
    folder: Path
    orphans: tuple[str, ...]  # command lines of what outlived it by _ORPHAN_GRACE_S in its session, then killed

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    def csv_rows(self, kind: str) -> list[dict[str, str]]:
        """The rows of Locust's CSV file of that kind: "stats", "failures", "exceptions" or "stats_history"."""
        with (self.folder / f"{CSV_PREFIX}_{kind}.csv").open(newline="") as lines:
            return list(csv.DictReader(lines))

    def csv_row(self, kind: str, **wanted: str) -> dict[str, str]:
        """The one row whose cells are as wanted: `csv_row("stats", Type="E2E", Name="chat")`."""
        rows = [row for row in self.csv_rows(kind) if all(row[name] == cell for name, cell in wanted.items())]
        assert len(rows) == 1, f"{len(rows)} rows with {wanted} in {kind}: {self.csv_rows(kind)}"
        return rows[0]


@dataclass(slots=True)
class LocustProcess:
    """A running Locust. `wait` gives its result; leaving the `with` block kills what still runs."""

    process: subprocess.Popen[bytes]
    folder: Path
    _name: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def stdout(self) -> str:
        return (self.folder / f"{self._name}.stdout").read_text(errors="replace")

    def stderr(self) -> str:
        return (self.folder / f"{self._name}.stderr").read_text(errors="replace")

    def send_signal(self, signum: int) -> None:
        """To the process alone, as `kill` does."""
        self.process.send_signal(signum)

    def interrupt(self) -> None:
        """Ctrl-C as a terminal sends it: SIGINT to every process of the session."""
        os.killpg(self.pid, signal.SIGINT)

    def await_output(self, text: str, *, timeout_s: float = 30.0) -> None:
        """Return once `text` stands in its output; AssertionError with the output if it ends or is late."""
        deadline = time.monotonic() + timeout_s
        while True:
            ended = self.process.poll() is not None
            if text in self.stdout() or text in self.stderr():
                return
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"locust did not say {text!r}:\n{self.stdout()}\n{self.stderr()}")
            time.sleep(_POLL_S)

    def wait(self, timeout_s: float = 60.0) -> LocustResult:
        """Wait for its end and that of its children; AssertionError with its output if it takes longer."""
        try:
            exit_code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            late = f"locust still ran after {timeout_s:.0f} s:\n{self.stdout()}\n{self.stderr()}"
            raise AssertionError(late) from None
        deadline = time.monotonic() + _ORPHAN_GRACE_S
        while (orphans := self._left()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.kill()
        return LocustResult(exit_code, self.stdout(), self.stderr(), self.folder, orphans)

    def _left(self) -> tuple[str, ...]:
        """The command lines of the processes of its session that are still there. A zombie has ended."""
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(process.cmdline()))
        return tuple(left)

    def kill(self) -> None:
        kill_group(self.process)

    def __enter__(self) -> LocustProcess:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.kill()


def start_locust(
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    name: str = "locust",
) -> LocustProcess:
    """Start `locust *args` in `cwd` with the cleaned environment plus `env`; its output goes to files there.

    Locust's CSV files are written there too, with the prefix CSV_PREFIX, unless `args` are a worker's. A master of
    `--processes` gets a port of its own, so that several run side by side.
    """
    argv = [str(LOCUST), *args]
    if "--processes" in args and "--master-bind-port" not in args:
        port = str(free_port())
        argv += ["--master-bind-port", port, "--master-port", port]
    if "--worker" not in args and "--csv" not in args:
        argv += ["--csv", CSV_PREFIX]
    with (cwd / f"{name}.stdout").open("wb") as out, (cwd / f"{name}.stderr").open("wb") as err:
        process = subprocess.Popen(
            argv, cwd=cwd, env=clean_environment(cwd, env), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
    return LocustProcess(process, cwd, name)


def run_locust(
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> LocustResult:
    """Run `locust *args` to its end; AssertionError if that takes longer or leaves processes behind."""
    with start_locust(args, cwd=cwd, env=env) as locust:
        result = locust.wait(timeout_s)
    assert not result.orphans, f"locust left processes behind: {result.orphans}\n{result.output}"
    return result


@dataclass(slots=True)
class LocustCluster:
    """A master and its workers, each a `locust` process of its own, on this machine."""

    master: LocustProcess
    workers: list[LocustProcess] = field(default_factory=list)

    def wait(self, timeout_s: float = 60.0) -> tuple[LocustResult, list[LocustResult]]:
        """The results of the master and of the workers, in their order."""
        return self.master.wait(timeout_s), [worker.wait(timeout_s) for worker in self.workers]

    def kill(self) -> None:
        for process in (self.master, *self.workers):
            process.kill()

    def __enter__(self) -> LocustCluster:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.kill()


def start_cluster(
    locustfile: str,
    args: Sequence[str],
    *,
    cwd: Path,
    workers: int = 2,
    env: Mapping[str, str] | None = None,
) -> LocustCluster:
    """Start a master with `args` and that many workers of `locustfile`, joined over a free loopback port."""
    port = str(free_port())
    master_args = ["-f", locustfile, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port]
    master_args += ["--expect-workers", str(workers), "--expect-workers-max-wait", "30", *args]
    worker_args = ["-f", locustfile, "--worker", "--master-host", "127.0.0.1", "--master-port", port]
    cluster = LocustCluster(start_locust(master_args, cwd=cwd, env=env, name="master"))
    try:
        for number in range(1, workers + 1):
            cluster.workers.append(start_locust(worker_args, cwd=cwd, env=env, name=f"worker{number}"))
    except BaseException:
        cluster.kill()
        raise
    return cluster
