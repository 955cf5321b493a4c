"""Dialects: one record in the words of other load generators, by their own definitions, to reconcile numbers.

Read from their sources: vLLM `vllm/benchmarks/lib/endpoint_request_func.py` and `serve.py` (02cfb53), SGLang
`python/sglang/bench_serving.py` (0033168), AIPerf `src/aiperf/metrics/types/*` (58028d5, 58dd5de), GuideLLM
`src/guidellm/schemas/base/request_stats.py` (31c74ea) and the weights of its summaries. All four start their clock
when their client is called, which is our `started`; ours starts when the first byte goes to a ready connection, `sent`.
What our records do not hold (chunks without output, such as a role) is named as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from locust_llm.measure.catalogue import E2E, ITL, TPOT, TTFT
from locust_llm.measure.record import RequestRecord

Samples = list[tuple[float, float]]
"""(value in ms, weight) of one request; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Term:
    """One of their metrics: its name there, its formula in words, and ours (a key of the catalogue) that is closest."""

    title: str
    formula: str
    of: Callable[[RequestRecord], Samples]
    ours: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """Another tool's words. `ranks`: whether its percentiles are samples (else interpolated, as numpy does)."""

    title: str
    terms: tuple[Term, ...]
    differences: tuple[str, ...]
    ranks: bool = False


def _ms(begin_ns: int, end_ns: int) -> float:
    return (end_ns - begin_ns) * 1e-6


def _one(value: float | None, weight: float = 1.0) -> Samples:
    return [] if value is None else [(value, weight)]


def _answered(record: RequestRecord) -> bool:
    return record.success and record.streamed and len(record.event_ns) > 0


def _end_ns(record: RequestRecord) -> int:
    """The end of the stream: its closing mark, else the end of the body."""
    ends = (record.done_ns, record.transit.end_ns)
    return next((end for end in ends if end is not None), record.ended_ns)


# -- what they measure ---------------------------------------------------------------------------------------------


def _first(record: RequestRecord) -> Samples:
    return _one(_ms(record.started_ns, record.event_ns[0]) if _answered(record) else None)


def _first_visible(record: RequestRecord) -> Samples:
    seen = record.first_visible_ns
    return _one(_ms(record.started_ns, seen) if _answered(record) and seen is not None else None)


def _last(record: RequestRecord) -> Samples:
    return _one(_ms(record.started_ns, record.event_ns[-1]) if _answered(record) else None)


def _to_end(record: RequestRecord) -> Samples:
    return _one(_ms(record.started_ns, _end_ns(record)) if _answered(record) else None)


def _gaps(record: RequestRecord) -> Samples:
    times = record.event_ns if _answered(record) else ()
    return [(_ms(a, b), 1.0) for a, b in pairwise(times)]


def _visible_gaps(record: RequestRecord) -> Samples:
    seen = record.first_visible_ns
    if not _answered(record) or seen is None:
        return []
    times = [at for at in record.event_ns if at >= seen]
    return [(_ms(a, b), 1.0) for a, b in pairwise(times)]


def _per_token(record: RequestRecord, begin_ns: int | None, end_ns: int, less: int) -> float | None:
    """(end - begin) / (N - less); None where N is unknown or not larger."""
    tokens = record.output_tokens
    if not _answered(record) or begin_ns is None or tokens is None or tokens <= less:
        return None
    return _ms(begin_ns, end_ns) / (tokens - less)


def _after_first(record: RequestRecord) -> Samples:
    return _one(_per_token(record, record.event_ns[0], record.event_ns[-1], 1)) if _answered(record) else []


def _after_first_to_end(record: RequestRecord) -> Samples:
    return _one(_per_token(record, record.first_visible_ns, _end_ns(record), 1)) if _answered(record) else []


def _after_first_chunk(record: RequestRecord) -> Samples:
    """AIPerf subtracts the tokens of the first chunk where the server told them, else 1."""
    if not _answered(record) or (record.output_tokens or 0) < 2:
        return []
    told = record.event_tokens[0] if record.event_tokens is not None else 1
    less = told if 0 < told < (record.output_tokens or 0) else 1
    return _one(_per_token(record, record.event_ns[0], record.event_ns[-1], less))


def _weighted_after_first(record: RequestRecord) -> Samples:
    return [(value, (record.output_tokens or 1) - 1.0) for value, _ in _after_first(record)]


def _with_first(record: RequestRecord) -> Samples:
    if not _answered(record):
        return []
    value = _per_token(record, record.started_ns, record.event_ns[-1], 0)
    return _one(value, float(record.output_tokens or 0))


