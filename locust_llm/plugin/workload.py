"""Workload: what the users of one process ask, made anew for each test.

`settle` (local or master, before any request) reads the files and refuses what cannot work; `fit` asks each target how
its tokens come about; `tell` leaves for the workers what they cannot find out by themselves, `read` takes it there.
A data set is dealt out by its order: process k of n takes every n-th request, whichever user asks.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from locust_llm.measure.findings import Finding, Severity
from locust_llm.plugin.fitting import BOTH, Fit, as_exact, fit_exact, fit_lengths
from locust_llm.plugin.sources import Sources
from locust_llm.wire.call import Call
from locust_llm.wire.client import LLMClient
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.calibration import CalibrationError
from locust_llm.workload.item import Item
from locust_llm.workload.lengths import parse_lengths
from locust_llm.workload.order import order
from locust_llm.workload.prompt import Prompt
from locust_llm.workload.prompts import Prompts
from locust_llm.workload.trace import prompt_text

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

logger = logging.getLogger(__name__)

BEFORE_TEST = -2
"""The process number of requests before a test, so that none of the test's repeats one of them."""


def aim_of(host: str | None, api: str) -> str:
    """The name of a target among the fits."""
    return f"{api} {host or ''}"


class Workload:
    """One per Session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.fits: dict[str, Fit] = {}
        self.workers: list[str] = []
        self.sources = Sources()
        self._numbers: Iterator[int] = iter(())
        self._generated = Prompts(parse_lengths("500"))
        self._draw = random.Random(0)

    # -- before a test ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Local or master: read the files; raises ConfigurationError with a sentence on what cannot be used."""
        self.fits = {}
        self._make()

    def wants_fit(self, api: str) -> bool:
        """Whether a target is to be asked what `fit` finds out."""
        return self._session.settings.calibrate_lengths or self._wants_exact(api)

    def fit(self, client: LLMClient, like: Call, aim: str) -> None:
        """Ask one target what a word costs, and how it takes answers of an exact length, as far as that is wanted."""
        settings, fit = self._session.settings, Fit()
        if settings.calibrate_lengths:
            try:
                fit = fit_lengths(client, like, self._targets(), self._prompts(BEFORE_TEST))
            except CalibrationError as error:
                raise ConfigurationError(f"--llm-calibrate-lengths: {error}") from None
        if self._wants_exact(client.config.api.name):
            fit = fit_exact(client, like, fit)
        self.fits[aim] = fit
        for sentence in fit.sentences:
            logger.info("%s", sentence)
        for warning in fit.warnings:
            logger.warning("%s", warning)

    def _targets(self) -> list[int]:
        """The lengths that a calibration has to hit."""
        if self.sources.trace is not None:
            return self.sources.trace.quantiles(0.95, 0.05, 0.5)
        lengths = self._session.settings.input_tokens
        return [lengths.constant] if lengths.constant is not None else lengths.quantiles(0.95, 0.05, 0.5)

    @property
    def exact(self) -> bool:
        """Whether answers shall have exact lengths."""
        return self.sources.exact or self._session.settings.output_tokens is not None

    def _wants_exact(self, api: str) -> bool:
        return self.exact and not self._session.settings.no_preflight and api != EMBEDDINGS.name

    def tell(self, options: Any) -> None:
        """Leave in Locust's options, which it sends to the workers, what was settled and found."""
        options.llm_fits = json.dumps({aim: fit.to_dict() for aim, fit in self.fits.items()})
        options.llm_dataset_sha256 = self.sources.dataset.sha256 if self.sources.dataset is not None else ""

    @property
    def reading_s(self) -> float:
        """How long a slow worker may take to read its file through."""
        return self.sources.reading_s

    def divide(self, workers: Iterable[str]) -> None:
        """On a master: the workers among which the requests of a file are dealt out."""
        self.workers = sorted(workers)
        if self._session.environment.parsed_options is not None:
            self._session.environment.parsed_options.llm_workers = json.dumps(self.workers)

    def read(self, options: Any) -> None:
        """In every process: take what was told, and make the prompts; raises ConfigurationError."""
        self.workers = json.loads(getattr(options, "llm_workers", "") or "[]")
        told = json.loads(getattr(options, "llm_fits", "") or "{}")
        self.fits = {aim: Fit.from_dict(fit) for aim, fit in told.items()} or self.fits
        self._make()
        self.sources.check_same(getattr(options, "llm_dataset_sha256", ""))

    def _make(self) -> None:
        settings = self._session.settings
        self.sources.open(settings, open_load=self._session.open_load.active)
        if self.sources.dataset is not None:
            index, processes = self._share()
            count = len(self.sources.dataset)
            self._numbers = order(count, seed=settings.seed or 0, index=index, processes=processes)
        self._generated = self._prompts(self._process)
        seed = settings.seed if settings.seed is not None else self._session.run
        self._draw = random.Random(f"{seed}/{self._process}/lengths of answers")

    def _prompts(self, process: int) -> Prompts:
        settings = self._session.settings
        return Prompts(
            settings.input_tokens,
            run=self._session.run,
            worker=process,
            seed=settings.seed,
            shared=settings.shared_prefix,
            prefixes=settings.prefixes,
        )

    @property
    def _process(self) -> int:
        """This process's number, which no other has."""
        return max(getattr(self._session.environment.runner, "worker_index", 0), 0)

    def _share(self) -> tuple[int, int]:
        """Which share of a file is this process's, of how many. That of a worker that came late is another's, too."""
        if not self._session.is_worker or not self.workers:
            return 0, 1
        name = getattr(self._session.environment.runner, "client_id", "")
        return (self.workers.index(name) if name in self.workers else self._process), len(self.workers)

    # -- during a test ------------------------------------------------------------------------------------------

    def prompt(self, aim: str, tokens: int | None = None, shared: float | None = None) -> Prompt:
        """The next prompt for a target. One with a length of its own is always a generated one."""
        if tokens is None and self.sources.fixed is not None:
            return Prompt(self.sources.fixed())
        if tokens is None and self.sources.dataset is not None:
            return self.sources.dataset[next(self._numbers)].prompt
        fit = self.fits.get(aim)
        return Prompt(self._generated(tokens, shared=shared, calibration=fit.calibration if fit is not None else None))

    def recorded(self, aim: str, offset_ns: int) -> Prompt | None:
        """The prompt of the trace's request that comes `offset_ns` after the first one; None without a trace."""
        if self.sources.trace is None:
            return None
        entry, fit = self.sources.trace.at(offset_ns), self.fits.get(aim)
        calibration = fit.calibration if fit is not None else None
        if entry.blocks:
            text = prompt_text(entry, self._session.run, calibration)
        else:
            text = self._generated(entry.input_tokens, calibration=calibration)
        return Prompt(text, output_tokens=entry.output_tokens, exact=True)

    def item(self) -> Item | None:
        """The next record of the data set, as a conversation; None without one."""
        return self.sources.dataset[next(self._numbers)] if self.sources.dataset is not None else None

    def turns(self) -> int:
        """How many questions the next conversation has."""
        return self._session.settings.turns.draw(self._draw)

    def before_test(self) -> Callable[[], str]:
        """Prompts for requests before the test, of which none comes again in it as long as a file lasts."""
        if self.sources.fixed is not None:
            return self.sources.fixed
        if self.sources.dataset is not None:
            numbers = order(len(self.sources.dataset), seed=self._session.settings.seed or 0, last_first=True)
            dataset = self.sources.dataset
            return lambda: str(dataset[next(numbers)].prompt)
        return self._prompts(BEFORE_TEST)

    def sized(self, call: Call, asked: object, host: str | None, api: str) -> Call:
        """A call with the length of answer that the options or the prompt want; as it is where they want none."""
        lengths = self._session.settings.output_tokens
        tokens = lengths.draw(self._draw) if lengths is not None else getattr(asked, "output_tokens", None)
        if tokens is None:
            return call
        call = replace(call, max_tokens=tokens)
        if lengths is None and not getattr(asked, "exact", False):
            return call
        fit = self.fits.get(aim_of(host, api))
        return as_exact(call, fit.exact if fit is not None and fit.exact is not None else BOTH, api)

    def findings(self) -> Iterator[Finding]:
        """What is to be known of the lengths that were asked for."""
        counts = self._session.stats.counts()
        if self.exact and counts.short:
            yield Finding(
                "ended_early",
                Severity.WARNING,
                f"{counts.short:,} of {counts.length_judged:,} answers ended before the length that was asked for: E2E"
                " and throughput depend on what the model had to say. A server that takes ignore_eos or min_tokens"
                " goes on.",
            )

    def told(self) -> Mapping[str, Any]:
        """What the run document says of it."""
        fits = {aim: fit.to_dict() for aim, fit in self.fits.items() if fit.told}
        return self.sources.told() | ({"fits": fits} if fits else {})
