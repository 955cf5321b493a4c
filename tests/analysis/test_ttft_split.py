"""The TTFT split: its arithmetic, and every reason for which there is none."""

from __future__ import annotations

import pytest

from locust_llm.analysis.ttft_split import NoSplit, TtftSplit, ttft_split
from locust_llm.measure.server_sample import ServerSample, ServerSeries
from tests.measure.build import record
from tests.report.runs import stats_of

RUN = [record([sent + ttft], n=1, sent=sent) for sent, ttft in ((0, 100), (200, 300), (600, 200), (900, 200))]
"""Four answers with a mean TTFT of 200 ms."""


def vllm(n: float | None, ttft_s: float | None, *parts: float | None) -> ServerSample:
    """A look; `parts` are the queue's sum and count and the prefill's."""
    return ServerSample("vLLM", 0.0, 0.0, None, None, None, None, ttft_s, n, *parts)


def series_of(*samples: ServerSample) -> ServerSeries:
    series = ServerSeries("http://host/metrics")
    for at_s, sample in enumerate(samples):
        series.add(float(at_s), sample)
    return series


BEFORE = vllm(10, 5.0, 1.0, 10, 3.0, 10)
NONE = vllm(None, None)

# id, looks, (network, server, queue, prefill, rest) in ms
SPLITS = [
    ("all parts", [BEFORE, vllm(14, 5.72, 1.2, 14, 3.4, 14)], (20, 180, 50, 100, 30)),
    ("looks between do not matter", [BEFORE, vllm(12, 5.1, 1.1, 11, 3.1, 11), vllm(14, 5.72, 1.2, 14, 3.4, 14)],
     (20, 180, 50, 100, 30)),
    ("no prefill time, as in SGLang", [vllm(10, 5.0, 1.0, 10), vllm(14, 5.72, 1.2, 14)], (20, 180, 50, None, 130)),
    ("TTFT alone", [vllm(10, 5.0), vllm(14, 5.72)], (20, 180, None, None, 180)),
    ("told from the first request on", [NONE, vllm(4, 0.72, 0.2, 4, 0.4, 4)], (20, 180, 50, 100, 30)),
    ("a look that lacks them", [BEFORE, NONE, vllm(14, 5.72, 1.2, 14, 3.4, 14)], (20, 180, 50, 100, 30)),
    ("a queue counted on every rank", [BEFORE, vllm(14, 5.72, 1.4, 18, 3.4, 14)], (20, 180, None, 100, 80)),
]  # fmt: skip


@pytest.mark.parametrize(("looks", "parts"), [case[1:] for case in SPLITS], ids=[case[0] for case in SPLITS])
def test_a_split(looks: list[ServerSample], parts: tuple[float | None, ...]) -> None:
    split = ttft_split(stats_of(RUN), series_of(*looks))
    assert isinstance(split, TtftSplit)
    assert (split.n, split.server_n, split.client_ms) == (4, 4, pytest.approx(200))
    told = (split.network_ms, split.server_ms, split.queue_ms, split.prefill_ms, split.rest_ms)
    assert [ms is None for ms in told] == [ms is None for ms in parts]
    assert [ms for ms in told if ms is not None] == pytest.approx([ms for ms in parts if ms is not None])


# id, looks, words of the reason
REASONS = [
    ("never read", [], "not read twice"),
    ("read once", [BEFORE], "not read twice"),
    ("no histogram", [NONE, NONE], "no histogram"),
    ("another client", [BEFORE, vllm(16, 5.9)], "counted 6 first tokens and this run 4"),
    ("another server", [BEFORE, BEFORE], "counted 0 first tokens and this run 4"),
    ("begun anew", [BEFORE, vllm(4, 0.72, 0.2, 4, 0.4, 4)], "started anew"),
    ("begun anew, and past its old count", [BEFORE, vllm(1, 0.1), vllm(14, 5.72)], "started anew"),
    ("slower than the client saw", [BEFORE, vllm(14, 6.0)], "250 ms, is above the client's, 200 ms"),
]


@pytest.mark.parametrize(("looks", "words"), [case[1:] for case in REASONS], ids=[case[0] for case in REASONS])
def test_no_split(looks: list[ServerSample], words: str) -> None:
    split = ttft_split(stats_of(RUN), series_of(*looks))
    assert isinstance(split, NoSplit)
    assert words in split.why


def test_a_run_without_answers() -> None:
    split = ttft_split(stats_of([]), series_of(BEFORE, BEFORE))
    assert split == NoSplit("No answer of this run has a TTFT.")


@pytest.mark.parametrize(("server_n", "agrees"), [(17, False), (18, True), (20, True), (22, True), (23, False)])
def test_counts_agree_within_a_tenth(server_n: int, agrees: bool) -> None:
    run = [record([sent + 100], n=1, sent=sent) for sent in range(0, 2000, 100)]
    split = ttft_split(stats_of(run), series_of(vllm(0, 0.0), vllm(server_n, 0.05 * server_n)))
    assert isinstance(split, TtftSplit) == agrees
