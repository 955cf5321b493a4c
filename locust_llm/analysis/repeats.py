"""Repeats: what several runs of one sweep or search say together. Their scatter is *the* uncertainty of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from locust_llm.analysis.intervals import Interval, NoInterval, between_runs
from locust_llm.analysis.rate import RateKind, RateVerdict
from locust_llm.analysis.verdict import Repeats, Verdict, VerdictKind

Answer = TypeVar("Answer", Verdict, RateVerdict)


@dataclass(frozen=True, slots=True)
class _Words:
    what: str
    unit: str


def together(verdicts: Sequence[Answer], wanted: int) -> Answer:
    """The verdict of the run in the middle, with what all of them found; the runs in the order they were made.

    Runs without an answer are named and stand in no interval: it covers those that had one.
    """
    values = tuple(_value(verdict) for verdict in verdicts)
    known = sorted(value for value in values if value is not None)
    middle = verdicts[-1] if not known else verdicts[values.index(known[(len(known) - 1) // 2])]
    repeats = Repeats(values, wanted, between_runs(known))
    sentence = f"{_said(repeats, middle)} The run in the middle: {middle.sentence}" if known else middle.sentence
    complete = middle.complete and len(verdicts) == wanted
    return replace(middle, sentence=sentence, repeats=repeats, complete=complete)


def _value(verdict: Verdict | RateVerdict) -> float | None:
    if isinstance(verdict, RateVerdict):
        return verdict.sustained_rps if verdict.kind is RateKind.FOUND else None
    return verdict.knee if verdict.kind is VerdictKind.KNEE else None


def _said(repeats: Repeats, verdict: Verdict | RateVerdict) -> str:
    words = _Words("a sustained rate", "requests/s") if isinstance(verdict, RateVerdict) else _Words("a knee", "users")
    known = [value for value in repeats.values if value is not None]
    found = ", ".join(f"{value:.3g}" for value in known)
    runs = f"{len(known)} of {len(repeats.values)} runs found {words.what}: {found} {words.unit}"
    missing = repeats.wanted - len(repeats.values)
    cut = f" ({missing} of {repeats.wanted} wanted runs are missing)" if missing else ""
    match repeats.interval:
        case Interval(low, high):
            return f"{runs}{cut}; 95 % between {low:.3g} and {high:.3g}, between runs: this is the uncertainty."
        case NoInterval(reason):
            return f"{runs}{cut}; {reason}."
