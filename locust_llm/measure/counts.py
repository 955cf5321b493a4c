"""Counts: everything of one request name that is a whole number. Adding two Counts field by field merges them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from locust_llm.measure import metrics
from locust_llm.measure.record import Outcome, RequestRecord, TokenSource
from locust_llm.measure.tokens import LocalCount, overbilled

TALLY_LIMIT: Final = 64
"""Labels kept apart in one tally; what comes after is counted as `OTHER`, so that memory is bounded."""

OTHER: Final = "(other)"

AUDIT_LIMIT: Final = 0.02
"""Differences between billed and counted tokens up to this are none."""

AUDIT_EXAMPLES: Final = 5


@dataclass(slots=True)
class Counts:
    """Whole numbers of one request name, or of all.

    Warm-up requests are in `warmup_started` and `warmup_ended` only. In a worker's report the numbers are what was
    added since the last one, so that single fields may be negative or smaller than their parts.
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    warmup_started: int = 0
    warmup_ended: int = 0

    empty: int = 0  # successes without any output event though they streamed
    not_streamed: int = 0  # successes in one body though a stream was asked for
    buffered: int = 0
    hidden_reasoning: int = 0
    length_judged: int = 0  # successes whose N and max_tokens are both known …
    short: int = 0  # … and of these, with N < max_tokens
    model_differs: int = 0
    tpot_judged: int = 0  # answers that have a TPOT …
    tpot_left_out: int = 0  # … and of these, with fewer than min_tokens tokens
    clock_faults: int = 0  # samples that would have been negative

    connections_new: int = 0
    connections_reused: int = 0
    stale_retries: int = 0
    lagged: int = 0  # requests whose stamps the client's own delay may have touched

    events: int = 0  # output events of successes
    coalesced_events: int = 0
    weighed_events: int = 0  # events of the successes whose N the server told …
    weighed_tokens: int = 0  # … and their streamed tokens: tokens per event
    decode_ns: int = 0  # sum of (last event - first), for token-weighted TPOT …
    decode_tokens: int = 0  # … and of (N_stream - n1)

    gap_tokens: int = 0  # streamed tokens of the answers with gaps …
    stalls: int = 0  # … and their gaps longer than --llm-stall
    readers: int = 0  # answers whose reader can be judged …
    readers_waited: int = 0  # … and of these, where he waits

    output_tokens: int = 0  # sum of N over successes
    partial_tokens: int = 0  # tokens of failed and cancelled requests, where they were told
    partial_events: int = 0  # output events of failed and cancelled requests whose tokens nobody told
    input_tokens: int = 0
    cache_judged_tokens: int = 0  # input tokens of the requests that told their cached share …
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    before_tokens: int = 0  # tokens that arrived before the figures were reset
    drained_tokens: int = 0  # tokens that arrived after the stop request …
    drained_events: int = 0  # … and events not weighed yet
    drained_input_tokens: int = 0
    drained_succeeded: int = 0

    audited: int = 0  # successes whose usage could be compared with a count of our own (see `tokens`) …
    audit_usage_tokens: int = 0  # … and their output tokens as billed …
    audit_local_tokens: int = 0  # … and as counted
    audit_off: int = 0  # of these, answers that differ by more than AUDIT_LIMIT and two tokens
    impossible_usage: int = 0  # more cached than input tokens, or more reasoning than output tokens

    slo_met: int = 0  # successes that meet every SLO …
    slo_missed: int = 0  # … failures, successes that miss one, and cancelled ones that had missed one
    slo_unjudged: int = 0  # successes without any metric that an SLO is on
    drained_met: int = 0  # of slo_met, those that ended after the stop request

    errors: dict[str, int] = field(default_factory=dict)
    finish_reasons: dict[str, int] = field(default_factory=dict)
    token_sources: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    audit_sources: dict[str, int] = field(default_factory=dict)
    audit_examples: dict[str, int] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Requests that were started and have not ended."""
        return self.started - self.ended

    @property
    def outcomes(self) -> int:
        """Succeeded + failed: what shares of failures and goodput are shares of."""
        return self.succeeded + self.failed

    @property
    def ended(self) -> int:
        """Requests that have ended, whatever their outcome."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def slo_judged(self) -> int:
        """Requests that met or missed their SLOs; 0 when there are none."""
        return self.slo_met + self.slo_missed

    @property
    def tokens_per_event(self) -> float:
        """Output tokens of one output event, where the server told N; 1 as long as it has told nothing."""
        return self.weighed_tokens / self.weighed_events if self.weighed_events > 0 else 1.0

    def merge(self, other: Counts) -> None:
        """Add all numbers of `other`."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _TALLIES:
            mine = getattr(self, name)
            for label, count in getattr(other, name).items():
                tally(mine, label, count)

    def pack(self) -> dict[str, Any]:
        """What is not zero, as plain values."""
        return {name: value for name in _NUMBERS + _TALLIES if (value := getattr(self, name))}

    def merge_packed(self, packed: dict[str, Any]) -> None:
        """Add what `pack` of other counts gave."""
        for name, value in packed.items():
            mine = getattr(self, name)
            if isinstance(value, dict):
                for label, count in value.items():
                    tally(mine, label, count)
            else:
                setattr(self, name, mine + value)

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Counts:
        """The counts that `pack` described."""
        counts = cls()
        counts.merge_packed(packed)
        return counts


_NUMBERS: Final = tuple(f.name for f in fields(Counts) if f.type == "int")
_TALLIES: Final = tuple(f.name for f in fields(Counts) if f.type != "int")


def tally(counts: dict[str, int], label: str, count: int = 1) -> None:
    """Count `label`, or `OTHER` when there are too many labels already."""
    held = counts.get(label)
    if held is None and len(counts) >= TALLY_LIMIT:
        label = OTHER
        held = counts.get(OTHER)
    counts[label] = count if held is None else held + count


def count(counts: Counts, record: RequestRecord) -> None:
    """Count one request that has ended."""
    transit = record.transit
    usage = record.usage
    if record.outcome is Outcome.SUCCESS:
        _count_success(counts, record)
    else:
        if record.outcome is Outcome.FAILED:
            counts.failed += 1
            tally(counts.errors, record.error or "unknown")
        else:
            counts.cancelled += 1
        if record.output_tokens is not None and record.token_source is not TokenSource.CHUNKS:
            counts.partial_tokens += record.output_tokens
        else:
            counts.partial_events += len(record.event_ns)
    counts.input_tokens += usage.input_tokens or 0
    if usage.cached_tokens is not None and usage.input_tokens is not None:
        counts.cache_judged_tokens += usage.input_tokens
        counts.cached_tokens += usage.cached_tokens
    counts.reasoning_tokens += usage.reasoning_tokens or 0
    counts.stale_retries += transit.stale_retries
    if transit.sent_ns is not None:
        if transit.reused and not transit.stale_retries:
            counts.connections_reused += 1
        else:
            counts.connections_new += 1
        tally(counts.clocks, transit.clock)


def count_audit(counts: Counts, record: RequestRecord, local: LocalCount | None) -> None:
    """Count what the billing audit says of one request that succeeded; `local`: our own count, where there is one."""
    usage = record.usage
    if _more(usage.cached_tokens, usage.input_tokens) or _more(usage.reasoning_tokens, usage.output_tokens):
        counts.impossible_usage += 1
    if local is None or usage.output_tokens is None:
        return
    difference = overbilled(record, local)
    counts.audited += 1
    counts.audit_usage_tokens += local.tokens + difference
    counts.audit_local_tokens += local.tokens
    tally(counts.audit_sources, local.source.value)
    if abs(difference) > max(AUDIT_LIMIT * local.tokens, 2):
        counts.audit_off += 1
        if len(counts.audit_examples) < AUDIT_EXAMPLES:
            tally(counts.audit_examples, f"billed {usage.output_tokens}, counted {local.tokens}")


def _more(part: int | None, whole: int | None) -> bool:
    return part is not None and whole is not None and part > whole


def count_slo(counts: Counts, record: RequestRecord, met: bool | None, *, drained: bool) -> None:
    """Count the SLO verdict of one request that has ended; `drained`: after the stop request."""
    if met is None:
        counts.slo_unjudged += record.success
    elif met:
        counts.slo_met += 1
        counts.drained_met += drained
    else:
        counts.slo_missed += 1


def _count_success(counts: Counts, record: RequestRecord) -> None:
    events = len(record.event_ns)
    tokens = record.output_tokens
    counts.succeeded += 1
    if not record.streamed:
        counts.not_streamed += record.stream_asked
    elif events == 0:
        counts.empty += 1
    if metrics.buffered(record):
        counts.buffered += 1
    if record.hidden_reasoning:
        counts.hidden_reasoning += 1
    if tokens is not None:
        counts.output_tokens += tokens
        if record.max_tokens is not None:
            counts.length_judged += 1
            counts.short += tokens < record.max_tokens
    if record.generates:
        tally(counts.token_sources, record.token_source if record.token_source is not None else "unknown")
        tally(counts.finish_reasons, record.finish_reason if record.finish_reason is not None else "none")
    if record.model_answered is not None:
        tally(counts.models, record.model_answered)
        counts.model_differs += bool(record.model) and record.model_answered != record.model
    if events:
        counts.events += events
        counts.coalesced_events += metrics.coalesced_events(record)
        if record.streamed_tokens is not None and record.token_source is not TokenSource.CHUNKS:
            counts.weighed_events += events
            counts.weighed_tokens += record.streamed_tokens
        span = metrics.decode_span(record)
        if span is not None:
            counts.decode_ns += round(span[0] * 1e6)
            counts.decode_tokens += span[1]
