"""Workload: what the users of one process ask, made anew for each test.

`settle` (local or master, before any request) reads the files and refuses what cannot work; `fit` asks each target how
its tokens come about; `tell` leaves for the workers what they cannot find out by themselves, `read` takes it there.
A data set is dealt out by its order: process k of n takes every n-th request, whichever user asks.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gevent

from locust_llm.measure.findings import Finding, Severity
from locust_llm.plugin.fitting import BOTH, Fit, as_exact, fit_exact, fit_lengths
from locust_llm.wire.call import Call
from locust_llm.wire.client import LLMClient
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.calibration import CalibrationError
from locust_llm.workload.dataset import Dataset, DatasetError
from locust_llm.workload.item import Item
from locust_llm.workload.lengths import parse_lengths
from locust_llm.workload.order import order
from locust_llm.workload.prompt import Prompt
from locust_llm.workload.prompts import FixedPrompt, PromptFileError, Prompts, read_prompt_file
from locust_llm.workload.trace import Trace, TraceError, prompt_text, read_trace

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

logger = logging.getLogger(__name__)

SLOW_BYTES_PER_S = 20e6
BEFORE_TEST = -1
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
        self._dataset: Dataset | None = None
        self._dataset_key: tuple[object, ...] = ()
        self._fixed: FixedPrompt | None = None
        self._trace: Trace | None = None
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
        if self._trace is not None:
            return self._trace.quantiles(0.95, 0.05, 0.5)
        lengths = self._session.settings.input_tokens
        return [lengths.constant] if lengths.constant is not None else lengths.quantiles(0.95, 0.05, 0.5)

    @property
    def exact(self) -> bool:
        """Whether answers shall have exact lengths."""
        recorded = self._trace is not None or (self._dataset is not None and self._dataset.exact)
        return recorded or self._session.settings.output_tokens is not None

    def _wants_exact(self, api: str) -> bool:
        return self.exact and not self._session.settings.no_preflight and api != EMBEDDINGS.name

    def tell(self, options: Any) -> None:
        """Leave in Locust's options, which it sends to the workers, what was settled and found."""
        options.llm_fits = json.dumps({aim: fit.to_dict() for aim, fit in self.fits.items()})
        options.llm_dataset_sha256 = self._dataset.sha256 if self._dataset is not None else ""

    @property
    def reading_s(self) -> float:
        """How long a slow worker may take to read the data set through."""
        return self._dataset.size / SLOW_BYTES_PER_S if self._dataset is not None else 0.0

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
        wanted = getattr(options, "llm_dataset_sha256", "")
        if self._dataset is not None and wanted and self._dataset.sha256 != wanted:
            raise ConfigurationError(f"--llm-dataset {self._dataset.path} is not the file that the master has")

    def _make(self) -> None:
        settings = self._session.settings
        given = [name for name in ("prompt_file", "dataset", "trace") if getattr(settings, name)]
        if len(given) > 1:
            flags = " and ".join(f"--llm-{name.replace('_', '-')}" for name in given)
            raise ConfigurationError(f"{flags} exclude each other: give one of them")
        if settings.trace and not self._session.open_load.active:
            raise ConfigurationError("--llm-trace needs an OpenLoopUser, such as that of locustfiles/open_loop.py")
        try:
            self._fixed = read_prompt_file(settings.prompt_file) if settings.prompt_file else None
            self._open_dataset()
            self._trace = read_trace(settings.trace, settings.trace_speed) if settings.trace else None
        except (PromptFileError, DatasetError, TraceError) as error:
            raise ConfigurationError(str(error)) from None
        index, processes = self._share()
        if self._dataset is not None:
            self._numbers = order(len(self._dataset), seed=settings.seed or 0, index=index, processes=processes)
        self._generated = self._prompts(index)
        self._draw = random.Random(f"{settings.seed if settings.seed is not None else self._session.run}/{index}/out")

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

    def _share(self) -> tuple[int, int]:
        """This process's number and how many there are. A worker that came late has a share that is another's, too."""
        runner = self._session.environment.runner
        index = max(getattr(runner, "worker_index", 0), 0)
        if not self._session.is_worker or not self.workers:
            return index, 1
        name = getattr(runner, "client_id", "")
        return (self.workers.index(name) if name in self.workers else index), len(self.workers)

    def _open_dataset(self) -> None:
        settings = self._session.settings
        if not settings.dataset:
            self._dataset, self._dataset_key = None, ()
            return
        try:
            status = os.stat(settings.dataset)
        except OSError as error:
            raise DatasetError(f"--llm-dataset {settings.dataset}: {error.strerror}") from None
        key = (settings.dataset, settings.dataset_format, status.st_mtime_ns, status.st_size)
        if key == self._dataset_key:
            return
        try:
            dataset = Dataset(settings.dataset, settings.dataset_format, lambda: gevent.sleep(0))
        except DatasetError as error:
            raise DatasetError(f"--llm-dataset {error}") from None
        if self._dataset is not None:
            self._dataset.close()
        self._dataset, self._dataset_key = dataset, key
        left = f"; {dataset.left_out:,} in which no user says anything are left out" if dataset.left_out else ""
        logger.info("%s: %d requests (%s)%s", dataset.path, len(dataset), dataset.format, left)

    # -- during a test ------------------------------------------------------------------------------------------

    def prompt(self, aim: str, tokens: int | None = None, shared: float | None = None) -> Prompt:
        """The next prompt for a target. One with a length of its own is always a generated one."""
        if tokens is None and self._fixed is not None:
            return Prompt(self._fixed())
        if tokens is None and self._dataset is not None:
            return self._dataset[next(self._numbers)].prompt
        fit = self.fits.get(aim)
        return Prompt(self._generated(tokens, shared=shared, calibration=fit.calibration if fit is not None else None))

    def recorded(self, aim: str, offset_ns: int) -> Prompt | None:
        """The prompt of the trace's request that comes `offset_ns` after the first one; None without a trace."""
        if self._trace is None:
            return None
        entry, fit = self._trace.at(offset_ns), self.fits.get(aim)
        calibration = fit.calibration if fit is not None else None
        if entry.blocks:
            text = prompt_text(entry, self._session.run, calibration)
        else:
            text = self._generated(entry.input_tokens, calibration=calibration)
        return Prompt(text, output_tokens=entry.output_tokens, exact=True)

    def item(self) -> Item | None:
        """The next record of the data set, as a conversation; None without one."""
        return self._dataset[next(self._numbers)] if self._dataset is not None else None

    def turns(self) -> int:
        """How many questions the next conversation has."""
        return self._session.settings.turns.draw(self._draw)

    def before_test(self) -> Callable[[], str]:
        """Prompts for requests before the test, of which none comes again in it as long as a file lasts."""
        if self._fixed is not None:
            return self._fixed
        if self._dataset is not None:
            numbers = order(len(self._dataset), seed=self._session.settings.seed or 0, last_first=True)
            dataset = self._dataset
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
        told: dict[str, Any] = {}
        if self._dataset is not None:
            data = self._dataset
            told["dataset"] = {
                "path": data.path,
                "format": data.format,
                "sha256": data.sha256,
                "requests": len(data),
                "left_out": data.left_out,
            }
        if self._trace is not None:
            told["trace"] = {"path": self._trace.path, "requests": len(self._trace)}
        fits = {aim: fit.to_dict() for aim, fit in self.fits.items() if fit.told}
        return told | ({"fits": fits} if fits else {})