def _second(record: RequestRecord) -> Samples:
    return _gaps(record)[:1]


# -- the tools -----------------------------------------------------------------------------------------------------

_CLOCK: Final = "Its clock starts when its client is called, so that connecting is inside; ours starts at `sent`."
_SHORT: Final = "Answers of few tokens count in full; ours leave those under --llm-min-tokens out of TPOT."
_BUFFERED: Final = "Answers that came in one burst count; ours give them no TTFT, ITL and TPOT."
_LINEAR: Final = "Its percentiles are interpolated between samples; ours are samples (nearest rank)."
_CHOICES: Final = "Gaps are between chunks of any choice; ours between events of one choice."

DIALECTS: Final[dict[str, Dialect]] = {
    "vllm": Dialect(
        "vLLM (vllm bench serve)",
        (
            Term("TTFT", "first chunk with choices - start", _first, TTFT),
            Term("TPOT", "(latency - TTFT) / (N - 1)", _after_first, TPOT),
            Term("ITL", "each gap between chunks with choices", _gaps, ITL),
            Term("E2EL", "last chunk with choices - start", _last, E2E),
        ),
        (
            _CLOCK,
            "Any chunk with choices counts, one with a role or an empty text, too: where a server sends that ahead, "
            "vLLM's TTFT is shorter and it has one ITL more. Records do not hold such chunks.",
            "N is the usage, else its own tokenizer's count of the text; TPOT subtracts 1 token for the first chunk "
            "whatever it held, and hidden reasoning is not taken out of N.",
            _SHORT,
            _BUFFERED,
            _CHOICES,
            _LINEAR,
        ),
    ),
    "sglang": Dialect(
        "SGLang (sglang.bench_serving, chat)",
        (
            Term("TTFT", "first chunk with content - start", _first_visible, TTFT),
            Term("TPOT", "(latency - TTFT) / (N - 1), latency to the end of the stream", _after_first_to_end, TPOT),
            Term("ITL", "each gap between chunks with content", _visible_gaps, ITL),
            Term("E2E", "last line of the stream, [DONE] included - start", _to_end, E2E),
        ),
        (
            _CLOCK,
            "Only content counts: reasoning before it is inside its TTFT (as in our TTFC), and what comes after the "
            "last token (usage, [DONE]) is inside its TPOT and E2E.",
            "N is the usage of the stream, else the max_tokens that were asked for; ours is never what was asked for.",
            _SHORT,
            _BUFFERED,
            _CHOICES,
            _LINEAR,
        ),
    ),
    "aiperf": Dialect(
        "AIPerf",
        (
            Term("Time to First Token", "first content response - start", _first, TTFT),
            Term("Time to Second Token", "second content response - first", _second, "ttst"),
            Term("Inter Token Latency", "(request latency - TTFT) / (OSL - 1)", _after_first_chunk, TPOT),
            Term("Inter Chunk Latency", "each gap between content responses", _gaps, ITL),
            Term("Request Latency", "last content response - start", _last, E2E),
        ),
        (
            _CLOCK,
            "Its Inter Token Latency is one average a request: what we call TPOT. Our ITL is its Inter Chunk Latency.",
            "OSL is its own tokenizer's count by default (here: our N, the usage where there is one); the first chunk "
            "counts as 1 token unless the server tells (--per-chunk-usage).",
            _SHORT,
            _BUFFERED,
            _CHOICES,
            _LINEAR,
        ),
    ),
    "guidellm": Dialect(
        "GuideLLM",
        (
            Term("TTFT", "first token iteration - start", _first, TTFT),
            Term("TPOT", "(last token - start) / N, weight N", _with_first, TPOT),
            Term("ITL", "(last token - first) / (N - 1), weight N - 1", _weighted_after_first, TPOT),
            Term("Request latency", "end of the request - start", _to_end, E2E),
        ),
        (
            _CLOCK,
            "Its TPOT has the wait for the first token in it: E2E / N. Its ITL is one average a request, what we call "
            "TPOT; it has nothing like our ITL.",
            "TPOT and ITL are weighted by tokens, so that long answers count more; our TPOT counts each answer once, "
            "and the token-weighted TPOT stands beside it.",
            "Its request latency goes to the end of the stream, ours to the last output event.",
            _SHORT,
            _BUFFERED,
        ),
        ranks=True,
    ),
}
"""The tools by the name that `--dialect` takes."""


def samples(term: Term, records: Sequence[RequestRecord]) -> Samples:
    """All samples of a term; the warm-up is left out, as in every figure."""
    return [sample for record in records if not record.warmup for sample in term.of(record)]
