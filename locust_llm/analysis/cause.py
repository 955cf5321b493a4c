"""Why the knee sits where it does: what changes between the end of the bracket and a step well past it.

Theory of operation. D = X · TPOT is the number of streams that decode at once, by Little's law on the decode phase; L
is what the server was given. Past the knee the users go on growing; what grows with them tells:

- requests are sent away (429, 503) and L stays flat: the front door is the limit;
- throughput falls below its peak: the server collapses under load;
- L grows and D does not: requests wait, for a slot or for room in KV. From outside the two look alike. The server's own
  metrics tell them apart, else a probe step with doubled output length: slots stay as many, KV holds fewer;
- D, L and TPOT all grow: everybody is served at once and each step takes longer, so streams slow each other.

Growth is measured as elasticity, d ln Y / d ln x: 1 when Y doubles with x, 0 when it stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from locust_llm.analysis.batches import Estimate
from locust_llm.analysis.step import StepResult

REFUSED_SHARE: Final = 0.01
COLLAPSE_SHARE: Final = 0.05
COLLAPSE_ERRORS: Final = 3.0
FLAT: Final = 0.3
"""An elasticity below this is flat, one above it grows."""

TPOT_GROWS: Final = 0.15
"""TPOT rises less than D with contention: part of a step's time is the same for any batch."""

PROBE_FACTOR: Final = 2.0
PROBE_LONGER: Final = 1.5
"""Answers that end by themselves do not get longer when asked to; then a probe tells nothing."""

PROBE_FALL: Final = 0.07
PROBE_ERRORS: Final = 2.0
KV_FULL: Final = 0.9
KV_FREE: Final = 0.8

SLOTS_ONLY: Final = ("llama.cpp",)
"""Engines that hold a request back for want of a slot alone: each slot has its KV for itself."""

_SERVER_NAMES: Final = {"running": "server_running", "waiting": "server_waiting"}


