"""Tokens and billing: the best count, the audit of usage against our own, and the cost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from locust_llm.measure.billing import Cost, Prices, cost, prices_of
from locust_llm.measure.counts import AUDIT_EXAMPLES, Counts
from locust_llm.measure.record import Outcome, RequestRecord, TokenSource
from locust_llm.measure.stats import RunStats
from locust_llm.measure.timeline import CONTENT, Timeline
from locust_llm.measure.tokens import TokenizerError, count_words, load_counter, local_count, overbilled, truer
from tests.measure.build import OFFSET, record, usage

TEXT = "one two three four five six seven eight nine ten"
LOGPROBS, TOKENIZER = TokenSource.LOGPROBS, TokenSource.TOKENIZER


def answer(n: int = 10, **more: Any) -> RequestRecord:
    """Ten words in ten events, billed as `n`."""
    return record(tuple(range(100, 200, 10)), **{"n": n, "text": TEXT, "usage": usage(n, 50), **more})


# id, record, (tokens, source) by our own count
LOCAL = [
    ("its text", answer(), (10, TOKENIZER)),
    ("its reasoning, too", answer(reasoning="well then"), (12, TOKENIZER)),
    ("logprobs win", answer(tokens=[1] * 9 + [3], event_source=LOGPROBS), (12, LOGPROBS)),
    (
        "per-event usage is the server's word",
        answer(tokens=[2] * 10, event_source=TokenSource.USAGE),
        (10, "tokenizer"),
    ),
    ("an untold event", answer(tokens=[1] * 9 + [0], event_source=LOGPROBS), (10, TOKENIZER)),
    ("a tool call is no text", answer(tool_calls=({"name": "f"},)), None),
    ("two choices", replace(answer(), choices=("a", "b")), None),
    ("hidden reasoning", answer(hidden_reasoning=True), None),
    ("no text", answer(text=""), None),
]


@pytest.mark.parametrize(("each", "expected"), [case[1:] for case in LOCAL], ids=[case[0] for case in LOCAL])
def test_our_own_count(each: RequestRecord, expected: tuple[int, str] | None) -> None:
    found = local_count(each, count_words)
    assert (None if found is None else (found.tokens, found.source)) == expected


def test_without_tokenizer_only_logprobs_count() -> None:
    assert local_count(answer(), None) is None
    assert local_count(answer(tokens=[1] * 10, event_source=LOGPROBS), None) is not None


# id, billed, finish reason, difference
BILLED = [
    ("as counted", 10, "length", 0),
    ("one more at a natural end", 11, "stop", 0),
    ("one more at the limit", 11, "length", 1),
    ("two more at a natural end", 12, "stop", 2),
    ("fewer", 9, "stop", -1),
]


@pytest.mark.parametrize(("n", "reason", "off"), [case[1:] for case in BILLED], ids=[case[0] for case in BILLED])
def test_what_is_billed_too_much(n: int, reason: str, off: int) -> None:
    each = answer(n, finish_reasons=(reason,))
    local = local_count(each, count_words)
    assert local is not None
    assert overbilled(each, local) == off


def audited(*answers: RequestRecord, counter: Any = count_words) -> Counts:
    stats = RunStats(OFFSET, counter=counter)
    for each in answers:
        stats.started(each.name, each.started_ns)
        stats.add(each)
    return stats.counts()


def test_the_audit_counts_in_total_and_one_by_one() -> None:
    counts = audited(answer(), answer(20), answer(12), answer(15, outcome=Outcome.FAILED), answer(10, text=""))
    assert (counts.audited, counts.audit_usage_tokens, counts.audit_local_tokens) == (3, 42, 30)
    assert counts.audit_off == 1  # 12 for 10 is over 2 %, but only two tokens
    assert counts.audit_examples == {"billed 20, counted 10": 1}
    assert counts.audit_sources == {"tokenizer": 3}
    assert audited(answer(20), counter=None).audited == 0


def test_examples_are_few_and_travel() -> None:
    stats, master = RunStats(OFFSET, lag_s=None, counter=count_words), RunStats(OFFSET)
    for n in range(20, 40):
        stats.started("chat", 0)
        stats.add(answer(n))
    master.merge_delta(stats.take_delta())
    assert len(master.counts().audit_examples) == AUDIT_EXAMPLES
    assert master.counts().audit_off == 20


@pytest.mark.parametrize(
    ("told", "impossible"),
    [
        ({"cached_tokens": 51}, 1),
        ({"cached_tokens": 50}, 0),
        ({"reasoning_tokens": 11}, 1),
        ({"reasoning_tokens": 10}, 0),
        ({}, 0),
    ],
)
def test_a_part_larger_than_the_whole_is_impossible(told: dict[str, int], impossible: int) -> None:
    assert audited(answer(usage=usage(10, 50, **told))).impossible_usage == impossible


# id, record, (N, N_stream, source)
TRUER = [
    ("chunks", answer(3, source=TokenSource.CHUNKS), (10, 10, "tokenizer")),
    ("usage stays", answer(3), (3, 3, "usage")),
    ("tool calls stay", answer(3, source=TokenSource.CHUNKS, tool_calls=({"name": "f"},)), (3, 3, "chunks")),
    ("nothing said", answer(3, source=TokenSource.CHUNKS, text=""), (3, 3, "chunks")),
]


@pytest.mark.parametrize(("each", "expected"), [case[1:] for case in TRUER], ids=[case[0] for case in TRUER])
def test_a_tokenizer_is_better_than_events(each: RequestRecord, expected: tuple[int, int, str]) -> None:
    found = truer(each, count_words)
    assert (found.output_tokens, found.streamed_tokens, found.token_source) == expected
    assert truer(each, None) is each


def test_the_timeline_says_what_told_its_events() -> None:
    timeline = Timeline("chat", started_ns=0)
    timeline.output(1)
    timeline.say(CONTENT, 0, "hello")
    timeline.weigh_last(2, LOGPROBS)
    assert timeline.freeze(2).event_source is LOGPROBS


# -- tokenizers ----------------------------------------------------------------------------------------------------

WORD_LEVEL = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "one": 1}, "unk_token": "[UNK]"},
}


def test_a_tokenizer_json_counts(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(WORD_LEVEL))
    counter = load_counter(str(file))
    assert counter is not None
    assert counter(TEXT) == 10
    assert counter("") == 0


def test_no_name_no_counter() -> None:
    assert load_counter("") is None
    assert load_counter("words") is count_words


# id, what the file holds (None: no file), what is said
BROKEN = [
    ("missing", None, "no such file"),
    ("no JSON", "hello", "not a tokenizer.json"),
    ("other JSON", "{}", "not a tokenizer.json"),
]


@pytest.mark.parametrize(("content", "said"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_file_that_is_no_tokenizer_is_refused(content: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TokenizerError, match=said):
        load_counter(str(file))


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(WORD_LEVEL))
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(TokenizerError, match=r"locust-llm\[tokenizers\]"):
        load_counter(str(file))


# -- cost ----------------------------------------------------------------------------------------------------------

COUNTS = Counts(
    succeeded=4, input_tokens=3_000_000, cached_tokens=1_000_000, output_tokens=400_000, partial_tokens=100_000
)

# id, prices, cost
COSTS = [
    ("input and output", Prices(3.0, 10.0), Cost(14.0, 6.0, 3.0, 5.0, 3500.0, 35.0)),
    ("cached input is cheaper", Prices(3.0, 10.0, 0.5), Cost(11.5, 6.0, 0.5, 5.0, 2875.0, 28.75)),
    ("output alone", Prices(output=10.0), Cost(5.0, 0.0, 0.0, 5.0, 1250.0, 12.5)),
    ("cached for nothing", Prices(3.0, cached=0.0), Cost(6.0, 6.0, 0.0, 0.0, 1500.0, 15.0)),
]


@pytest.mark.parametrize(("prices", "expected"), [case[1:] for case in COSTS], ids=[case[0] for case in COSTS])
def test_a_run_costs_what_its_tokens_cost(prices: Prices, expected: Cost) -> None:
    found = cost(COUNTS, prices)
    for part in Cost.__slots__:
        assert getattr(found, part) == pytest.approx(getattr(expected, part)), part


def test_an_empty_run_costs_nothing() -> None:
    assert cost(Counts(), Prices(3.0, 10.0)) == Cost(0.0, 0.0, 0.0, 0.0, None, None)


def test_prices_are_read_from_the_options() -> None:
    assert prices_of({"llm_price_in": None, "llm_price_out": None}) is None
    assert prices_of({}) is None
    assert prices_of({"llm_price_in": 0.0, "llm_price_cached": 1}) == Prices(0.0, None, 1.0)
