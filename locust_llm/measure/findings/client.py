"""The client's own part: its CPU, its clock, its processes, its load model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from locust_llm.measure.catalogue import TTFT
from locust_llm.measure.findings.finding import Finding, RunFacts, error, milliseconds, note, number, percent, warning
from locust_llm.measure.name_stats import LAG_LIMIT_NS
from locust_llm.measure.stats import RunStats

CPU_LIMIT: Final = 0.9
HUB_LAG_LIMIT_MS: Final = 20.0
LAGGED_LIMIT: Final = 0.01
COALESCED_LIMIT: Final = 0.01
SCHEDULE_DELAY_LIMIT_MS: Final = 100.0
WAVE_DISPERSION: Final = 4.0
WAVE_MIN_SECONDS: Final = 20
WAVE_MIN_RATE: Final = 2.0


def worker_lost(stats: RunStats, facts: RunFacts) -> Finding | None:
    """A worker died or was unreachable."""
    if not facts.lost_workers:
        return None
    names = ", ".join(facts.lost_workers)
    return error(
        "worker_lost",
        f"Incomplete: {number(len(facts.lost_workers), 'worker')} lost ({names}); what it had not reported is missing, "
        "and Locust moves its users to the others after 60 s. Run again.",
    )


def client_too_busy(stats: RunStats, facts: RunFacts) -> Finding | None:
    """This process, not the server, may have been the bottleneck."""
    busy = facts.cpu_share is not None and facts.cpu_share > CPU_LIMIT
    late = facts.hub_lag_p99_ms is not None and facts.hub_lag_p99_ms > HUB_LAG_LIMIT_MS
    if not busy and not late:
        return None
    parts = []
    if busy and facts.cpu_share is not None:
        parts.append(f"used {percent(facts.cpu_share)} of a core (limit {percent(CPU_LIMIT)})")
    if late and facts.hub_lag_p99_ms is not None:
        parts.append(f"was {facts.hub_lag_p99_ms:.0f} ms late at p99 (limit {HUB_LAG_LIMIT_MS:.0f} ms)")
    counts = stats.counts()
    touched = counts.lagged / counts.ended if counts.ended else 0.0
    return warning(
        "client_busy",
        f"The client was the bottleneck: a load-generating process {' and '.join(parts)}; it touched the stamps of "
        f"{percent(touched)} of the requests. Use more processes (--processes, workers) or fewer users.",
    )


def stamps_touched(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Stamps taken after the read, while this process was late."""
    counts = stats.counts()
    if not counts.ended or counts.lagged / counts.ended <= LAGGED_LIMIT:
        return None
    with_p99, without_p99 = (stats.histogram(TTFT, lagged=lagged).percentile(0.99) for lagged in (True, False))
    return warning(
        "lagged",
        f"{percent(counts.lagged / counts.ended)} of the requests were stamped while this client was more than "
        f"{LAG_LIMIT_NS / 1e6:.0f} ms late (limit {percent(LAGGED_LIMIT)}): TTFT p99 is {milliseconds(with_p99)} with "
        f"them and {milliseconds(without_p99)} without. Kernel receive times would not be touched.",
    )


def too_many_streams(stats: RunStats, facts: RunFacts) -> Finding | None:
    """More streams per process than calibration found safe; only a note as long as their tokens are not more, too."""
    if facts.safe_streams is None:
        return None
    points, processes = list(stats.points()), max(facts.processes, 1)
    most = max((point.in_flight for point in points), default=0) / processes
    if most <= facts.safe_streams:
        return None
    rate = max((point.output_tokens / point.span_s for point in points), default=0.0) / processes
    each = f" of {facts.safe_stream_tps:g} tokens/s each" if facts.safe_stream_tps is not None else ""
    slow = facts.safe_stream_tps is not None and rate <= facts.safe_streams * facts.safe_stream_tps
    say = note if slow else warning
    return say(
        "too_many_streams",
        f"Up to {most:,.0f} streams ran in one process, with up to {rate:,.0f} tokens/s; on this machine the figures "
        f"were found right up to {facts.safe_streams:,} streams{each} (locust-llm calibrate). "
        f"{'These are slower ones: calibration says little about them.' if slow else 'Use more processes.'}",
    )


def clock_faults(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Stamps that went backwards."""
    faults = stats.counts().clock_faults
    if not faults:
        return None
    return warning(
        "clock_faults",
        f"{number(faults, 'sample')} would have been negative and were left out: a clock of this machine was stepped.",
    )


def coalesced(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Several output events came with one read."""
    counts = stats.counts()
    if not counts.events or counts.coalesced_events / counts.events <= COALESCED_LIMIT:
        return None
    return warning(
        "coalesced",
        f"{percent(counts.coalesced_events / counts.events)} of the output events were read together with the one "
        f"before (limit {percent(COALESCED_LIMIT)}): their times are upper bounds and low ITL percentiles are 0. The "
        "server or a proxy sends them together, or this client reads too late.",
    )


def schedule_delay(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The load model could not send when it wanted."""
    p99 = stats.histogram("schedule_delay").percentile(0.99)
    if p99 is None or p99 <= SCHEDULE_DELAY_LIMIT_MS:
        return None
    return warning(
        "schedule_delay",
        f"Requests started late: {milliseconds(p99)} after their time at p99 (limit {SCHEDULE_DELAY_LIMIT_MS:.0f} ms). "
        "The offered load was not reached; read the metrics from schedule, and add users or workers.",
    )


def waves_of(starts: Sequence[int]) -> float | None:
    """Variance / mean of the requests started in each second, where it says that they start in waves; else None."""
    mean = sum(starts) / len(starts) if starts else 0.0
    if len(starts) < WAVE_MIN_SECONDS or mean < WAVE_MIN_RATE:
        return None
    dispersion = sum((begun - mean) ** 2 for begun in starts) / len(starts) / mean
    return dispersion if dispersion > WAVE_DISPERSION else None


def clumped_starts(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Requests start in waves: users run in step."""
    if stats.all_running_s is None:
        return None
    end = stats.stopped_s if stats.stopped_s is not None else math.inf
    starts = sorted(
        point.started for point in stats.points() if point.span_s == 1 and stats.all_running_s <= point.second < end - 1
    )
    dispersion = waves_of(starts)
    if dispersion is None:
        return None
    quarter = sum(starts[-(len(starts) // 4) :]) / sum(starts)
    return warning(
        "clumped_starts",
        f"Requests start in waves: a quarter of the seconds holds {percent(quarter)} of the starts (variance / mean = "
        f"{dispersion:.3g}, limit {WAVE_DISPERSION:.0f}). Users run in step and queue for each other; spread the spawn "
        "over one answer's time, or vary the answer lengths.",
    )
