"""Comparison of run documents: two sides of files become runs, a comparison, and the changes between their set-ups.

Documents of older versions may lack parts; those are filled in as "nothing is known", so that a figure which needs them
is missing and the rest is compared. What cannot be read at all raises DocumentError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.analysis.compare import Comparison, Rules, Run, compare
from locust_llm.analysis.compare_subject import STANDARD, Subject, of_gate
from locust_llm.measure import metrics
from locust_llm.measure.expression import ExpressionError
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.stats import RunStats
from locust_llm.report.columns import points_columns
from locust_llm.report.compare_changes import Changes, changes
from locust_llm.report.document import DocumentError, read_document
from locust_llm.report.rebuild import SUMS, stats_of
from locust_llm.report.run import OVER

CLIENT_LIMITED: Final = frozenset({"client_busy", "too_many_streams"})
"""Findings that say that the client, not the server, was the bottleneck."""

_MARKS: Final = ("first_sent_s", "all_running_s", "stopped_s", "reset_s", "complete_s")
_COLUMNS: Final = (*points_columns([]), *SUMS, "told_tokens", "peak_tokens")
_BY_LABEL: Final = ("errors", "open_events")


@dataclass(frozen=True, slots=True)
class Told:
    """One run of a side: the file it comes from, its document, and its statistics made again."""

    file: str
    content: Mapping[str, Any]
    run: Run

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two files of the same run have in common."""
        run = self.content["run"]
        return run.get("id"), run.get("test"), run.get("started_wall_s")

    @property
    def simulated(self) -> bool:
        """Whether the embedded engine answered."""
        return bool(self.content["run"].get("simulated"))


@dataclass(frozen=True, slots=True)
class Compared:
    """Everything that the outputs of a comparison tell."""

    base: tuple[Told, ...]
    run: tuple[Told, ...]
    comparison: Comparison
    changes: Changes

    @property
    def marks(self) -> tuple[str, ...]:
        """What must stand on every output."""
        both = (*self.base, *self.run)
        incomplete = any(told.content["run"].get("incomplete") for told in both)
        return ("SIMULATED",) * any(told.simulated for told in both) + ("INCOMPLETE",) * incomplete


def compare_files(
    base: Sequence[str],
    run: Sequence[str],
    subjects: Sequence[Subject] | None = None,
    rules: Rules | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Compared:
    """Compare the documents in two lists of files. Without `subjects` those of the documents' gates are judged.

    `defaults`: of our options, for documents that are older than they. Raises DocumentError.
    """
    base_runs, run_runs = ([told(file, read_document(file)) for file in files] for files in (base, run))
    _refuse_twins(base_runs)
    _refuse_twins(run_runs)
    return compared(base_runs, run_runs, subjects, rules, defaults)


def compared(
    base: Sequence[Told],
    run: Sequence[Told],
    subjects: Sequence[Subject] | None = None,
    rules: Rules | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Compared:
    """Compare two sides of at least one run each."""
    base, run = ([*sorted(side, key=_age)] for side in (base, run))
    judged = list(dict.fromkeys(subjects)) if subjects else default_subjects([*base, *run])
    found = compare([each.run for each in base], [each.run for each in run], judged, rules if rules else Rules())
    differing = changes([each.content for each in base], [each.content for each in run], defaults)
    return Compared(tuple(base), tuple(run), found, differing)


def told(file: str, content: Mapping[str, Any]) -> Told:
    """The run that a document tells; raises DocumentError."""
    try:
        whole = filled(content)
        run = _run(file, whole, stats_of(whole))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DocumentError(f"{file} is damaged: {type(error).__name__} at {error}.") from None
    return Told(file, whole, run)


def default_subjects(sides: Sequence[Told]) -> list[Subject]:
    """What the documents' own gates are about; without any, those of the standard ones that some run has."""
    gated = [result.get("gate") for told in sides for result in (told.content["gates"] or {}).get("results", ())]
    subjects = list(dict.fromkeys(_gated(gated)))
    return subjects if subjects else [each for each in STANDARD if _is_told(each, sides)]


def _gated(gates: Iterable[Any]) -> Iterable[Subject]:
    for gate in gates:
        try:
            yield of_gate(parse_gate(str(gate)))
        except ExpressionError:  # of a newer version
            continue


def _is_told(subject: Subject, sides: Sequence[Told]) -> bool:
    """Whether any run has a sample of a distribution; rates and shares always count."""
    return subject.percentile is None or any(told.run.stats.histogram(subject.key).count for told in sides)


def _run(file: str, content: Mapping[str, Any], stats: RunStats) -> Run:
    options = content["configuration"].get("options") or {}
    return Run(
        stats,
        started_s=content["run"].get("started_wall_s"),
        spoilt=_spoilt(file, content),
        steady=not (content["steps"] or options.get("llm_shape") or options.get("llm_arrivals_file")),
        settle_s=float(options.get("llm_rate_ramp") or 0.0),
    )


def _spoilt(file: str, content: Mapping[str, Any]) -> str | None:
    """Why the figures of a run must not be judged."""
    run = content["run"]
    if run.get("incomplete"):
        return f"{file} is incomplete: the figures of a lost worker are missing"
    if run.get("state", "stopped") not in OVER:
        return f"{file} was written while its test still ran"
    limited = [f.get("sentence", "") for f in content["findings"] if f.get("key") in CLIENT_LIMITED]
    if limited:
        return f"{file}: {limited[0].rstrip('.')}"
    reason = (content["gates"] or {}).get("reason")
    return f"{file}: {reason}" if reason else None


def _refuse_twins(side: Sequence[Told]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for each in side:
        if each.identity in seen:
            raise DocumentError(f"{each.file} is the same run as {seen[each.identity]}: a run counts once.")
        if any(part is not None for part in each.identity):
            seen[each.identity] = each.file


def _age(told: Told) -> tuple[float, str]:
    return told.run.started_s if told.run.started_s is not None else 0.0, told.file


# -- older documents -----------------------------------------------------------------------------------------------


def filled(content: Mapping[str, Any]) -> dict[str, Any]:
    """The document with every part that comparing needs; raises KeyError when it has no figures at all."""
    names = content["names"]
    marks = {**dict.fromkeys(_MARKS), "min_tokens": metrics.MIN_TOKENS, **(content.get("marks") or {})}
    return {
        **content,
        "run": content.get("run") or {},
        "configuration": content.get("configuration") or {},
        "findings": content.get("findings") or [],
        "gates": content.get("gates"),
        "steps": content.get("steps"),
        "marks": marks,
        "names": [{"counts": {}, "histograms": {}, "untouched": {}, "blocks": None, **each} for each in names],
        "series": _series(content.get("series") or {}),
    }


def _series(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The series, empty when a column is missing: throughput cannot be told from a part."""
    if all(name in columns for name in (*_COLUMNS, *_BY_LABEL)):
        return dict(columns)
    return {**{name: [] for name in _COLUMNS}, **{name: {} for name in _BY_LABEL}}
