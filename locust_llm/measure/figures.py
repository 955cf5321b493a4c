"""Figures: the rates, shares and counts of a run or of one request name; one function and one line each.

A figure that cannot be told (yet) is None. `name=None` means all requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from locust_llm.measure.counts import Counts
from locust_llm.measure.throughput import Throughput, run_throughput, steady_throughput

if TYPE_CHECKING:
    from locust_llm.measure.stats import RunStats


class Kind(StrEnum):
    """What sort of number a figure is, and so how it is written."""

    RATE = "rate"
    SHARE = "share"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. A share is a fraction (0.25, shown as 25 %); `help` is its definition in one sentence."""

    key: str
    title: str
    unit: str
    kind: Kind
    help: str
    of: Callable[[RunStats, str | None], float | int | None]


def output_tokens_arrived(stats: RunStats, name: str | None = None) -> float:
    """Output tokens that have arrived so far: of all outcomes, of running requests, drain included."""
    names = stats.names if name is None else [name]
    unweighed = stats.series.open_events()
    total = 0.0
    for each in names:
        counts = stats.counts(each)
        total += counts.output_tokens + counts.partial_tokens
        total += unweighed.get(each, 0) * stats.tokens_per_event(each)
    return total


def output_throughput(stats: RunStats, name: str | None = None) -> float | None:
    """The run's; a name's is its share of all the tokens."""
    return _of_run(stats, name, lambda run: run.output_tokens_per_s, output_tokens_arrived)


def input_throughput(stats: RunStats, name: str | None = None) -> float | None:
    """The run's; a name's is its share of all input tokens."""
    return _of_run(stats, name, lambda run: run.input_tokens_per_s, lambda s, n: s.counts(n).input_tokens)


def request_throughput(stats: RunStats, name: str | None = None) -> float | None:
    """The run's; a name's is its share of all successes."""
    return _of_run(stats, name, lambda run: run.requests_per_s, lambda s, n: s.counts(n).succeeded)


def goodput(stats: RunStats, name: str | None = None) -> float | None:
    """None without SLOs. While the run is not stopped: the share of successes that met them, of their rate."""
    counts = stats.counts(name)
    run = run_throughput(stats)
    if not counts.slo_judged or run is None:
        return None
    if stats.stopped_s is None:
        rate = request_throughput(stats, name)
        return rate * counts.slo_met / counts.succeeded if rate and counts.succeeded else 0.0
    return (counts.slo_met - counts.drained_met) / run.duration_s


def _of_run(
    stats: RunStats,
    name: str | None,
    rate: Callable[[Throughput], float],
    part: Callable[[RunStats, str | None], float],
) -> float | None:
    run = run_throughput(stats)
    if run is None:
        return None
    if name is None:
        return rate(run)
    whole = part(stats, None)
    return rate(run) * part(stats, name) / whole if whole else 0.0


def steady_output_throughput(stats: RunStats, name: str | None = None) -> float | None:
    """None for single names, and when the run had no steady window."""
    steady = steady_throughput(stats) if name is None else None
    return steady.output_tokens_per_s if steady is not None else None


def peak_output_throughput(stats: RunStats, name: str | None = None) -> float | None:
    """None for single names."""
    run = run_throughput(stats) if name is None else None
    return run.peak if run is not None else None


def weighted_tpot_ms(stats: RunStats, name: str | None = None) -> float | None:
    """Σ(last event - first) / Σ(tokens after the first event), unfiltered."""
    counts = stats.counts(name)
    return counts.decode_ns * 1e-6 / counts.decode_tokens if counts.decode_tokens else None


def output_speed(stats: RunStats, name: str | None = None) -> float | None:
    """1 / token-weighted TPOT."""
    tpot = weighted_tpot_ms(stats, name)
    return 1e3 / tpot if tpot else None


def tokens_per_event(stats: RunStats, name: str | None = None) -> float | None:
    """None while no server has told its tokens."""
    counts = stats.counts(name)
    return counts.weighed_tokens / counts.weighed_events if counts.weighed_events else None


def stalls_per_1000(stats: RunStats, name: str | None = None) -> float | None:
    """None without an answer that has gaps."""
    counts = stats.counts(name)
    return 1e3 * counts.stalls / counts.gap_tokens if counts.gap_tokens else None


def _rate(key: str, title: str, unit: str, of: Callable[[RunStats, str | None], float | None], help: str) -> Figure:
    return Figure(key, title, unit, Kind.RATE, help, of)


def _share(key: str, title: str, of: Callable[[Counts], tuple[int, int]], help: str) -> Figure:
    def share(stats: RunStats, name: str | None) -> float | None:
        part, whole = of(stats.counts(name))
        return part / whole if whole else None

    return Figure(key, title, "", Kind.SHARE, help, share)


def _count(key: str, title: str, of: Callable[[Counts], int], help: str, unit: str = "") -> Figure:
    return Figure(key, title, unit, Kind.COUNT, help, lambda stats, name: of(stats.counts(name)))


