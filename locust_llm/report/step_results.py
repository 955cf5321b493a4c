"""StepResults: the steps and the verdict of a sweep or search as plain values, whole, and made again from them.

What tables round and leave out is kept here, so that a run document is told as the run itself was. Fields that an older
document lacks have their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.cause import Cause, CauseKind
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.rate import RateKind, RateVerdict
from locust_llm.analysis.step import Attainment, Quantiles, ServerLoad, Status, StepResult
from locust_llm.analysis.verdict import Repeats, Verdict, VerdictKind


def results_dict(steps: Sequence[StepResult], verdict: Verdict | RateVerdict | None) -> dict[str, Any]:
    """`steps` and `verdict`, field by field."""
    return {"steps": [asdict(step) for step in steps], "verdict": asdict(verdict) if verdict is not None else None}


def steps_of(told: Mapping[str, Any]) -> tuple[StepResult, ...]:
    """The steps that `results_dict` described; raises KeyError, TypeError or ValueError when they are damaged."""
    return tuple(_step(each) for each in told["steps"])


def verdict_of(told: Mapping[str, Any]) -> Verdict | RateVerdict | None:
    """The verdict that `results_dict` described; raises as `steps_of` does."""
    verdict = told["verdict"]
    if verdict is None:
        return None
    if "sustained_rps" in verdict:
        told_rate = {"kind": RateKind(verdict["kind"]), "notes": tuple(verdict["notes"])}
        return RateVerdict(**{**verdict, **told_rate, "repeats": _repeats(verdict.get("repeats"))})
    low, high = verdict["bracket"]
    made = {
        "repeats": _repeats(verdict.get("repeats")),
        "kind": VerdictKind(verdict["kind"]),
        "bracket": (low, high),
        "zone": tuple(verdict["zone"]) if verdict["zone"] is not None else None,
        "cause": _cause(verdict["cause"]) if verdict["cause"] is not None else None,
        "notes": tuple(verdict["notes"]),
    }
    return Verdict(**{**verdict, **made})


def _repeats(told: Mapping[str, Any] | None) -> Repeats | None:
    return Repeats(tuple(told["values"]), told["wanted"], _interval(told["interval"])) if told is not None else None


def _interval(told: Mapping[str, Any]) -> Interval | NoInterval:
    return NoInterval(**told) if "reason" in told else Interval(**told)


def _cause(told: Mapping[str, Any]) -> Cause:
    return Cause(CauseKind(told["kind"]), dict(told["numbers"]), told["sentence"])


_ESTIMATES = ("throughput", "in_flight", "decoding", "tpot_ms", "backlog_per_s")
_QUANTILES = ("ttft", "tpot", "e2e")


def _step(told: Mapping[str, Any]) -> StepResult:
    made: dict[str, Any] = {"status": Status(told["status"]), "batches": tuple(told["batches"])}
    made |= {name: Estimate(**told[name]) for name in _ESTIMATES if told[name] is not None}
    made |= {name: Quantiles(**told[name]) for name in _QUANTILES}
    made["interval"] = _interval(told["interval"])
    if told["attainment"] is not None:
        made["attainment"] = Attainment(**told["attainment"])
    if told["server"] is not None:
        made["server"] = ServerLoad(**told["server"])
    return StepResult(**{**told, **made})
