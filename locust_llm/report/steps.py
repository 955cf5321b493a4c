"""Steps: the columns of a sweep or knee search, as every output shows them, and the verdict's words.

One list of columns serves them all; a new column is one line. What is missing is None (an empty cell), never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from locust_llm.analysis.rate import RateVerdict
from locust_llm.analysis.step import Quantiles, StepResult
from locust_llm.analysis.verdict import Verdict
from locust_llm.report.digits import three

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` for machines, `title` and `unit` for people, how it is got from a step."""

    key: str
    title: str
    unit: str
    of: Callable[[StepResult], Cell]


def _q(metric: str, q: str) -> Callable[[StepResult], Cell]:
    def get(step: StepResult) -> Cell:
        quantiles: Quantiles = getattr(step, metric)
        value: float | None = getattr(quantiles, q)
        return value

    return get


def _output_tps(step: StepResult) -> Cell:
    return step.throughput.value if step.throughput is not None and step.unit == "tok/s" else None


def error_labels(step: StepResult) -> Cell:
    return ", ".join(f"{label} ×{count}" for label, count in step.errors.items()) or None


COLUMNS: Final = (
    Column("load", "users", "", lambda step: int(step.load) if not step.open_loop else step.load),
    Column("running", "running", "", lambda step: step.users),
    Column("outcomes", "outcomes", "", lambda step: step.outcomes),
    Column("ttft_p50", "TTFT p50", "ms", _q("ttft", "p50")),
    Column("ttft_p95", "TTFT p95", "ms", _q("ttft", "p95")),
    Column("tpot_p50", "TPOT p50", "ms", _q("tpot", "p50")),
    Column("tpot_p95", "TPOT p95", "ms", _q("tpot", "p95")),
    Column("e2e_p95", "E2E p95", "ms", _q("e2e", "p95")),
    Column(
        "output_tps", "output", "tok/s", lambda s: s.throughput.value if s.throughput and s.unit == "tok/s" else None
    ),
    Column("req_per_s", "requests", "req/s", lambda step: step.requests_per_s),
    Column("failed", "errors", "", lambda step: step.failed),
    Column("status", "step", "", lambda step: step.status.value),
)
"""The columns that people compare; what a step knows besides is in the run document."""

CSV_COLUMNS: Final = (
    *COLUMNS,
    Column("in_flight", "in flight", "", lambda step: step.in_flight.value if step.in_flight else None),
    Column(
        "backlog_per_s", "backlog growth", "1/s", lambda step: step.backlog_per_s.value if step.backlog_per_s else None
    ),
    Column("decoding", "decoding", "streams", lambda step: step.decoding.value if step.decoding else None),
    Column("power", "power", "tok²/s²", lambda step: step.power or None),
    Column("refused", "refused", "", lambda step: step.refused),
    Column("attainment", "SLO attainment", "", lambda step: step.attainment.share if step.attainment else None),
    Column("server_running", "server running", "", lambda step: step.server.running if step.server else None),
    Column("server_waiting", "server waiting", "", lambda step: step.server.waiting if step.server else None),
    Column("kv_use", "server KV use", "", lambda step: step.server.kv_use if step.server else None),
    Column("preemptions", "server preemptions", "", lambda step: step.server.preemptions if step.server else None),
    Column("prefix_hits", "server prefix hits", "", lambda step: step.server.prefix_hits if step.server else None),
    Column("window_s", "window", "s", lambda step: step.end_s - step.begin_s),
    Column("output_factor", "answer length asked for", "times", lambda step: step.output_factor),
    Column("repeat", "repeat", "", lambda step: step.repeat),
    Column("error_labels", "error labels", "", error_labels),
    Column("why", "why", "", lambda step: step.why if step.status.value != "steady" else None),
)


def heading(column: Column) -> str:
    """`TTFT p50 (ms)`."""
    return f"{column.title} ({column.unit})" if column.unit else column.title


def columns_of(columns: Sequence[Column], steps: Sequence[StepResult]) -> tuple[Column, ...]:
    """The columns for these steps: the load of open loop is a rate."""
    rates = bool(steps) and steps[0].open_loop
    return tuple(replace(c, title="rate", unit="req/s") if rates and c.key == "load" else c for c in columns)


def verdict_lines(verdict: Verdict | RateVerdict) -> list[str]:
    """The verdict in words: the sentence, what else it found, and notes."""
    said = [verdict.sentence]
    if isinstance(verdict, RateVerdict):
        return [*said, *(f"note: {note}" for note in verdict.notes)]
    if verdict.saturation is not None:
        said.append(f"Saturation (95 % of the highest throughput) at {verdict.saturation:.3g} users.")
    if verdict.littles_bound is not None:
        said.append(f"Little's bound N* = X_max · R_1: {verdict.littles_bound:.3g} users.")
    if verdict.rate_to_confirm_rps is not None:
        rate = verdict.rate_to_confirm_rps
        said.append(
            f"What a closed loop serves is no rate that independent arrivals can have: confirm 0.8 of it with"
            f" locust --config configs/open.conf --llm-rate {rate:.3g}"
        )
    return [*said, *(f"note: {note}" for note in verdict.notes)]


def steps_dict(steps: Sequence[StepResult], verdict: Verdict | RateVerdict | None) -> dict[str, Any]:
    """Steps and verdict as plain values: for the Knee panel, the report and the run document."""
    return {
        "columns": [
            {"key": column.key, "title": column.title, "unit": column.unit} for column in columns_of(CSV_COLUMNS, steps)
        ],
        "rows": [{column.key: _rounded(column.of(step)) for column in CSV_COLUMNS} for step in steps],
        "verdict": _verdict_dict(verdict) if verdict is not None else None,
    }


def _verdict_dict(verdict: Verdict | RateVerdict) -> dict[str, Any]:
    plain = asdict(verdict)
    plain["kind"] = verdict.kind.value
    if isinstance(verdict, Verdict) and verdict.cause is not None:
        plain["cause"]["kind"] = verdict.cause.kind.value
    plain["words"] = verdict_lines(verdict)
    return plain


def _rounded(value: Cell) -> Cell:
    return three(value) if isinstance(value, float) else value