FIGURES: Final = (
    _rate(
        "output_throughput",
        "Output",
        "tok/s",
        output_throughput,
        "Output tokens that arrived from the first request sent after warm-up to the stop request, per second.",
    ),
    _rate(
        "steady_output_throughput",
        "Output, steady",
        "tok/s",
        steady_output_throughput,
        "The same in the steady window: from all users running to the stop request, in whole seconds.",
    ),
    _rate("peak_output_throughput", "Output, peak", "tok/s", peak_output_throughput, "The fullest second."),
    _rate("output_speed", "Output speed", "tok/s", output_speed, "Of one running answer: 1 / token-weighted TPOT."),
    _rate(
        "weighted_tpot",
        "TPOT, token-weighted",
        "ms",
        weighted_tpot_ms,
        "Sum of (last output event - first) / sum of the tokens after the first event, over all successes.",
    ),
    _rate("input_throughput", "Input", "tok/s", input_throughput, "Input tokens, counted as their answers begin."),
    _rate("request_throughput", "Requests", "req/s", request_throughput, "Successful ends before the stop request."),
    _rate(
        "goodput",
        "Goodput",
        "req/s",
        goodput,
        "Successes that meet every SLO, per second, as far as they ended before the stop request.",
    ),
    _rate(
        "tokens_per_event",
        "Tokens per event",
        "tok",
        tokens_per_event,
        "Streamed tokens / output events, where the server told the tokens.",
    ),
    _rate(
        "stalls_per_1000",
        "Stalls",
        "per 1,000 tok",
        stalls_per_1000,
        "Gaps between output events longer than --llm-stall, per 1,000 streamed tokens.",
    ),
    _share("failed_share", "Failed", lambda c: (c.failed, c.outcomes), "Failed / (succeeded + failed)."),
    _share(
        "goodput_share",
        "Goodput",
        lambda c: (c.slo_met, c.slo_judged),
        "Requests that meet every SLO / outcomes that could be judged, and cancelled ones that had missed one.",
    ),
    _share("cancelled_share", "Cancelled", lambda c: (c.cancelled, c.ended), "Cut off by us / all that ended."),
    _share(
        "cached_share",
        "Cached input",
        lambda c: (c.cached_tokens, c.cache_judged_tokens),
        "Input tokens from the server's prefix cache / input tokens of the requests that told.",
    ),
    _share(
        "smooth_share",
        "Reader never waits",
        lambda c: (c.readers - c.readers_waited, c.readers),
        "Answers that a reader of 20 tokens a second, from the first one on, never has to wait for.",
    ),
    _share(
        "coalesced_share",
        "Coalesced events",
        lambda c: (c.coalesced_events, c.events),
        "Output events read together with the one before, so that their time is an upper bound.",
    ),
    _share(
        "lagged_share",
        "Lagged requests",
        lambda c: (c.lagged, c.ended),
        "Requests whose stamps this client's own delay may have touched by more than 5 ms.",
    ),
    _share(
        "reused_share",
        "Connections reused",
        lambda c: (c.connections_reused, c.connections_reused + c.connections_new),
        "Requests sent on a connection that was already open.",
    ),
    _count("started", "Started", lambda c: c.started, "Requests handed to the client, without warm-up."),
    _count("succeeded", "Succeeded", lambda c: c.succeeded, "Requests with a complete answer."),
    _count("failed", "Failed", lambda c: c.failed, "Requests that ended in any other way, but not by us."),
    _count("cancelled", "Cancelled", lambda c: c.cancelled, "Requests cut off by us, at the stop or a ramp-down."),
    _count("slo_met", "Met SLOs", lambda c: c.slo_met, "Successes that meet every SLO."),
    _count("slo_missed", "Missed SLOs", lambda c: c.slo_missed, "Failures, and requests that miss an SLO."),
    _count("slo_unjudged", "Not judged", lambda c: c.slo_unjudged, "Successes without a metric that an SLO is on."),
    _count("in_flight", "In flight", lambda c: c.in_flight, "Started and not ended yet."),
    _count("warmup", "Warm-up", lambda c: c.warmup_ended, "Warm-up requests; in no other figure."),
    _count("output_tokens", "Output tokens", lambda c: c.output_tokens, "Sum of N over successes.", "tok"),
    _count("partial_tokens", "Partial tokens", lambda c: c.partial_tokens, "Of failed and cancelled ones.", "tok"),
    _count("input_tokens", "Input tokens", lambda c: c.input_tokens, "As the server counted the prompts.", "tok"),
    _count("cached_tokens", "Cached tokens", lambda c: c.cached_tokens, "Of the input, from the prefix cache.", "tok"),
    _count("reasoning_tokens", "Reasoning tokens", lambda c: c.reasoning_tokens, "Of the output, reasoning.", "tok"),
    _count("empty", "Empty answers", lambda c: c.empty, "Successes without any output event."),
    _count(
        "not_streamed", "Not streamed", lambda c: c.not_streamed, "Successes in one body, not as the stream asked for."
    ),
    _count("buffered", "Buffered", lambda c: c.buffered, "Successes that came in one burst at their end."),
    _count("short", "Shorter than asked", lambda c: c.short, "Successes with fewer tokens than max_tokens."),
    _count("tpot_left_out", "Left out of TPOT", lambda c: c.tpot_left_out, "Answers of fewer than --llm-min-tokens."),
    _count("stale_retries", "Stale retries", lambda c: c.stale_retries, "Sent again: the server had hung up."),
)
