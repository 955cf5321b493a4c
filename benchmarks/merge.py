"""What reports cost: bytes of a worker's report, and what merging those of 24 workers costs the master.

    python benchmarks/merge.py [--workers 24] [--json]

Two loads, each of 3 s between two reports:
- 5 names, 1,000 streams of 50 tokens a second in each worker (150,000 tokens a report);
- 1,000 names, each asked for three times in each worker: a burst that must not stall the master.
Packing and unpacking as Locust does it (msgpack) is part of the cost; so are a tick of the master each second, and one
reading of the whole table in these three seconds, since some of the merging is put off until somebody reads.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from typing import Any

import msgpack
import numpy as np

from locust_llm.measure.record import RequestRecord, Transit, Usage
from locust_llm.measure.stats import REPORT_LAG_S, RunStats
from locust_llm.measure.summary import summary
from locust_llm.measure.timeline import Timeline

MS = 1_000_000
SECOND = 1_000_000_000
REPORT_S = 3
BEGIN = 2000 * SECOND


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--workers", type=int, default=24)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    gc.disable()
    result = {
        "5 names": measured(busy_worker(5, 600, 256), given.workers),
        "1000 names": measured(busy_worker(1000, 3000, 32), given.workers),
    }
    if given.json:
        json.dump(result, sys.stdout, indent=1)
        return
    for label, row in result.items():
        print(f"{label}: {row['bytes']:,.0f} bytes a report; taken in {row['take_ms']:.1f} ms by the worker")
        print(f"    merged in {row['merge_ms']:.2f} ms: {1e3 / row['merge_ms']:,.0f} reports a second")
        print(f"    {given.workers} workers: {row['burst_ms']:.0f} ms each {REPORT_S} s, {row['share']:.1%} of a core")
        print(f"    a tick of the master {row['tick_ms']:.2f} ms; reading the table {row['read_ms']:.1f} ms")


def measured(reports: list[bytes], workers: int) -> dict[str, float]:
    """The second report is a usual one: the first also opens every name."""
    take_ms, first, usual = reports[0], reports[1], reports[2]
    master = RunStats(0, lag_s=REPORT_LAG_S)
    merge(master, first)
    spent = []
    for _ in range(workers):
        begin = time.process_time()
        merge(master, usual)
        spent.append((time.process_time() - begin) * 1e3)
    begin = time.process_time()
    summary(master)
    read_ms = (time.process_time() - begin) * 1e3
    ticks = []
    for second in range(REPORT_S + REPORT_LAG_S):
        begin = time.process_time()
        master.tick(BEGIN + second * SECOND, ())
        ticks.append((time.process_time() - begin) * 1e3)
    merge_ms = sum(spent) / len(spent)
    tick_ms = sum(ticks) / len(ticks)
    return {
        "bytes": len(usual),
        "take_ms": float(take_ms.decode()),
        "merge_ms": merge_ms,
        "burst_ms": sum(spent),
        "tick_ms": tick_ms,
        "read_ms": read_ms,
        "share": (sum(spent) + read_ms + REPORT_S * tick_ms) / (REPORT_S * 1e3),
    }


def merge(master: RunStats, packed: bytes) -> None:
    master.merge_delta(msgpack.loads(packed, raw=False, strict_map_key=False))


def busy_worker(names: int, requests: int, tokens: int) -> list[bytes]:
    """[ms that taking the usual report took, first report, usual report]."""
    worker = RunStats(0, lag_s=None)
    random = np.random.default_rng(3)
    running = [stream(f"name {i % names}", i, tokens, random) for i in range(requests)]
    reports = []
    for half in range(2):
        begin = BEGIN + half * REPORT_S * SECOND
        for timeline, times in running:
            if half == 0:
                worker.started(timeline.name, timeline.started_ns)
            cut = int(np.searchsorted(times, begin))
            for at_ns in times[len(timeline.event_ns) : cut].tolist():
                timeline.output(at_ns)
            worker.progress(timeline)
        if half == 1:
            for timeline, times in running:
                for at_ns in times[len(timeline.event_ns) :].tolist():
                    timeline.output(at_ns)
                worker.add(ended(timeline, tokens))
                worker.started(timeline.name, timeline.event_ns[-1])
        clock = time.process_time()
        reports.append(msgpack.dumps(worker.take_delta()))
        took = (time.process_time() - clock) * 1e3
    return [str(took).encode(), *reports]


def stream(name: str, number: int, tokens: int, random: np.random.Generator) -> tuple[Timeline, Any]:
    """A request that ends at some time of the second report's three seconds."""
    end = BEGIN + int(random.uniform(0, REPORT_S) * SECOND)
    ttft = random.lognormal(np.log(300), 0.6)
    gaps_ms = random.lognormal(np.log(20), 0.3, tokens - 1)
    start = end - int((ttft + gaps_ms.sum()) * MS)
    times = start + (np.concatenate([[ttft], gaps_ms]).cumsum() * MS).astype(np.int64)
    timeline = Timeline(name, started_ns=start - 30_000 - number, model="m", max_tokens=tokens)
    timeline.transit = Transit(sent_ns=start, headers_ns=start + int(random.lognormal(1, 0.5) * MS), reused=True)
    return timeline, times


def ended(timeline: Timeline, tokens: int) -> RequestRecord:
    timeline.report(Usage(input_tokens=480 + tokens % 50, output_tokens=tokens, cached_tokens=0))
    timeline.finish(0, "length")
    timeline.done(timeline.event_ns[-1] + 100_000)
    return timeline.freeze(timeline.event_ns[-1] + 150_000)


if __name__ == "__main__":
    main()
