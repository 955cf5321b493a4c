"""SLO: a limit that each request has to meet by itself, as `--llm-slo` takes it: `ttft<500ms`. The grammar is `gate`'s.

A request that succeeded and meets every limit is good; goodput is good requests per second, and their share of the
outcomes. A metric that a request does not have (the TPOT of one token, the TTFT of an answer that was not streamed) is
not judged; an answer without any metric to judge is in neither count. --llm-min-tokens does not apply. A failed request
is a miss. One that we cut off stands apart, unless it had missed a limit by then, whatever would have come.

The presets are the latency limits of MLPerf Inference, server and interactive scenarios, by their model:
github.com/mlcommons/inference, loadgen/mlperf.conf, `Server.ttft_latency` and `Server.tpot_latency` (ms) at commit
001712e. MLPerf asks them of the 99th percentile over a run of at least 10 minutes with Poisson arrivals, and counts
from the scheduled arrival; here they are asked of each request, and TTFT counts from `sent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from locust_llm.measure import metrics
from locust_llm.measure.arrivals import gaps_ms
from locust_llm.measure.catalogue import E2E, ITL, TPOT, TTFT
from locust_llm.measure.expression import COMPARISONS, TIME, base, parse, parse_share, plain
from locust_llm.measure.gate import check_side, check_unit, unknown
from locust_llm.measure.record import Outcome, RequestRecord

_MS: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Slo:
    """One limit on one metric of a request: ttft, tpot, itl (its largest gap) or e2e. `str` gives what parses to it."""

    metric: str
    comparison: str
    number: float
    unit: str

    @property
    def limit_ms(self) -> float:
        """The limit."""
        return base(self.number, self.unit)

    def holds(self, value_ms: float) -> bool:
        """Whether a value is within the limit."""
        return COMPARISONS[self.comparison](value_ms, self.limit_ms)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{plain(self.number)}{self.unit}"


def parse_slo(text: str) -> Slo:
    """The SLO that a text describes; raises ExpressionError, which points at the character."""
    found = parse(text)
    if found.name is not None:
        found.fail("an SLO is for all requests: leave out the name", found.metric)
    if found.metric.text not in _ENDED:
        found.fail(unknown(found.metric.text, _ENDED), found.metric)
    if found.percentile is not None:
        found.fail("an SLO is for each request: leave out the percentile (--llm-gate takes one)", found.percentile)
    check_side(found, falls=True)
    check_unit(found, TIME)
    return Slo(found.metric.text, found.comparison.text, found.number, found.unit.text)


def parse_target(text: str) -> float:
    """`95%` or `0.95` as 0.95; raises ValueError unless it lies above 0 and at most at 1."""
    if text.strip().endswith("%"):
        return parse_share(text)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"a share such as 95% or 0.95 is expected, not {text!r}")
    return share


def met(record: RequestRecord, slos: Sequence[Slo]) -> bool | None:
    """Whether the request met every SLO; None when it is not judged."""
    if not slos:
        return None
    if record.outcome is Outcome.FAILED:
        return False
    values = _ENDED if record.success else _SO_FAR
    held = [slo.holds(value) for slo in slos if (value := values[slo.metric](record)) is not None]
    if not all(held):
        return False
    return True if held and record.success else None


def _largest_gap_ms(record: RequestRecord) -> float | None:
    gaps = metrics.itl_ms(record)
    return float(gaps.max()) if len(gaps) else None


# -- of a request that was cut off: what each metric is at least ----------------------------------------------------


def _waited_ms(record: RequestRecord, until_ns: int) -> float | None:
    sent_ns = record.transit.sent_ns
    return (until_ns - sent_ns) * _MS if sent_ns is not None else None


def _ttft_so_far_ms(record: RequestRecord) -> float | None:
    return _waited_ms(record, record.event_ns[0] if record.event_ns else record.ended_ns)


def _gap_so_far_ms(record: RequestRecord) -> float | None:
    if not record.event_ns:
        return None
    gaps, _ = gaps_ms(record.event_ns, record.event_choice, 0)
    return max((record.ended_ns - record.event_ns[-1]) * _MS, float(gaps.max(initial=0.0)))


def _e2e_so_far_ms(record: RequestRecord) -> float | None:
    return _waited_ms(record, record.ended_ns)


_Values = dict[str, Callable[[RequestRecord], float | None]]
_ENDED: Final[_Values] = {TTFT: metrics.ttft_ms, TPOT: metrics.tpot_ms, ITL: _largest_gap_ms, E2E: metrics.e2e_ms}
_SO_FAR: Final[_Values] = {
    TTFT: _ttft_so_far_ms,
    TPOT: lambda record: None,  # how many tokens there would have been is not known
    ITL: _gap_so_far_ms,
    E2E: _e2e_so_far_ms,
}


def _preset(ttft_ms: int, tpot_ms: int) -> tuple[Slo, ...]:
    return Slo(TTFT, "<=", ttft_ms, "ms"), Slo(TPOT, "<=", tpot_ms, "ms")


PRESETS: Final[dict[str, tuple[Slo, ...]]] = {
    "llama2-70b": _preset(2000, 200),
    "llama2-70b-interactive": _preset(450, 40),
    "mixtral-8x7b": _preset(2000, 200),
    "llama3.1-8b": _preset(2000, 100),
    "llama3.1-8b-interactive": _preset(500, 30),
    "llama3.1-405b": _preset(6000, 175),
    "llama3.1-405b-interactive": _preset(4500, 80),
    "deepseek-r1": _preset(2000, 80),
    "deepseek-r1-interactive": _preset(1500, 15),
}
