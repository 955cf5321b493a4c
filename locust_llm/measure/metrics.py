"""The definitions: each metric is a small function of a RequestRecord.

TTFT, ITL, TPOT and E2E start at `sent` (the request's first byte is handed to a ready connection), so DNS, TCP and TLS
stand outside them; the connection's own cost is `connect_ms`. A metric that is not defined for a record is `None`.
Durations are milliseconds. Failed and cancelled requests give no TTFT, ITL, TPOT or E2E sample: `None` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from locust_llm.measure.record import RequestRecord

MIN_TOKENS = 20
"""Default of `--llm-min-tokens`: shorter answers stay out of the TPOT distribution."""

BUFFERED_MIN_EVENTS = 9
BUFFERED_SPAN_NS = 5_000_000
BUFFERED_SHARE = 0.01
TOKENS_KNOWN_SHARE = 0.95

_MS = 1e-6


def _gap_ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) * _MS


def buffered(record: RequestRecord) -> bool:
    """True when a whole answer arrived in one burst at its end, so that something between held it back.

    Rule: more than 8 output events, all within 5 ms and within 1 % of the time since `sent`. Such an answer has no
    true TTFT or ITL.
    """
    times = record.event_ns
    if len(times) < BUFFERED_MIN_EVENTS:
        return False
    span = times[-1] - times[0]
    if span > BUFFERED_SPAN_NS or record.transit.sent_ns is None:
        return False
    return span <= BUFFERED_SHARE * (times[-1] - record.transit.sent_ns)


def _timed(record: RequestRecord) -> bool:
    """Whether the output events of this record tell when tokens were made."""
    times = record.event_ns
    if not times or not record.streamed or not record.success:
        return False
    return times[-1] - times[0] > BUFFERED_SPAN_NS or not buffered(record)  # asked of each answer about ten times


def ttft_ms(record: RequestRecord) -> float | None:
    """Time to first token: first output event (any channel, reasoning included) - sent. None when not streamed."""
    return _gap_ms(record.transit.sent_ns, record.event_ns[0]) if _timed(record) else None


def ttft_from_start_ms(record: RequestRecord) -> float | None:
    """First output event - started: TTFT with the connection's cost in it."""
    return _gap_ms(record.started_ns, record.event_ns[0]) if _timed(record) else None


def ttft_from_schedule_ms(record: RequestRecord) -> float | None:
    """First output event - scheduled: TTFT as the open-loop arrival saw it, with the wait for its turn."""
    return _gap_ms(record.scheduled_ns, record.event_ns[0]) if _timed(record) else None


def ttfc_ms(record: RequestRecord) -> float | None:
    """Time to first content: first event a reader can see - sent. Differs from TTFT for reasoning models."""
    return _gap_ms(record.transit.sent_ns, record.first_visible_ns) if _timed(record) else None


def ttst_ms(record: RequestRecord) -> float | None:
    """Time to second token: second output event - first."""
    times = record.event_ns
    return _gap_ms(times[0], times[1]) if len(times) > 1 and _timed(record) else None


def itl_ms(record: RequestRecord) -> NDArray[np.float64]:
    """Inter-token latencies: each gap between consecutive output events of one choice, ms, shape (gaps,).

    One sample per gap, never divided. A gap of 0 means that one read held both events (coalesced).
    """
    if not _timed(record):
        return np.empty(0)
    return _gaps(record)[0].astype(np.float64) * _MS


def itl_per_token_ms(record: RequestRecord) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """ITL per token: (gap / k in ms, k), k = tokens in the event that ends the gap.

    None unless the server told k for at least 95 % of the events (per-event usage, token ids or logprobs).
    """
    tokens = record.event_tokens
    if tokens is None or not _timed(record):
        return None
    known = np.frombuffer(tokens, dtype=np.int64) > 0
    if known.mean() < TOKENS_KNOWN_SHARE:
        return None
    gaps, ends = _gaps(record)
    weights = np.frombuffer(tokens, dtype=np.int64)[ends]
    keep = weights > 0
    return gaps[keep] * _MS / weights[keep], weights[keep]


def _gaps(record: RequestRecord) -> tuple[NDArray[np.int64], slice | NDArray[np.int64]]:
    """(gaps in ns per choice, joined in choice order; where the events stand that end them)."""
    times = np.frombuffer(record.event_ns, dtype=np.int64)
    if record.event_choice is None:
        return times[1:] - times[:-1], slice(1, None)
    choice = np.frombuffer(record.event_choice, dtype=np.int64)
    order = np.argsort(choice, kind="stable")
    same = np.diff(choice[order]) == 0
    return np.diff(times[order])[same], order[1:][same]


