"""What RunStats costs: `add` of a 256-token request, beside firing one Locust `request` event per token.

    python benchmarks/stats.py [--requests 2000] [--json]

CPU time of this process, best of several rounds:
- `add`: the request was never looked at while it ran, so that `add` does everything;
- `add_after`, `progress`: as in a test, where each running request is looked at once a second and then added;
- `failed`: `add` of a request that ended at once with an error;
- `locust`: 256 `request` events through Locust's own statistics.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from locust_llm.measure.record import Outcome, RequestRecord, Transit, Usage
from locust_llm.measure.stats import RunStats
from locust_llm.measure.timeline import Timeline

TOKENS = 256
GAP_MS = 20.0
STREAMS = 1000
ROUNDS = 10
STRETCH = 50
MS = 1_000_000
SECOND = 1_000_000_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    gc.disable()
    result = {
        "requests": given.requests,
        "tokens": TOKENS,
        "add_us": adding(given.requests),
        "add_after_us": best(lambda: running(given.requests)[0]),
        "progress_us": best(lambda: running(given.requests)[1]),
        "failed_us": best(lambda: failing(given.requests)),
        "locust_us": best(lambda: firing(given.requests // 10)),
    }
    result["locust_to_add"] = result["locust_us"] / result["add_us"]
    if given.json:
        json.dump(result, sys.stdout, indent=1)
        return
    print(f"RunStats.add of a {TOKENS}-token request     {result['add_us']:8.1f} us")
    print(f"the same, looked at once a second      {result['add_after_us']:8.1f} us")
    print(f"each look                              {result['progress_us']:8.1f} us")
    print(f"RunStats.add of a failed request       {result['failed_us']:8.1f} us")
    print(f"{TOKENS} Locust request events              {result['locust_us']:8.1f} us")
    print(f"Locust / add                           {result['locust_to_add']:8.1f}")


def best(round_us: Callable[[], float]) -> float:
    """The least of several rounds: the others were disturbed."""
    return min(round_us() for _ in range(ROUNDS))


def adding(requests: int) -> float:
    """us of each add. The rounds do the same; of each stretch the least disturbed one counts."""
    timelines = [answered(number) for number in range(requests)]
    least = [math.inf] * (requests // STRETCH)
    for _ in range(ROUNDS):
        stats = RunStats(0)
        for timeline in timelines:
            stats.started("chat", timeline.started_ns)
        for stretch in range(len(least)):
            part = timelines[stretch * STRETCH : (stretch + 1) * STRETCH]
            records = [timeline.freeze(timeline.event_ns[-1] + MS) for timeline in part]
            begin = time.process_time()
            for record in records:
                stats.add(record)
            least[stretch] = min(least[stretch], time.process_time() - begin)
    return sum(least) / (len(least) * STRETCH) * 1e6


def running(requests: int) -> tuple[float, float]:
    """(us of each add, us of each look) of requests that run side by side, all looked at once a second."""
    stats = RunStats(0)
    adding = looking = 0.0
    looks = 0
    waiting = [(answered(i), Timeline("chat", started_ns=0)) for i in range(requests)]
    for whole, timeline in waiting:
        timeline.transit, timeline.usage, timeline.done_ns = whole.transit, whole.usage, whole.done_ns
        timeline.started_ns = whole.started_ns
        stats.started("chat", whole.started_ns)
    now = waiting[0][0].started_ns
    while waiting:
        now += SECOND
        for whole, timeline in waiting:
            seen = len(timeline.event_ns)
            fresh = int(np.searchsorted(np.frombuffer(whole.event_ns, np.int64), now))
            for at_ns in whole.event_ns[seen:fresh]:
                timeline.output(at_ns)
        ended = [timeline for whole, timeline in waiting if len(timeline.event_ns) == TOKENS]
        waiting = [pair for pair in waiting if len(pair[1].event_ns) < TOKENS]
        records = [timeline.freeze(timeline.event_ns[-1] + MS) for timeline in ended]
        begin = time.process_time()
        for record in records:
            stats.add(record)
        between = time.process_time()
        for _, timeline in waiting:
            if timeline.event_ns:
                stats.progress(timeline)
                looks += 1
        adding += between - begin
        looking += time.process_time() - between
        stats.tick(now, ())
    return adding / requests * 1e6, looking / looks * 1e6


def failing(requests: int) -> float:
    stats = RunStats(0)
    failed = RequestRecord(
        name="chat", outcome=Outcome.FAILED, error="HTTP 429", started_ns=SECOND, ended_ns=SECOND + 3 * MS
    )
    begin = time.process_time()
    for _ in range(requests):
        stats.add(failed)
    return (time.process_time() - begin) / requests * 1e6


def firing(requests: int) -> float:
    from locust.env import Environment

    environment = Environment()
    environment.create_local_runner()
    fire: Any = environment.events.request.fire
    gaps = [(20.0 + i % 7, i) for i in range(TOKENS)]
    begin = time.process_time()
    for _ in range(requests):
        for gap, _i in gaps:
            fire(
                request_type="ITL",
                name="chat",
                response_time=gap,
                response_length=0,
                exception=None,
                context={},
            )
    return (time.process_time() - begin) / requests * 1e6


def answered(number: int) -> Timeline:
    """A request of 256 tokens at 50 a second with some jitter; a new one starts each 5 ms: 1,000 run at once."""
    random = np.random.default_rng(number)
    start = 10**12 + number * int(TOKENS * GAP_MS / STREAMS) * MS
    timeline = Timeline("chat", started_ns=start - 50_000, model="m", max_tokens=TOKENS)
    timeline.transit = Transit(sent_ns=start, headers_ns=start + MS, reused=number > 0)
    gaps_ms = np.concatenate([[100.0], random.lognormal(np.log(GAP_MS), 0.05, TOKENS - 1)])
    for at_ns in (start + np.cumsum(gaps_ms) * MS).astype(np.int64).tolist():
        timeline.output(at_ns)
    timeline.report(Usage(input_tokens=500, output_tokens=TOKENS, cached_tokens=0))
    timeline.finish(0, "length")
    timeline.done(timeline.event_ns[-1] + MS // 2)
    timeline.model_answered = "m"
    return timeline


if __name__ == "__main__":
    main()
