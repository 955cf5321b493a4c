"""Sides: the two targets of `--llm-ab`, asked by turns by the users of one run.

Theory of operation. Users with even numbers ask the usual target (A), the others the second one (B): another host or
another model. So both meet the same load at the same moments, which no two runs do. Request names end in (A) and (B).
Each side has a workload of its own with the same seed: the k-th prompt of B is as long as the k-th of A and has the
same words, but begins with a nonce of its own, or a cache behind both targets would know it already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from locust_llm.analysis.compare_sides import SIDES, compare_sides
from locust_llm.measure.findings import Finding
from locust_llm.plugin.workload import Workload
from locust_llm.report.compare import CLIENT_LIMITED
from locust_llm.report.compare_sides import ComparedSides
from locust_llm.report.run import shown_url
from locust_llm.wire.target import SIM, ConfigurationError
from locust_llm.workload.prompts import Prompts

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

SECOND: Final = "b"


@dataclass(frozen=True, slots=True)
class Side:
    """What the users of a side ask: `host` and `model` None where they are the usual ones."""

    ending: str
    workload: Workload
    host: str | None = None
    model: str | None = None


class SecondWorkload(Workload):
    """The same requests once more, with other nonces."""

    def _prompts(self, process: int) -> Prompts:
        settings, run = self._session.settings, self._session.run
        return Prompts(
            settings.input_tokens,
            run=f"{run}{SECOND}",
            worker=process,
            seed=settings.seed if settings.seed is not None else run,
            shared=settings.shared_prefix,
            prefixes=settings.prefixes,
        )


class Sides:
    """Those of one session; without `--llm-ab` there are none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._second = SecondWorkload(session)
        self._pair: tuple[Side, Side] | None = None
        self.compared: ComparedSides | None = None

    @property
    def host(self) -> str | None:
        """The second host; None when there is none."""
        wanted = self._session.settings.ab
        return wanted if "://" in wanted or wanted == SIM else None

    @property
    def model(self) -> str | None:
        """The second model; None when there is none."""
        return self._session.settings.ab or None if self.host is None else None

    @property
    def endings(self) -> tuple[str, ...]:
        """What request names of each side end with; nothing without sides."""
        return SIDES if self._session.settings.ab else ()

    def check(self) -> None:
        """Raise ConfigurationError when the load does not suit two sides."""
        options = self._session.environment.parsed_options
        if not self._session.settings.ab:
            return
        if self._session.environment.shape_class is not None or self._session.settings.shape:
            raise ConfigurationError("--llm-ab compares under a constant load: it does not go with a shape")
        users = getattr(options, "num_users", None)
        if users is not None and users < 2:
            raise ConfigurationError("--llm-ab needs two users or more: half of them ask the second target")

    def begin(self) -> None:
        """A test starts in this process."""
        self.compared, self._pair = None, None
        if self._session.settings.ab:
            first = self._session.workload
            self._second.fits = first.fits
            self._second.read(self._session.environment.parsed_options)
            self._pair = Side(SIDES[0], first), Side(SIDES[1], self._second, self.host, self.model)

    def of(self, user: int) -> Side | None:
        """The side of a user by its number, which tells process and user; None without sides."""
        return self._pair[((user >> 32) + user + 1) & 1] if self._pair is not None else None

    def judge(self, findings: Iterable[Finding]) -> None:
        """The test is over and all its figures are in."""
        session = self._session
        if not session.settings.ab:
            return
        limited = [finding.sentence.rstrip(".") for finding in findings if finding.key in CLIENT_LIMITED]
        lost = ["the figures of a lost worker are missing"] if session.lost else []
        spoilt = next(iter([*lost, *limited]), None)
        comparison = compare_sides(session.stats, spoilt=spoilt, settle_s=session.settings.rate_ramp)
        self.compared = ComparedSides(*self._names(), comparison)

    def _names(self) -> tuple[str, str]:
        targets = self._session.targets
        if self.model is not None:
            return targets.model, self.model
        a, b = (_named(targets, host) for host in (targets.hosts()[0], self.host))
        return a, b


def _named(targets: Any, host: str | None) -> str:
    url = targets.engine_url if host == SIM else host or next(iter(targets.base_urls.values()), "")
    model = targets.models.get(host or "")
    return f"{shown_url(url)} ({model})" if model else shown_url(url)
