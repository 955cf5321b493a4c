"""Steps of load on the simulated engine's virtual clock, told as rows and seconds, as a live run tells them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from locust_llm.analysis.backlog import BacklogRule, BacklogWindow
from locust_llm.analysis.client import client_limit
from locust_llm.analysis.knee import KneeSearch
from locust_llm.analysis.outcomes import Ended, Fate
from locust_llm.analysis.rate import RateSearch, RateVerdict
from locust_llm.analysis.steady import Phase, SteadyWindow, WindowRule
from locust_llm.analysis.step import Asked, ServerLoad, Status, StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, OpenLoop, Served, VirtualLoad, Work, poisson_arrivals_ns

S = 1_000_000_000
NAN = math.nan
PATIENT = WindowRule(max_s=3 * 3600.0)
"""Virtual hours are cheap: no step of these tests is cut off by time."""


def row(served: Served, meets: Callable[[Ended], bool] | None = None) -> Ended:
    """A request of the virtual load as the analysis wants it; its client has no delay of its own."""
    ms = 1e-6
    first, last = served.first_ns, served.last_ns
    fate = Fate.SUCCESS if served.succeeded else Fate.REFUSED if served.status in (429, 503) else Fate.FAILED
    told = Ended(
        user=served.user,
        started_s=served.arrived_ns / S,
        first_s=first / S if first is not None else NAN,
        last_s=last / S if last is not None else NAN,
        ended_s=served.ended_ns / S,
        input_tokens=float(served.prompt_tokens),
        tokens=float(served.tokens),
        decode_ms=NAN,
        decode_tokens=NAN,
        ttft_ms=NAN,
        tpot_ms=NAN,
        e2e_ms=NAN,
        fate=fate,
        met=-1,
        error=None if served.succeeded else f"HTTP {served.status}" if served.status != 200 else served.outcome,
    )
    if served.succeeded and first is not None and last is not None:
        told = told._replace(ttft_ms=(first - served.arrived_ns) * ms, e2e_ms=(last - served.arrived_ns) * ms)
        if served.tokens > 1:
            span_ms, tokens = (last - first) * ms, served.tokens - 1
            told = told._replace(decode_ms=span_ms, decode_tokens=float(tokens), tpot_ms=span_ms / tokens)
    return told if meets is None else told._replace(met=int(served.succeeded and meets(told)))


class Told:
    """Reads what a virtual load has done since the last call, and forgets it."""

    def __init__(self, load: VirtualLoad, meets: Callable[[Ended], bool] | None = None) -> None:
        self.load = load
        self.meets = meets

    def skip(self) -> None:
        """Forgets what came so far."""
        self.load.rows.clear()
        self.load.ticks.clear()

    def second(self, window: SteadyWindow | BacklogWindow, begin_ns: int, end_ns: int, users: float | None) -> None:
        """Plays (begin, end] and tells the window of it; without `users` those are the requests in flight."""
        self.load.run_until(end_ns)
        window.add([row(served, self.meets) for served in self.load.rows])
        self.load.rows.clear()
        tokens = self.load.tokens_between(begin_ns, end_ns)
        # A tick tells of steps up to its time; those that end later still count in the next second.
        self.load.ticks[:] = [tick for tick in self.load.ticks if tick[0] > end_ns]
        in_flight = float(self.load.engine.tally.in_flight)
        window.add_second(begin_ns / S, float(tokens), in_flight, users if users is not None else in_flight)


class SlowClientLoop(ClosedLoop):
    """Users of a client that spends `cpu_us` of one core on each token, answer after answer."""

    def __init__(self, engine: Engine, work: Work, *, seed: int, cpu_us: float) -> None:
        super().__init__(engine, work, seed=seed)
        self.cpu_us = cpu_us
        self._free_ns = 0

    def _ended(self, user: int, now_ns: int) -> None:
        served = self.rows[-1]
        self._free_ns = max(self._free_ns, now_ns) + round(served.tokens * self.cpu_us * 1000)
        self.rows[-1] = served._replace(ended_ns=self._free_ns)
        super()._ended(user, self._free_ns)


@dataclass
class Gauges:
    """The engine's own metrics over a step, sampled once a second."""

    engine: Engine
    preempted: int

    def __post_init__(self) -> None:
        self.samples: list[tuple[float, float, float]] = []

    def sample(self) -> None:
        capacity = self.engine.settings.kv_tokens
        use = self.engine.kv_used / capacity if capacity is not None else 0.0
        self.samples.append((self.engine.running, self.engine.waiting, use))

    def server(self) -> ServerLoad:
        running, waiting, kv_use = np.array(self.samples).T
        preemptions = self.engine.tally.preemptions - self.preempted
        return ServerLoad(float(running.mean()), float(waiting.mean()), float(kv_use.max()), preemptions)


