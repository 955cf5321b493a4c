"""The locustfile of `locust-llm calibrate`: real LLMUsers at rising numbers, measured against the engine's own truth.

Theory of operation. A greenlet raises the number of users, waits until they run evenly, and measures some whole wall
seconds (the series that a run tells its rates from has rows of whole seconds). It then waits until every request of the
window has ended, compares, and says what it found; more users follow only while more would tell something. A level that
is not safe is measured once more, since other work on the machine can spoil a window; the better one counts.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import gevent
from locust import constant, events, task

from locust_llm import LLMUser
from locust_llm.analysis.calibration import Answer, Level, Window, level_of
from locust_llm.analysis.calibration_safe import LIMITS, stop_reason
from locust_llm.cli.calibrate_engine import PATH
from locust_llm.cli.calibrate_plan import PROMPT, Plan
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.plugin.session import Session, session_of
from locust_llm.wire.collector import collector

SETTLE_S = 0.4
ENDINGS_S = 6.0
SECOND_NS = 1_000_000_000

PLAN = Plan.given()
_starts = random.Random(1)


class CalibrationUser(LLMUser):
    """One chat after the other."""

    wait_time = constant(0)

    def on_start(self) -> None:
        """Users start spread over the ramp, not in step."""
        gevent.sleep(_starts.random() * PLAN.ramp_s)

    @task
    def chat(self) -> None:
        """One answer."""
        self.client.chat(PROMPT, max_tokens=PLAN.answer_tokens)


class Calibration:
    """Measures the levels of the plan in this process."""

    def __init__(self, environment: Any) -> None:
        self.runner = environment.runner
        self.session: Session = session_of(environment)
        self.session.listener.on_ended.append(self._keep)
        self._answers: list[Answer] = []
        self._failed = 0

    def run(self) -> None:
        """All levels, then the end of the process."""
        try:
            for streams in PLAN.streams:
                self.runner.start(streams, spawn_rate=streams)
                gevent.sleep(PLAN.ramp_s + SETTLE_S)
                level = self._level(streams)
                if level is None:
                    _say({"trouble": f"nothing could be measured at {streams} streams"})
                    break
                _say({"level": level.to_dict()})
                if stop_reason(level) is not None:
                    break
        finally:
            self.runner.quit()

    def _level(self, streams: int) -> Level | None:
        """A level that is not safe is measured once more."""
        _say({"begin": streams})
        found = self._measured(streams)
        if found is None or found.safe(LIMITS[0]) or found.engine_limited:
            return found
        again = self._measured(streams)
        return min(found, again, key=lambda level: level.error) if again is not None else found

    def _measured(self, streams: int) -> Level | None:
        self._answers, self._failed = [], 0
        offset_ns = time.time_ns() - time.monotonic_ns()
        second = time.time_ns() // SECOND_NS + 1
        since_ns = second * SECOND_NS - offset_ns
        until_ns = since_ns + PLAN.window_s * SECOND_NS
        engine = _engine_cpu_s()
        _sleep_until(since_ns)
        cpu_s, waited_s, delays = time.process_time(), _waited_s(), list(collector().lags)
        _sleep_until(until_ns)
        cpu_s = time.process_time() - cpu_s
        waited_s = now_s - waited_s if waited_s is not None and (now_s := _waited_s()) is not None else None
        delays = [now - before for now, before in zip(collector().lags, delays, strict=True)]
        engine_cpu_s, engine_ttfts_ms = _truth()
        self._await_endings(until_ns)
        seconds = range(second, second + PLAN.window_s)
        stats = self.session.stats
        arrived = sum(row.tokens(stats.tokens_per_event) for at, _, row in stats.series.rows() if at in seconds)
        return level_of(
            self._answers,
            Window(
                since_ns,
                until_ns,
                streams,
                PLAN.mode,
                PLAN.gap_ms,
                cpu_s=cpu_s,
                engine_cpu_s=engine_cpu_s - engine,
                arrived_tokens=arrived,
                waited_s=waited_s,
                requests=len(self._answers) + self._failed,
                failed=self._failed,
                engine_ttfts_ms=engine_ttfts_ms,
                delays=delays,
            ),
        )

    def _keep(self, record: RequestRecord, user: int) -> None:
        if record.outcome is Outcome.FAILED:
            self._failed += 1
        elif record.event_ns and record.sent_ns is not None:
            self._answers.append(Answer(record.sent_ns, record.event_ns, record.ended_ns, record.text))

    def _await_endings(self, until_ns: int) -> None:
        """Until every request that ran in the window has ended."""
        deadline_ns = time.monotonic_ns() + int(ENDINGS_S * 1e9)
        while time.monotonic_ns() < deadline_ns:
            gevent.sleep(0.05)
            if not any(timeline.started_ns < until_ns for timeline in self.session.listener.running):
                break


def _sleep_until(at_ns: int) -> None:
    gevent.sleep(max(at_ns - time.monotonic_ns(), 0) / 1e9)


def _waited_s() -> float | None:
    """How long this process could have run so far, but for other work on its core (Linux)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _truth() -> tuple[float, list[float]]:
    """(CPU s of the engine so far, its own TTFTs since the last look)."""
    with urlopen(PLAN.engine_url + PATH, timeout=10) as answer:
        told = json.load(answer)
    return told["cpu_s"], told["ttfts_ms"]


def _engine_cpu_s() -> float:
    return _truth()[0]


def _say(message: dict[str, Any]) -> None:
    os.write(PLAN.report_to, json.dumps(message).encode() + b"\n")


@events.init.add_listener  # type: ignore[untyped-decorator]
def _init(environment: Any, **_: Any) -> None:
    begun: list[Any] = []

    def begin(**_: Any) -> None:
        if not begun:
            begun.append(gevent.spawn(Calibration(environment).run))

    environment.events.spawning_complete.add_listener(begin)
