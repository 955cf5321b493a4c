"""Sides of one run: the figures of the requests that went to one of its two targets (`--llm-ab`), to be compared.

Both sides have met the same moments of the same client, so what the run's blocks of time scatter by is all there is to
know. The series is of all requests together: what needs it (rates of tokens) is not compared.
"""

from __future__ import annotations

from typing import Final

from locust_llm.analysis.compare import Comparison, Rules, Run, compare
from locust_llm.analysis.compare_subject import FAILED_SHARE, Subject
from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.gate import REQUEST_THROUGHPUT
from locust_llm.measure.stats import RunStats

SIDES: Final = (" (A)", " (B)")
"""What the names of the requests of each side end with."""

JUDGED: Final = (
    Subject("ttft", 50.0),
    Subject("ttft", 95.0),
    Subject("tpot", 50.0),
    Subject("e2e", 50.0),
    Subject(FAILED_SHARE),
)
SHOWN: Final = (
    *(Subject(key, percentile) for key in ("ttft", "itl", "tpot", "e2e") for percentile in (50.0, 95.0, 99.0)),
    Subject(REQUEST_THROUGHPUT),
    Subject("output_speed"),
    Subject("output_tokens", 50.0),
)


def compare_sides(stats: RunStats, *, spoilt: str | None = None, settle_s: float = 0.0) -> Comparison | None:
    """B against A; None when a side has not ended any request. `spoilt`: why nothing may be judged."""
    sides = [side_stats(stats, side) for side in SIDES]
    if not all(side.counts().outcomes for side in sides):
        return None
    a, b = ([Run(side, stats.first_sent_s, spoilt, settle_s=settle_s)] for side in sides)
    judged = [subject for subject in JUDGED if subject.q is None or _has(sides, subject.key)]
    return compare(a, b, judged, Rules(together=True), shown=SHOWN)


def side_stats(stats: RunStats, side: str) -> RunStats:
    """The figures of the requests whose names end with `side`."""
    found = RunStats(0, min_tokens=stats.min_tokens, lag_s=0)
    for name in stats.names:
        if name.endswith(side):
            histograms = {m.key: stats.histogram(m.key, name) for m in DISTRIBUTIONS}
            packed = {key: each.pack() for key, each in histograms.items() if each.count}
            found.add_name(name, stats.counts(name).pack(), (packed, {}))
    blocks = stats.blocks(side)
    if blocks is not None:
        found.add_blocks(None, blocks)
        for second, block in blocks.items():
            found.series.at(second).succeeded += block.succeeded
    found.first_sent_s, found.all_running_s, found.stopped_s = stats.first_sent_s, stats.all_running_s, stats.stopped_s
    found.reset_s, found.now_s = stats.reset_s, stats.now_s
    return found


def _has(sides: list[RunStats], key: str) -> bool:
    return any(side.histogram(key).count for side in sides)
