"""Gates of a session: judged when a test is over, they decide the exit code of a headless run.

What the judgement needs beside the statistics is gathered here: lost workers, signals, a busy client, brakes, and what
became of open load's arrivals, which must be asked at the moment of the stop, since nobody takes any after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from locust_llm.analysis.judgement import UNJUDGED_CODE, Circumstances, GateStatus, Judgement, judge
from locust_llm.analysis.overload import unserved
from locust_llm.measure.findings import Finding
from locust_llm.measure.gate import GOODPUT
from locust_llm.plugin.interrupts import Interrupts
from locust_llm.report.gates import verdict_text
from locust_llm.wire.target import ConfigurationError

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

CLIENT_LIMITED: Final = ("client_busy", "too_many_streams")
"""Findings that say that the client, not the server, was the bottleneck."""

logger = logging.getLogger(__name__)


class Gates:
    """Those of one session. `judgement` is None without gates, and until a test is over."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.judgement: Judgement | None = None
        self.interrupts: Interrupts | None = None
        self._unserved: str | None = None

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return bool(self.session.settings.gate)

    @property
    def exit_code(self) -> int | None:
        """What the gates decide; None when there are none. A run that never came to its end was not judged."""
        if not self.wanted:
            return None
        return self.judgement.exit_code if self.judgement is not None else UNJUDGED_CODE

    @property
    def failure_code(self) -> int:
        """The exit code of a run that could not begin: nothing was breached."""
        return UNJUDGED_CODE if self.wanted else 1

    def check(self) -> None:
        """Raise ConfigurationError when the gates cannot be judged by the other options."""
        settings = self.session.settings
        if settings.junit and not self.wanted:
            raise ConfigurationError("--llm-junit tells what became of the gates: give --llm-gate")
        if not settings.slo and any(gate.metric == GOODPUT for gate in settings.gate):
            raise ConfigurationError(
                "a gate on goodput needs the limits that each request has to meet: give --llm-slo or --llm-slo-preset"
            )

    def refuse_default(self) -> None:
        """No host was given; raises ConfigurationError when there are gates."""
        if self.wanted:
            raise ConfigurationError(
                "a gate needs a host: give --host URL. Without one the embedded engine would be measured, which proves"
                " nothing of your service (--host sim does so on purpose)"
            )

    def begin(self) -> None:
        """A test starts."""
        self.judgement, self._unserved = None, None

    def note_stop(self) -> None:
        """The test was asked to stop."""
        load = self.session.open_load
        if not load.active or self.session.is_worker or self.session.brakes.reason is not None:
            return
        totals = load.told()
        self._unserved = unserved(totals) if not totals.stepped else None  # steps overload on purpose

    def judge(self, findings: Iterable[Finding]) -> None:
        """The test is over and all its figures are in."""
        if not self.wanted:
            return
        judgement = judge(self.session.stats, self.session.settings.gate, self._circumstances(findings))
        self.judgement = judgement
        say = logger.info if judgement.status is GateStatus.MET else logger.error
        say("%s", verdict_text(judgement))

    def _circumstances(self, findings: Iterable[Finding]) -> Circumstances:
        session = self.session
        settings, load, brakes = session.settings, session.open_load, session.brakes
        busy = [finding.sentence for finding in findings if finding.key in CLIENT_LIMITED]
        offered_rps = None
        if load.active:
            begun_s, ended_s = session.started_wall_s, session.stopped_wall_s
            spent_s = ended_s - begun_s if begun_s is not None and ended_s is not None else 0.0
            offered_rps = settings.rate or (load.totals()["offered"] / spent_s if spent_s else None)
        return Circumstances(
            strict=settings.strict,
            incomplete=self._incomplete(),
            client_limited=busy[0].rstrip(".") if busy else None,
            shortened=brakes.reason.rstrip(".") if brakes.failing and brakes.reason is not None else None,
            offered_rps=offered_rps,
            unserved=self._unserved,
            load_changes=session.environment.shape_class is not None or bool(settings.arrivals_file),
            settle_s=settings.rate_ramp,
        )

    def _incomplete(self) -> str | None:
        """Why the run is not all that was asked for; None when it is."""
        session, signals = self.session, self.interrupts
        if session.lost:
            return f"incomplete, since it lost {', '.join(sorted(session.lost))}"
        if signals is not None and signals.terminated:
            return "it was ended by SIGTERM"
        options = session.environment.parsed_options
        if signals is not None and signals.interrupted and options is not None and options.run_time:
            return "it was interrupted before its run time was over"
        return None