class Bench:
    """A server under closed-loop steps of changing numbers of users.

    `sent` counts the requests of all steps; `scraped`: whether results carry the server's own metrics.
    """

    def __init__(
        self,
        settings: EngineSettings,
        work: Work,
        *,
        seed: int = 0,
        rule: WindowRule = PATIENT,
        cpu_us: float = 0.0,
        scraped: bool = False,
        meets: Callable[[Ended], bool] | None = None,
    ) -> None:
        self.engine = Engine(replace(settings, seed=seed))
        self.work = work
        self.rule = rule
        self.cpu_us = cpu_us
        self.scraped = scraped
        self.load = SlowClientLoop(self.engine, work, seed=seed, cpu_us=cpu_us)
        self.told = Told(self.load, meets)

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return self.engine.tally.received

    def step(self, users: float, spread_s: float | None = None, output_factor: float = 1.0) -> StepResult:
        """Holds `users` until the window closes."""
        load, spread = self.load, spread_s if spread_s is not None else 1.0
        limit = self.work.max_tokens
        assert limit is not None
        load._draw = replace(self.work, max_tokens=round(limit * output_factor)).draw
        load.set_users(int(users), spread)
        begun_ns = load.now_ns + round(spread * S)
        begun_ns += -begun_ns % S
        load.run_until(begun_ns)
        self.told.skip()
        window, gauges = SteadyWindow(int(users), begun_ns / S, self.rule), Gauges(self.engine, self.preempted)
        now_ns = begun_ns
        while window.state(now_ns / S).phase is not Phase.DONE:
            self.told.second(window, now_ns, now_ns + S, float(users))
            gauges.sample()
            now_ns += S
        asked = Asked(users, output_factor=output_factor, server=gauges.server() if self.scraped else None)
        result = window.result(asked)
        busy = result.throughput.value * self.cpu_us / 1e6 if result.throughput is not None else 0.0
        why = client_limit(min(busy, 1.0), None)
        return result if why is None else window.result(replace(asked, status=Status.CLIENT_LIMITED, why=why))

    @property
    def preempted(self) -> int:
        return self.engine.tally.preemptions


def search(bench: Bench, knee: KneeSearch) -> tuple[Verdict, list[StepResult]]:
    """Runs a whole search."""
    results: list[StepResult] = []
    for _ in range(60):
        step = knee.next(results)
        if isinstance(step, Verdict):
            return step, results
        results.append(bench.step(step.load, step.spread_s, step.output_factor))
    raise AssertionError(f"the search does not end: {[result.load for result in results]}")


def open_step(
    settings: EngineSettings, work: Work, rate_rps: float, *, seed: int = 0, rule: BacklogRule | None = None
) -> StepResult:
    """One open-loop step of Poisson arrivals on an empty server."""
    rule = rule if rule is not None else BacklogRule()
    count = int(rate_rps * (rule.max_s + 1)) + 1
    load = OpenLoop(Engine(replace(settings, seed=seed)), poisson_arrivals_ns(rate_rps, count, seed), work, seed=seed)
    window, told = BacklogWindow(rate_rps, 0.0, rule), Told(load)
    for now_ns in _seconds():
        if window.state(now_ns / S).phase is Phase.DONE:
            break
        told.second(window, now_ns, now_ns + S, None)
    return window.result(Asked(rate_rps))


def search_rate(settings: EngineSettings, work: Work, rates: RateSearch, seed: int = 0) -> tuple[RateVerdict, int]:
    """Runs a whole search for the sustainable rate; (verdict, steps)."""
    results: list[StepResult] = []
    for _ in range(60):
        step = rates.next(results)
        if isinstance(step, RateVerdict):
            return step, len(results)
        results.append(open_step(settings, work, step.rate_rps, seed=seed * 100 + len(results)))
    raise AssertionError(f"the search does not end: {[result.load for result in results]}")


def _seconds() -> Iterator[int]:
    now_ns = 0
    while True:
        yield now_ns
        now_ns += S
