"""Session: what locust_llm knows of one Locust Environment, and of the test that runs in it.

`prepare` (local or master, before users spawn) settles the target once per test and leaves what the workers need in
`environment.parsed_options`, which Locust sends to them; `begin` (every process, at `test_start`) builds from it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from locust.runners import MasterRunner, WorkerRunner

from locust_llm.analysis.step import StepResult
from locust_llm.measure.stats import RunStats
from locust_llm.measure.tokens import Counter, TokenizerError, load_counter
from locust_llm.plugin import rows
from locust_llm.plugin.brakes import Brakes
from locust_llm.plugin.gates import Gates
from locust_llm.plugin.listener import Listener
from locust_llm.plugin.open_load import OpenLoad
from locust_llm.plugin.origin import origin_of_session
from locust_llm.plugin.probing import Probing
from locust_llm.plugin.scraper import Scraper
from locust_llm.plugin.settings import Settings
from locust_llm.plugin.sides import Sides
from locust_llm.plugin.step_rows import StepRows
from locust_llm.plugin.steps import StepRun
from locust_llm.plugin.targets import Targets
from locust_llm.plugin.workload import Workload
from locust_llm.report.origin import Origin
from locust_llm.wire.failures import LABELS
from locust_llm.wire.target import ConfigurationError

logger = logging.getLogger(__name__)


class Session:
    """One per Environment; see `session_of`."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.settings = Settings.parse(environment.parsed_options)
        self.run = ""
        self.test = 0
        self.over = False
        self.started_wall_s: float | None = None
        self.stopped_wall_s: float | None = None
        self.lost: dict[str, float] = {}
        self.origin: Origin | None = None
        self.listener = Listener(environment, worker=self.is_worker, master=self.is_master)
        self.open_load = OpenLoad(self)
        self.step_rows = StepRows(self)
        self.probing = Probing(self)
        self.scraper = Scraper(self)
        self.brakes = Brakes(self)
        self.counter: Counter | None = None
        self.gates = Gates(self)
        self.steps: StepRun | None = None
        self.on_step: list[Callable[[StepResult], None]] = []
        self.workload = Workload(self)
        self.targets = Targets(self)
        self.sides = Sides(self)
        self._users = 0
        rows.keep_metrics_apart(environment.stats)

    # -- before a test: local or master ------------------------------------------------------------------------

    @property
    def is_worker(self) -> bool:
        """Whether this process is a worker of a master."""
        return isinstance(self.environment.runner, WorkerRunner)

    @property
    def is_master(self) -> bool:
        """Whether this process is a master."""
        return isinstance(self.environment.runner, MasterRunner)

    @property
    def simulated(self) -> bool:
        """Whether the embedded engine answers."""
        return self.targets.simulated

    @property
    def stats(self) -> RunStats:
        """The figures of the running or last test; in a worker, what it has not reported yet."""
        return self.listener.stats

    def prepare(self) -> None:
        """Settle target, key and model, and check them by one small request each; raises ConfigurationError."""
        self.run = uuid.uuid4().hex[:8]
        self.settings = Settings.parse(self.environment.parsed_options)
        self.open_load.check()
        self.scraper.check()
        self.gates.check()
        self.sides.check()
        self._load_counter()
        self.workload.settle()
        self.targets.settle()
        options = self.environment.parsed_options
        if options is not None:
            options.llm_run = self.run
            self.targets.tell(options)
            self.workload.tell(options)
        self.origin = origin_of_session(self)

    def _load_counter(self) -> None:
        try:
            self.counter = load_counter(self.settings.tokenizer)
        except TokenizerError as error:
            raise ConfigurationError(str(error)) from None

    def next_user(self) -> int:
        """A number for a new user, unique over all processes of a run."""
        self._users += 1
        worker = getattr(self.environment.runner, "worker_index", 0)
        return (max(worker, 0) << 32) + self._users

    # -- during a test: every process -------------------------------------------------------------------------

    def begin(self) -> None:
        """A test starts in this process: read what was settled, forget the last test."""
        self._read_settled()
        self.test += 1
        self.over = False
        self.started_wall_s, self.stopped_wall_s = time.time(), None
        self.lost = {}
        gated = [gate.name for gate in self.settings.gate if gate.name is not None]
        self.listener.begin(
            min_tokens=self.settings.min_tokens,
            slos=self.settings.slo,
            apart=gated,
            stall_ms=self.settings.stall,
            counter=self.counter,
            sides=self.sides.endings,
        )
        self.sides.begin()
        self.brakes.begin()
        self.gates.begin()
        self.open_load.begin()
        self.step_rows.begin()
        self.probing.begin()
        self.scraper.begin()
        rows.keep_metrics_apart(self.environment.stats)

    def probe(self, hosts: Sequence[str | None]) -> str | None:
        """In a worker: whether it can send what the master has settled. None, or a sentence on the first host that it
        does not reach; raises ConfigurationError for a key or a file that is not on this machine."""
        self._read_settled()
        return self.targets.probe(hosts)

    def _read_settled(self) -> None:
        """Read what `prepare` settled, here or on the master; the environment's variables where nothing did."""
        options = self.environment.parsed_options
        self.settings = Settings.parse(options)
        self._load_counter()
        self.run = getattr(options, "llm_run", "") or self.run or uuid.uuid4().hex[:8]
        self.targets.read(options)
        LABELS.reset()
        self.workload.read(options)


_sessions: WeakKeyDictionary[Any, Session] = WeakKeyDictionary()


def session_of(environment: Any) -> Session:
    """The session of an Environment, made on first use."""
    session = _sessions.get(environment)
    if session is None:
        session = _sessions[environment] = Session(environment)
    return session
