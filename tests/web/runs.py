"""Runs made up by formula, to look at pages with: no load is sent, a day takes seconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from locust_llm.measure.findings import Finding, Severity
from locust_llm.measure.record import Usage
from locust_llm.measure.stats import RunStats
from locust_llm.measure.timeline import Timeline
from locust_llm.report.run import RunView

BEGAN_S = 1_790_000_000
SECOND_NS = 1_000_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\"'`{{7*7}}"
LONG = "organisation/" + "a-very-long-model-name-" * 8 + "70b-instruct-awq-int4"

Failing = Callable[[int], str | None]


def stats_of(
    *,
    names: Sequence[str] = ("chat",),
    seconds: int = 60,
    every_s: int = 1,
    tokens: int = 12,
    fails: Failing = lambda number: None,
    quiet: Sequence[int] = (),
) -> RunStats:
    """A run of one short request every `every_s` seconds, none in the seconds of `quiet`; `fails` labels failures."""
    stats = RunStats(BEGAN_S * SECOND_NS)
    chance = random.Random(7)
    number = 0
    for second in range(seconds):
        if second % every_s == 0 and second not in quiet:
            _request(stats, names[number % len(names)], second * SECOND_NS, tokens, fails(number), chance)
            number += 1
        stats.tick(second * SECOND_NS + SECOND_NS // 2, (), users=8)
    stats.tick((seconds + 2) * SECOND_NS, (), users=8)
    return stats


def _request(stats: RunStats, name: str, at_ns: int, tokens: int, label: str | None, chance: random.Random) -> None:
    timeline = Timeline(name, started_ns=at_ns, max_tokens=tokens)
    stats.started(name, at_ns)
    timeline.transit.sent_ns = at_ns + 100_000
    at_ns += int(chance.lognormvariate(5, 0.4) * 1e6)
    if label is not None:
        timeline.fail(label)
    else:
        for _ in range(tokens):
            timeline.output(at_ns)
            at_ns += int(chance.lognormvariate(3, 0.4) * 1e6)
        timeline.finish(0, "length")
        timeline.done(at_ns)
        timeline.report(Usage(500, tokens))
    timeline.transit.end_ns = at_ns
    stats.add(timeline.freeze(at_ns))


def view_of(stats: RunStats, **known: object) -> RunView:
    """A view of it; `known` overrides its other fields."""
    given = {"run": "abc123", "state": "stopped", "target": "https://gateway.example/api/v1", "models": ("tiny",)}
    return RunView(stats, **(given | known))  # type: ignore[arg-type]


def hostile_view() -> RunView:
    """A run all of whose texts are HOSTILE, one name LONG."""
    return view_of(
        stats_of(names=(HOSTILE, LONG), fails=lambda number: HOSTILE if number % 5 == 0 else None),
        models=(HOSTILE,),
        target=HOSTILE,
        lost_workers=(HOSTILE,),
        options={"llm_model": HOSTILE},
        versions={HOSTILE: HOSTILE},
        findings=(Finding("x", Severity.ERROR, HOSTILE),),
    )