def decode_span(record: RequestRecord) -> tuple[float, int] | None:
    """(ms, tokens) of the decode phase: sum over choices of (last event - first), and N_stream - first events' tokens.

    The numerator and denominator of TPOT, also summed over a run for the token-weighted TPOT. N_stream leaves out
    reasoning that was never streamed. A choice's first event counts the tokens the server told, else 1.
    None when the count is unknown or not positive, and when there is no span: one event a choice, or all in one read.
    """
    if record.streamed_tokens is None or not _timed(record):
        return None
    if record.event_choice is None:
        span_ns = record.event_ns[-1] - record.event_ns[0]
        first_tokens = _first_tokens(record, 0)
    else:
        choice = np.frombuffer(record.event_choice, dtype=np.int64)
        times = np.frombuffer(record.event_ns, dtype=np.int64)
        span_ns = first_tokens = 0
        for index in np.unique(choice):
            at = np.flatnonzero(choice == index)
            span_ns += int(times[at[-1]] - times[at[0]])
            first_tokens += _first_tokens(record, int(at[0]))
    count = record.streamed_tokens - first_tokens
    return (span_ns * _MS, count) if count > 0 and span_ns > 0 else None


def _first_tokens(record: RequestRecord, position: int) -> int:
    """Tokens in the event at `position`: as the server told, else 1."""
    tokens = record.event_tokens
    return tokens[position] if tokens is not None and tokens[position] > 0 else 1


def tpot_ms(record: RequestRecord) -> float | None:
    """Time per output token after the first: (last event - first) / (N_stream - n1).

    Absent for one token, for one burst, and when N is unknown. An estimate when N is one (`token_source`).
    """
    span = decode_span(record)
    return span[0] / span[1] if span is not None else None


def e2e_ms(record: RequestRecord) -> float | None:
    """Last output event - sent; of an answer without output or not streamed, the end of its body - sent."""
    if not record.success:
        return None
    if record.streamed and len(record.event_ns) > 0:
        return _gap_ms(record.transit.sent_ns, record.event_ns[-1])
    return _gap_ms(record.transit.sent_ns, record.done_ns if record.done_ns is not None else record.ended_ns)


def e2e_from_schedule_ms(record: RequestRecord) -> float | None:
    """E2E counted from when the load model wanted the request sent."""
    e2e = e2e_ms(record)
    if e2e is None or record.transit.sent_ns is None:
        return None
    return e2e + (record.transit.sent_ns - record.scheduled_ns) * _MS


def residence_ms(record: RequestRecord) -> float:
    """Stream end - started, of every outcome: the time Little's law counts."""
    return (record.ended_ns - record.started_ns) * _MS


def tps(record: RequestRecord) -> float | None:
    """Output tokens per second of one request: N / E2E."""
    e2e = e2e_ms(record)
    if e2e is None or e2e <= 0 or record.output_tokens is None:
        return None
    return record.output_tokens * 1e3 / e2e


def connect_ms(record: RequestRecord) -> float | None:
    """Sent - started when this request opened a connection (DNS, TCP, TLS, a stale retry); None when it reused one."""
    if record.transit.sent_ns is None or (record.transit.reused and not record.transit.stale_retries):
        return None
    return _gap_ms(record.started_ns, record.transit.sent_ns)


def headers_ms(record: RequestRecord) -> float | None:
    """Response headers - sent. Not a token: many servers answer with headers before they prefill."""
    return _gap_ms(record.transit.sent_ns, record.transit.headers_ns)


def schedule_delay_ms(record: RequestRecord) -> float:
    """Started - scheduled: how late the load model was."""
    return (record.started_ns - record.scheduled_ns) * _MS


def client_delay_ms(record: RequestRecord) -> float | None:
    """The largest delay of this client's own while the request ran: from a packet's arrival to its read.

    With kernel stamps it is exact and touches no other metric; with stamps of the read it is the lag of the hub, and
    the stamps may be as late. None when nobody measured it.
    """
    lag_ns = record.transit.max_lag_ns
    return lag_ns * _MS if lag_ns is not None else None


def coalesced_events(record: RequestRecord) -> int:
    """Output events that came in the same read as the one before, so that their time is an upper bound."""
    times = np.frombuffer(record.event_ns, dtype=np.int64)
    return int(np.count_nonzero(times[1:] == times[:-1]))
