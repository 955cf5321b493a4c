"""Catalogue: the one list of metrics that tables, charts, files and reports iterate over.

A new distribution is one function in `metrics.py` and one line in `DISTRIBUTIONS`; a new figure (a rate or a count of
the whole run) is one function and one line in `figures.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure import metrics, smoothness

if TYPE_CHECKING:
    from locust_llm.measure.record import RequestRecord

Samples = float | int | NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.int64]] | None
"""What one request gives a distribution: one value, many, many with integer weights, or nothing."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A metric with many samples, shown as percentiles.

    `help` is its definition in one sentence. `pooled`: a request gives many samples, not one. `judged`: it has a
    with-failures twin, in which each failed request counts as +∞ (never where a high value is the good one).
    `timing`: it rests on the stamps of stream events, which the client's own delay can touch.
    """

    key: str
    title: str
    unit: str
    help: str
    of: Callable[[RequestRecord], Samples]
    pooled: bool = False
    judged: bool = True
    timing: bool = False


def _success_headers_ms(record: RequestRecord) -> float | None:
    return metrics.headers_ms(record) if record.success else None


def _output_tokens(record: RequestRecord) -> int | None:
    return record.output_tokens if record.success else None


def _input_tokens(record: RequestRecord) -> int | None:
    return record.input_tokens if record.success else None


TTFT: Final = "ttft"
ITL: Final = "itl"
MAX_GAP: Final = "max_gap"
TPOT: Final = "tpot"
E2E: Final = "e2e"

DISTRIBUTIONS: Final = (
    Distribution(
        TTFT,
        "TTFT",
        "ms",
        "Time to first token: first output event (reasoning included) after the request's first byte was sent.",
        metrics.ttft_ms,
        timing=True,
    ),
    Distribution(
        "ttfc",
        "TTFC",
        "ms",
        "Time to first content: first output event a reader can see, after the request was sent.",
        metrics.ttfc_ms,
        timing=True,
    ),
    Distribution("ttst", "TTST", "ms", "Time from the first output event to the second.", metrics.ttst_ms, timing=True),
    Distribution(
        ITL,
        "ITL",
        "ms",
        "Inter-token latency: each gap between consecutive output events of one choice, never divided.",
        metrics.itl_ms,
        pooled=True,
        timing=True,
    ),
    Distribution(
        "itl_token",
        "ITL/token",
        "ms",
        "Each gap divided by the tokens of the event that ends it, once per token; only where the server tells them.",
        metrics.itl_per_token_ms,
        pooled=True,
        timing=True,
    ),
    Distribution(
        MAX_GAP,
        "Largest gap",
        "ms",
        "The largest gap between output events of one answer: its worst stutter.",
        smoothness.max_gap_ms,
        timing=True,
    ),
    Distribution(
        TPOT,
        "TPOT",
        "ms",
        "Time per output token after the first: (last output event - first) / (tokens - tokens of the first event).",
        metrics.tpot_ms,
        timing=True,
    ),
    Distribution(
        E2E,
        "E2E",
        "ms",
        "End to end: last output event after the request's first byte was sent.",
        metrics.e2e_ms,
        timing=True,
    ),
    Distribution("tps", "TPS", "tok/s", "Output tokens / E2E of one request.", metrics.tps, judged=False),
    Distribution(
        "ttft_from_start",
        "TTFT from start",
        "ms",
        "First output event after the request was handed to the client, so with its connection's cost.",
        metrics.ttft_from_start_ms,
        timing=True,
    ),
    Distribution(
        "ttft_from_schedule",
        "TTFT from schedule",
        "ms",
        "First output event after the load model wanted the request sent.",
        metrics.ttft_from_schedule_ms,
        timing=True,
    ),
    Distribution(
        "e2e_from_schedule",
        "E2E from schedule",
        "ms",
        "Last output event after the load model wanted the request sent.",
        metrics.e2e_from_schedule_ms,
        timing=True,
    ),
    Distribution(
        "residence",
        "Residence",
        "ms",
        "End of the stream after the start of the request, of every outcome: the time of Little's law.",
        metrics.residence_ms,
        judged=False,
    ),
    Distribution(
        "headers", "Headers", "ms", "Response headers after the request was sent; not a token.", _success_headers_ms
    ),
    Distribution(
        "connect",
        "Connect",
        "ms",
        "DNS, TCP and TLS of the requests that opened a connection; stands outside TTFT.",
        metrics.connect_ms,
        judged=False,
    ),
    Distribution(
        "schedule_delay",
        "Schedule delay",
        "ms",
        "How long after the load model wanted it a request was handed to the client.",
        metrics.schedule_delay_ms,
        judged=False,
    ),
    Distribution(
        "client_delay",
        "Largest client delay",
        "ms",
        "This client's own largest delay while a request ran, from a packet's arrival to its read.",
        metrics.client_delay_ms,
        judged=False,
    ),
    Distribution(
        "input_tokens", "Input tokens", "tok", "Prompt tokens as the server counted them.", _input_tokens, judged=False
    ),
    Distribution(
        "output_tokens", "Output tokens", "tok", "Output tokens N of one answer.", _output_tokens, judged=False
    ),
)

BY_KEY: Final = {distribution.key: distribution for distribution in DISTRIBUTIONS}
