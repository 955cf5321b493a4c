"""What the service answered, and how."""

from __future__ import annotations

from typing import Final

from locust_llm.measure.counts import AUDIT_LIMIT
from locust_llm.measure.findings.finding import Finding, RunFacts, error, note, number, percent, warning
from locust_llm.measure.record import TokenSource
from locust_llm.measure.stats import RunStats

TOKENS_PER_EVENT_BAND: Final = (0.98, 1.02)
CACHED_LIMIT: Final = 0.05
SHORT_LIMIT: Final = 0.1
REUSED_LIMIT: Final = 0.5


def simulated_engine(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The embedded engine answered."""
    if not facts.simulated:
        return None
    return note("simulated", "SIMULATED: the embedded engine answered, no model. Give --host to measure a service.")


def nothing_succeeded(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Requests ended but none with an answer."""
    counts = stats.counts()
    if counts.succeeded or not counts.ended:
        return None
    label = max(counts.errors, key=lambda key: counts.errors[key], default=None)
    cause = f"; most often: {label}" if label is not None else ""
    return error(
        "nothing_succeeded",
        f"None of {number(counts.ended, 'request')} succeeded{cause}. `locust-llm doctor` looks for the cause.",
    )


def buffered(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Whole answers arrived in one burst."""
    counts = stats.counts()
    if not counts.buffered:
        return None
    return warning(
        "buffered",
        f"{number(counts.buffered, 'answer')} of {counts.succeeded} came in one burst at the end: something between "
        "holds the stream back. They are left out of TTFT, ITL and TPOT. Look for a buffering or compressing proxy.",
    )


def not_streamed(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Answers in one body where streams were asked for."""
    counts = stats.counts()
    if not counts.not_streamed:
        return None
    return warning(
        "not_streamed",
        f"{number(counts.not_streamed, 'answer')} of {counts.succeeded} came in one body, not as a stream; they have "
        "no TTFT. Check that the endpoint supports `stream`.",
    )


def chunk_is_not_token(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Events hold more or less than one token."""
    counts = stats.counts()
    if not counts.weighed_events:
        return None
    low, high = TOKENS_PER_EVENT_BAND
    ratio = counts.tokens_per_event
    if low <= ratio <= high:
        return None
    return note(
        "chunk_not_token",
        f"One stream event holds {ratio:.3g} tokens on average, so that ITL is the time between events, not tokens. "
        "TPOT counts tokens: compare servers by TPOT.",
    )


def usage_absent(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The server did not tell the number of tokens."""
    counts = stats.counts()
    told, judged = counts.token_sources.get(TokenSource.USAGE, 0), sum(counts.token_sources.values())
    if told == judged:
        return None
    others = ", ".join(f"{label}: {n}" for label, n in counts.token_sources.items() if label != "usage")
    return warning(
        "usage_absent",
        f"{judged - told} of {number(judged, 'answer')} came without usage; their tokens are "
        f"estimates ({others}). Let the server send usage (stream_options.include_usage).",
    )


def overbilled(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The server bills other numbers of output tokens than the answers hold."""
    counts = stats.counts()
    if not counts.audit_local_tokens:
        return None
    off = counts.audit_usage_tokens / counts.audit_local_tokens - 1
    if abs(off) <= AUDIT_LIMIT:
        return None
    sources = " and ".join(sorted(counts.audit_sources))
    return warning(
        "billing",
        f"Usage names {percent(abs(off))} {'more' if off > 0 else 'fewer'} output tokens than were counted (limit "
        f"{percent(AUDIT_LIMIT)}): {counts.audit_usage_tokens:,} billed, {counts.audit_local_tokens:,} counted by "
        f"{sources} in {number(counts.audited, 'answer')}, of which {counts.audit_off:,} differ (such as "
        f"{'; '.join(list(counts.audit_examples)[:3])}). Check the bill, and that the tokenizer is the model's.",
    )


def impossible_usage(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Parts of a usage that are larger than the whole."""
    counts = stats.counts()
    if not counts.impossible_usage:
        return None
    return warning(
        "impossible_usage",
        f"{number(counts.impossible_usage, 'answer')} of {counts.succeeded} told more cached than input tokens, or "
        "more reasoning than output tokens: the server's usage is not to be trusted.",
    )


def cached_prompts(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The server's prefix cache did part of the work."""
    counts = stats.counts()
    if not counts.cache_judged_tokens or counts.cached_tokens / counts.cache_judged_tokens <= CACHED_LIMIT:
        return None
    return warning(
        "cached_prompts",
        f"{percent(counts.cached_tokens / counts.cache_judged_tokens)} of the input tokens came from the server's "
        f"prefix cache (limit {percent(CACHED_LIMIT)}): TTFT is that of cached prompts. "
        "Use unique prompts, or say so.",
    )


def short_answers(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Answers ended before max_tokens."""
    counts = stats.counts()
    if not counts.length_judged or counts.short / counts.length_judged <= SHORT_LIMIT:
        return None
    return note(
        "short_answers",
        f"{percent(counts.short / counts.length_judged)} of the answers were shorter than max_tokens (limit "
        f"{percent(SHORT_LIMIT)}): E2E and throughput depend on what the model had to say. --llm-ignore-eos fixes the "
        "length where the server supports it.",
    )


def other_model(stats: RunStats, facts: RunFacts) -> Finding | None:
    """The server named another model than was asked for."""
    counts = stats.counts()
    if not counts.model_differs:
        return None
    return warning(
        "other_model",
        f"{number(counts.model_differs, 'answer')} of {counts.succeeded} named another model than was asked for: "
        f"{', '.join(sorted(counts.models))}. An alias is fine; else --llm-model is wrong.",
    )


def little_reuse(stats: RunStats, facts: RunFacts) -> Finding | None:
    """Most requests opened a connection."""
    counts = stats.counts()
    sent = counts.connections_new + counts.connections_reused
    users = max((point.users if point.users is not None else point.in_flight for point in stats.points()), default=0)
    if sent < 20 or sent < 4 * users or counts.connections_reused / sent >= REUSED_LIMIT:
        return None
    return note(
        "little_reuse",
        f"Only {percent(counts.connections_reused / sent)} of the requests reused a connection (limit "
        f"{percent(REUSED_LIMIT)}): the server closes after each answer. TTFT leaves connecting out; E2E from the "
        "start of the request does not.",
    )
