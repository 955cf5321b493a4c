"""Runs a calibration: the engine and a real headless `locust`, each a process of its own, and what they find."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from locust_llm.analysis.calibration import Level
from locust_llm.cli.calibrate_plan import VARIABLE, Plan

TTFT_MS: Final = 100
GAP_MS: Final = 20
ANSWER_TOKENS: Final = 64
RAMP_S: Final = 0.8
MODES: Final = ("even", "bursts")

READY_WITHIN_S: Final = 20.0
LEVEL_WITHIN_S: Final = 30.0
END_WITHIN_S: Final = 20.0

Progress = Callable[[str, int], None]
"""Told of each (mode, streams) that begins."""


class CalibrationError(Exception):
    """Calibrating did not work; the message is one sentence."""


def calibrate(mode: str, streams: Sequence[int], window_s: int, progress: Progress) -> list[Level]:
    """The levels of one mode, rising, as far as they told something; raises CalibrationError."""
    with _engine(mode) as url, tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        plan = Plan(url, mode, streams, window_s, writing, ANSWER_TOKENS, GAP_MS, RAMP_S)
        log = Path(folder) / "locust.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                _locust(plan),
                cwd=folder,
                env=environment(folder) | {VARIABLE: plan.text()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing,),
            )
        os.close(writing)
        try:
            levels = list(_levels(reading, mode, window_s, progress))
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            os.close(reading)
            _end(process)
        if not levels:
            raise CalibrationError(f"locust measured nothing; it said: {_last_words(log)}")
        return levels


def environment(home: str) -> dict[str, str]:
    """The environment of a process that the user's own settings for Locust and for endpoints must not steer."""
    foreign = ("LOCUST_", "OPENAI_", "ANTHROPIC_", "COVERAGE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(foreign) and not name.upper().endswith("_PROXY")
    }
    return kept | {"HOME": home, "PYTHONUNBUFFERED": "1"}


def _locust(plan: Plan) -> list[str]:
    users = str(plan.streams[0])
    file = str(Path(__file__).with_name("calibrate_users.py"))
    return [
        sys.executable, "-m", "locust", "-f", file, "--headless", "--host", plan.engine_url, "-u", users, "-r", users,
        "--stop-timeout", "10", "--only-summary", "--loglevel", "WARNING", "--exit-code-on-error", "0",
        "--llm-model", "sim",
    ]  # fmt: skip


@contextmanager
def _engine(mode: str) -> Iterator[str]:
    """The URL of a fresh engine; it ends with its standard input, so that even `kill -9` leaves none behind."""
    command = [sys.executable, "-m", "locust_llm.cli.calibrate_engine", "--profile", "steady", "--decode-ms"]
    command += [str(GAP_MS), "--entry-ms", str(TTFT_MS), "--emit-send-time", "--end-with-stdin"]
    if mode == "even":
        command.append("--spread")
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert engine.stdin is not None
    assert engine.stdout is not None
    try:
        word, _, url = next(_lines(engine.stdout.fileno(), READY_WITHIN_S), b"").decode().partition(" ")
        if word != "READY":
            raise CalibrationError("the engine did not start; try `locust-llm sim` alone")
        yield url.strip()
    finally:
        engine.stdin.close()
        _end(engine)
        engine.stdout.close()


def _levels(descriptor: int, mode: str, window_s: int, progress: Progress) -> Iterator[Level]:
    for line in _lines(descriptor, LEVEL_WITHIN_S + 2 * window_s):
        said: Mapping[str, Any] = json.loads(line)
        if "begin" in said:
            progress(mode, said["begin"])
        elif "level" in said:
            yield Level.from_dict(said["level"])


def _lines(descriptor: int, within_s: float) -> Iterator[bytes]:
    """Whole lines of a pipe until it ends; raises CalibrationError when none comes for so long."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        deadline = time.monotonic() + within_s
        while True:
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise CalibrationError(f"nothing was heard for {within_s:.0f} s: this machine is too busy to calibrate")
            data = os.read(descriptor, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line
                deadline = time.monotonic() + within_s


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, and wait for that."""
    for end, seconds in ((process.terminate, 5.0), (process.kill, 5.0)):
        if process.poll() is not None:
            return
        end()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing"
