"""A stage: one thing that is looked at, and what was found of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from locust_llm.wire.target import ConfigurationError

if TYPE_CHECKING:
    from locust_llm.wire.checks.examination import Examination


class Status(StrEnum):
    """What became of a stage. Skipped: what it would have looked at cannot work after an earlier failure."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Hopeless(ConfigurationError):
    """A failure that the stages after it would only repeat."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a stage that did not fail has to say.

    `sentence` is what was found, `warnings` what will shape the figures; `lines` are for a person to read, `facts` for
    a script (plain values).
    """

    sentence: str
    warnings: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage that was gone through. A failure's sentence names cause and fix; `hopeless`: it ended them all."""

    name: str
    status: Status
    told: Told
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """`look` tells, or raises ConfigurationError with one sentence; `needs` names stages that must not have failed.

    `preflight`: it is gone through before each test too.
    """

    name: str
    look: Callable[[Examination], Told]
    needs: tuple[str, ...] = ()
    preflight: bool = False


def go_through(stages: Sequence[Stage], exam: Examination) -> Iterator[StageResult]:
    """Every stage in turn, each told once it is over."""
    bad: set[str] = set()
    ended_by = ""
    for stage in stages:
        blocking = ended_by or next((need for need in stage.needs if need in bad), "")
        if blocking:
            bad.add(stage.name)
            yield StageResult(stage.name, Status.SKIPPED, Told(f"not looked at, since '{blocking}' failed"))
            continue
        try:
            told = stage.look(exam)
        except ConfigurationError as error:
            bad.add(stage.name)
            ended_by = stage.name if isinstance(error, Hopeless) else ""
            yield StageResult(stage.name, Status.FAILED, Told(str(error)), bool(ended_by))
        else:
            yield StageResult(stage.name, Status.WARNING if told.warnings else Status.OK, told)
