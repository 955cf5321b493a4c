"""What the figures rest on: too few, too short, cut off."""

from __future__ import annotations

from typing import Final

from locust_llm.measure.catalogue import TPOT, TTFT
from locust_llm.measure.findings.finding import Finding, RunFacts, note, number, percent, warning
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import ENOUGH, too_few
from locust_llm.measure.throughput import steady_throughput

LEFT_OUT_LIMIT: Final = 0.05
CANCELLED_LIMIT: Final = 0.1


def few_samples(stats: RunStats, facts: RunFacts) -> Finding | None:
    """A percentile that is shown rests on too few samples."""
    n = stats.histogram(TTFT).count
    shown = [q for q in (0.5, 0.9, 0.95, 0.99) if too_few(q, n)]
    if not n or not shown:
        return None
    labels = ", ".join(f"p{100 * q:g} ({ENOUGH[q]})" for q in shown)
    return note(
        "few_samples",
        f"{number(n, 'sample')} of TTFT are too few for {labels} (samples needed in brackets). Run longer, or read a "
        "lower percentile.",
    )


def beyond_the_limit(stats: RunStats, facts: RunFacts) -> Finding | None:
    """So many failed that high percentiles are unknown (D22)."""
    counts = stats.counts()
    if not counts.failed or not counts.succeeded:
        return None
    share = counts.succeeded / counts.outcomes
    unknown = [q for q in (0.5, 0.9, 0.95, 0.99) if q > share]
    if not unknown:
        return None
    limit = f" They lie above {facts.timeout_s:g} s where the time limit cut them off." if facts.timeout_s else ""
    return warning(
        "censored",
        f"{counts.failed} of {number(counts.outcomes, 'request')} failed: from p{100 * unknown[0]:g} on, percentiles "
        f"with failures are unknown, and those of the successes look too good.{limit}",
    )


def left_out(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Many answers are too short for a TPOT."""
    counts = stats.counts()
    if not counts.tpot_judged or counts.tpot_left_out / counts.tpot_judged <= LEFT_OUT_LIMIT:
        return None
    limit = facts.min_tokens if facts.min_tokens is not None else stats.min_tokens
    return note(
        "left_out",
        f"{percent(counts.tpot_left_out / counts.tpot_judged)} of the answers have fewer than {limit} tokens and are "
        f"left out of TPOT (limit {percent(LEFT_OUT_LIMIT)}; n = {stats.histogram(TPOT).count}). Ask for longer "
        "answers or lower --llm-min-tokens; the token-weighted TPOT has them all.",
    )


def many_cancelled(stats: RunStats, facts: RunFacts) -> Finding | None:
    """We cut off many requests, the long ones first."""
    counts = stats.counts()
    if not counts.ended or counts.cancelled / counts.ended <= CANCELLED_LIMIT:
        return None
    now = f" (now {facts.stop_timeout_s:g} s)" if facts.stop_timeout_s is not None else ""
    return warning(
        "many_cancelled",
        f"{percent(counts.cancelled / counts.ended)} of the requests were cut off by the end of the run or a "
        f"ramp-down (limit {percent(CANCELLED_LIMIT)}); long answers are hit first, so latencies look too good. Raise "
        f"--stop-timeout{now} or run longer.",
    )


def no_steady_window(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The wanted users never ran together for a whole second (D28)."""
    if stats.stopped_s is None or not stats.counts().started or steady_throughput(stats) is not None:
        return None
    return note(
        "no_steady_window",
        "There was no steady window: the run stopped before all users had run for a whole second, so that its "
        "throughput is that of a ramp. Run longer than users / spawn rate.",
    )