class CauseKind(StrEnum):
    """What limits the server past the knee."""

    RATE_LIMIT = "rate or admission limit"
    COLLAPSE = "collapse"
    SLOT = "slots"
    KV = "KV capacity"
    SLOT_OR_KV = "slots or KV capacity"
    CONTENTION = "decode contention"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause, the numbers it rests on (by name), and a sentence that says both."""

    kind: CauseKind
    numbers: dict[str, float]
    sentence: str


def find_cause(before: StepResult, past: StepResult, peak: StepResult, probe: StepResult | None = None) -> Cause:
    """The cause from a step `before` and one `past`, both beyond the knee, and that of the highest throughput.

    `probe`: a step with as many users as `past` and `PROBE_FACTOR` times its output length.
    """
    numbers = _numbers(before, past)
    growth = numbers.get("in_flight_growth")
    if past.refused_share > REFUSED_SHARE and growth is not None and growth < FLAT:
        return _rate_limit(numbers, past)
    if _collapsed(peak, past):
        return _collapse(numbers, peak, past)
    decoding_growth, tpot_growth = numbers.get("decoding_growth"), numbers.get("tpot_growth")
    if growth is None or decoding_growth is None or tpot_growth is None:
        return Cause(CauseKind.UNCLEAR, numbers, "The cause is unclear: nothing tells how many streams decode at once.")
    if growth >= FLAT and decoding_growth < FLAT:
        return _queue(numbers, before, past, probe)
    if growth >= FLAT and tpot_growth > TPOT_GROWS:
        return _contention(numbers, before, past)
    sentence = f"The cause is unclear: {_from_to(before, past)}, {_grew(numbers)}."
    return Cause(CauseKind.UNCLEAR, numbers, sentence)


def wants_probe(cause: Cause | None) -> bool:
    """Whether a step with doubled output length would tell more."""
    return cause is not None and cause.kind is CauseKind.SLOT_OR_KV and "probe_decoding" not in cause.numbers


def _numbers(before: StepResult, past: StepResult) -> dict[str, float]:
    numbers = {
        "users_before": before.users,
        "users_past": past.users,
        "refused_share": past.refused_share,
    }
    pairs = (
        ("in_flight", before.in_flight, past.in_flight),
        ("decoding", before.decoding, past.decoding),
        ("tpot", before.tpot_ms, past.tpot_ms),
        ("throughput", before.throughput, past.throughput),
    )
    for name, earlier, later in pairs:
        if earlier is not None and later is not None:
            numbers[f"{name}_before"], numbers[f"{name}_past"] = earlier.value, later.value
            growth = _elasticity(before.users, past.users, earlier, later)
            if growth is not None:
                numbers[f"{name}_growth"] = growth
    return numbers


def _elasticity(users: float, more: float, earlier: Estimate, later: Estimate) -> float | None:
    if not 0 < users < more or earlier.value <= 0 or later.value <= 0:
        return None
    return math.log(later.value / earlier.value) / math.log(more / users)


def _collapsed(peak: StepResult, past: StepResult) -> bool:
    """Whether throughput past the knee is more than 5 % and 3 standard errors below its peak."""
    if peak.throughput is None or past.throughput is None:
        return False
    lost = peak.throughput.value - past.throughput.value
    error = math.hypot(peak.throughput.error, past.throughput.error)
    return lost > COLLAPSE_SHARE * peak.throughput.value and lost > COLLAPSE_ERRORS * error


def _rate_limit(numbers: dict[str, float], past: StepResult) -> Cause:
    label = next(iter(past.errors), "refusals")
    sentence = (
        f"A rate or admission limit: at {past.users:.0f} users {_percent(past.refused_share)} of the requests were "
        f"sent away ({label}) and requests in flight stayed at {_value(past.in_flight)}."
    )
    return Cause(CauseKind.RATE_LIMIT, numbers, sentence)


def _collapse(numbers: dict[str, float], peak: StepResult, past: StepResult) -> Cause:
    assert peak.throughput is not None
    assert past.throughput is not None
    lost = 1 - past.throughput.value / peak.throughput.value
    sentence = (
        f"The server collapses under load: {past.throughput.value:.4g} {past.unit} at {past.users:.0f} users, "
        f"{_percent(lost)} below the {peak.throughput.value:.4g} at {peak.users:.0f}{_preempted(past)}."
    )
    return Cause(CauseKind.COLLAPSE, numbers | {"throughput_lost": lost}, sentence)


def _queue(numbers: dict[str, float], before: StepResult, past: StepResult, probe: StepResult | None) -> Cause:
    kind, told = _slot_or_kv(numbers, past, probe)
    wait = {
        CauseKind.SLOT: "requests queue for a slot",
        CauseKind.KV: "requests queue for room in the KV cache",
    }.get(kind, "requests queue for a slot or for room in the KV cache; from outside the two look alike")
    sentence = (
        f"{_value(past.decoding)} decode at once and {wait}: {_from_to(before, past)} streams decoding went from "
        f"{_value(before.decoding)} to {_value(past.decoding)}, requests in flight from {_value(before.in_flight)} to "
        f"{_value(past.in_flight)}{told}."
    )
    return Cause(kind, numbers, sentence)


def _slot_or_kv(numbers: dict[str, float], past: StepResult, probe: StepResult | None) -> tuple[CauseKind, str]:
    """Which of the two, and what told it."""
    server = past.server
    if server is not None:
        names = ("kv_use", "preemptions", "running", "waiting")
        known = {name: getattr(server, name) for name in names if getattr(server, name) is not None}
        numbers.update({_SERVER_NAMES.get(name, name): float(value) for name, value in known.items()})
        if server.preemptions:
            return CauseKind.KV, f"; the server preempted {server.preemptions} requests"
        if server.kv_use is not None and server.kv_use >= KV_FULL:
            return CauseKind.KV, f"; the server's KV cache was {_percent(server.kv_use)} full"
        if server.kv_use is not None and server.kv_use < KV_FREE:
            return CauseKind.SLOT, f"; the server's KV cache was only {_percent(server.kv_use)} full"
        if server.engine in SLOTS_ONLY and server.running is not None and server.waiting:
            held = f"{server.engine} itself held {server.running:.3g} in its slots and {server.waiting:.3g} back"
            return CauseKind.SLOT, f"; {held}"
    if probe is None or probe.decoding is None or past.decoding is None:
        return CauseKind.SLOT_OR_KV, ""
    numbers["probe_decoding"] = probe.decoding.value
    longer = _tokens_each(probe) / _tokens_each(past)
    if longer < PROBE_LONGER:
        return (
            CauseKind.SLOT_OR_KV,
            f"; asked for {probe.output_factor:g} times the length, answers grew by {longer:.2g} only",
        )
    fell = past.decoding.value - probe.decoding.value
    error = math.hypot(past.decoding.error, probe.decoding.error)
    told = f"; with answers {probe.output_factor:g} times as long {_value(probe.decoding)} decode at once"
    if fell > PROBE_FALL * past.decoding.value and fell > PROBE_ERRORS * error:
        return CauseKind.KV, told
    return CauseKind.SLOT, told


def _tokens_each(step: StepResult) -> float:
    """Tokens for each request that succeeded."""
    rate = step.throughput.value if step.throughput is not None else 0.0
    return rate / step.requests_per_s if step.requests_per_s > 0 else math.inf


def _contention(numbers: dict[str, float], before: StepResult, past: StepResult) -> Cause:
    assert before.tpot_ms is not None
    assert past.tpot_ms is not None
    sentence = (
        f"Streams slow each other (decode contention): {_from_to(before, past)} streams decoding went from "
        f"{_value(before.decoding)} to {_value(past.decoding)} and TPOT from {before.tpot_ms.value:.3g} to "
        f"{past.tpot_ms.value:.3g} ms."
    )
    return Cause(CauseKind.CONTENTION, numbers, sentence)


def _from_to(before: StepResult, past: StepResult) -> str:
    return f"from {before.users:.0f} to {past.users:.0f} users"


def _grew(numbers: dict[str, float]) -> str:
    names = (("in_flight", "requests in flight"), ("decoding", "streams decoding"), ("tpot", "TPOT"))
    return ", ".join(
        f"{title} went from {numbers[f'{name}_before']:.3g} to {numbers[f'{name}_past']:.3g}"
        for name, title in names
        if f"{name}_growth" in numbers
    )


def _preempted(past: StepResult) -> str:
    if past.server is None or not past.server.preemptions:
        return ""
    return f"; it preempted {past.server.preemptions} requests"


def _value(estimate: Estimate | None) -> str:
    return f"{estimate.value:.3g}" if estimate is not None else "an unknown number"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
