"""Findings: what a reader must know before trusting the figures; a closed list of plain sentences.

Each finding is one function: it looks at the statistics and the facts that they cannot know, and says, with its
number, its threshold and the next step, what it found, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from locust_llm.measure.findings import answers, client, sample
from locust_llm.measure.findings.finding import Finding, RunFacts, Severity
from locust_llm.measure.stats import RunStats

__all__ = ["FINDINGS", "Finding", "RunFacts", "Severity", "findings"]

FINDINGS: Final[tuple[Callable[[RunStats, RunFacts], Finding | None], ...]] = (
    answers.simulated_engine,
    client.worker_lost,
    answers.nothing_succeeded,
    client.client_too_busy,
    client.stamps_touched,
    client.too_many_streams,
    client.clock_faults,
    answers.buffered,
    answers.not_streamed,
    client.coalesced,
    sample.beyond_the_limit,
    sample.many_cancelled,
    answers.usage_absent,
    answers.overbilled,
    answers.impossible_usage,
    answers.other_model,
    answers.cached_prompts,
    client.schedule_delay,
    client.clumped_starts,
    sample.no_steady_window,
    sample.few_samples,
    answers.chunk_is_not_token,
    answers.short_answers,
    sample.left_out,
    answers.little_reuse,
)


def findings(stats: RunStats, facts: RunFacts) -> list[Finding]:
    """All that was found, the gravest first."""
    found = [finding for look in FINDINGS if (finding := look(stats, facts)) is not None]
    order = list(Severity)
    return sorted(found, key=lambda finding: -order.index(finding.severity))
