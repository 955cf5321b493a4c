"""Gates: what became of them, as words for people and as plain values for the run document and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.analysis.gate_figures import read
from locust_llm.analysis.intervals import Interval, NoInterval
from locust_llm.analysis.judgement import GateResult, GateStatus, Judgement
from locust_llm.measure.gate import Gate, parse_gate
from locust_llm.measure.stats import RunStats
from locust_llm.report.digits import short

NO_FIGURE: Final = "no figure"

MET_SO_FAR: Final = "met so far"
BREACHED_SO_FAR: Final = "breached so far"
TOO_EARLY: Final = "too early to tell"


@dataclass(frozen=True, slots=True)
class GateLine:
    """One gate in words: its status, itself, its figure with interval and n, and why it was not judged (or '')."""

    status: GateStatus
    gate: str
    figure: str
    reason: str

    @property
    def text(self) -> str:
        """All but the status."""
        return f"{self.gate}: {self.figure}" + (f"; {self.reason}" if self.reason else "")


def gate_lines(judgement: Judgement) -> Iterator[GateLine]:
    """Every gate. What is wrong with the whole run is told once, in `verdict_text`."""
    for result in judgement.results:
        reason = result.reason if result.reason is not None and result.reason != judgement.reason else ""
        yield GateLine(result.status, str(result.gate), figure_text(result), reason)


def verdict_text(judgement: Judgement) -> str:
    """The outcome of all gates in one sentence."""
    if judgement.reason is not None:
        return f"The run could not be judged: {judgement.reason}."
    by_status = {status: [str(r.gate) for r in judgement.results if r.status is status] for status in GateStatus}
    breached = by_status[GateStatus.BREACHED]
    if judgement.status is GateStatus.BREACHED:
        named = f"breached: {', '.join(breached)}" if breached else ""
        sentence = "; ".join(part for part in (judgement.overloaded, named) if part)
        return f"{sentence[:1].upper()}{sentence[1:]}."
    if judgement.status is GateStatus.UNJUDGED:
        return f"Could not be judged: {', '.join(by_status[GateStatus.UNJUDGED])}."
    return "The gate is met." if len(judgement.results) == 1 else f"All {len(judgement.results)} gates are met."


def figure_text(result: GateResult) -> str:
    """The figure in the gate's unit, its interval, and n."""
    measured = measured_text(result)
    if measured == NO_FIGURE:
        return NO_FIGURE
    interval = interval_text(result)
    if isinstance(result.interval, NoInterval):
        return f"{measured}, n {result.n:,}, no interval: {result.interval.reason}"
    return f"{measured} ({interval}), n {result.n:,}"


def measured_text(result: GateResult) -> str:
    """The figure alone, in the gate's unit."""
    if result.beyond:
        return "above every success, among the failures"
    return _quantity(result.gate, result.value) if result.value is not None else NO_FIGURE


def interval_text(result: GateResult) -> str:
    """The interval alone, what it covers and the batches it rests on; or why there is none."""
    interval = result.interval
    if isinstance(interval, NoInterval):
        return f"none: {interval.reason}"
    low = _number(result.gate, interval.low)
    span = f"{low} to {_number(result.gate, interval.high)}" if math.isfinite(interval.high) else f"{low} or more"
    return f"{span} {interval.label}, {interval.batches} batches"


def _quantity(gate: Gate, value: float) -> str:
    unit = gate.unit if gate.unit else "tok/s"
    return f"{_number(gate, value)} {unit}"


def _number(gate: Gate, value: float) -> str:
    factor = {"us": 1e3, "s": 1e-3, "%": 100.0}.get(gate.unit, 1.0)
    return f"{short(value * factor):,}"


# -- plain values --------------------------------------------------------------------------------------------------


def gates_dict(judgement: Judgement) -> dict[str, Any]:
    """Plain values, without inf: what lies among the failures is null and `beyond`."""
    return {
        "status": judgement.status.value,
        "exit_code": judgement.exit_code,
        "sentence": verdict_text(judgement),
        "reason": judgement.reason,
        "overloaded": judgement.overloaded,
        "results": [_result_dict(result) for result in judgement.results],
    }


def _result_dict(result: GateResult) -> dict[str, Any]:
    return {
        "gate": str(result.gate),
        "status": result.status.value,
        "value": result.value,
        "beyond": result.beyond,
        "limit": result.gate.limit,
        "n": result.n,
        **_interval_dict(result.interval),
        "reason": result.reason,
        "text": figure_text(result),
        "measured": measured_text(result),
        "interval": interval_text(result),
    }


def so_far_dict(stats: RunStats, gates: Sequence[Gate]) -> dict[str, Any]:
    """How gates stand while the test runs, as plain values: provisional, without intervals, and no judgement."""
    results = [_so_far(stats, gate) for gate in gates]
    breached = sum(result["status"] == BREACHED_SO_FAR for result in results)
    unknown = sum(result["status"] == TOO_EARLY for result in results)
    status = BREACHED_SO_FAR if breached else TOO_EARLY if unknown else MET_SO_FAR
    told = {BREACHED_SO_FAR: breached, MET_SO_FAR: len(results) - breached - unknown, TOO_EARLY: unknown}
    counted = ", ".join(f"{count} {what}" for what, count in told.items() if count)
    sentence = f"Provisional: {counted}. They are judged when the test is over."
    return {"status": status, "sentence": sentence, "results": results}


def _so_far(stats: RunStats, gate: Gate) -> dict[str, Any]:
    reading = read(stats, gate, NoInterval("the test runs"))
    beyond = reading.value == math.inf
    status = TOO_EARLY
    if reading.missing is None and reading.value is not None:
        status = MET_SO_FAR if gate.holds(reading.value) else BREACHED_SO_FAR
    value = None if beyond else reading.value
    result = GateResult(gate, GateStatus.UNJUDGED, value, beyond, reading.n, reading.interval, reading.missing)
    return _result_dict(result) | {"status": status}


def _interval_dict(interval: Interval | NoInterval) -> dict[str, Any]:
    if isinstance(interval, NoInterval):
        return {"low": None, "high": None, "batches": None, "no_interval": interval.reason}
    low, high = _finite(interval.low), _finite(interval.high)
    return {"low": low, "high": high, "batches": interval.batches, "no_interval": None}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def judgement_of(told: Mapping[str, Any]) -> Judgement:
    """The judgement that `gates_dict` described; raises KeyError or ValueError when parts are missing."""
    return Judgement(tuple(_result_of(each) for each in told["results"]), told["reason"], told["overloaded"])


def _result_of(told: Mapping[str, Any]) -> GateResult:
    def end(value: float | None) -> float:
        return value if value is not None else math.inf

    interval: Interval | NoInterval
    if told["no_interval"] is not None:
        interval = NoInterval(told["no_interval"])
    else:
        interval = Interval(end(told["low"]), end(told["high"]), told["batches"])
    return GateResult(
        parse_gate(told["gate"]),
        GateStatus(told["status"]),
        told["value"],
        told["beyond"],
        told["n"],
        interval,
        told["reason"],
    )
