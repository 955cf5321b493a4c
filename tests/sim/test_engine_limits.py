"""KV capacity with preemption, prefix cache, bounded queue, rate limit, context length."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from locust_llm.sim.engine import Engine
from locust_llm.sim.faults import Fault
from locust_llm.sim.prefix_cache import BLOCK_TOKENS, PrefixCache, word_blocks
from locust_llm.sim.sequence import Refusal, Sequence
from locust_llm.sim.settings import EngineSettings
from tests.sim.playing import MS, Arrival, S, play, ttft_ms

PLAIN = EngineSettings(slots=4, prefill_tps=1000.0, decode_ms=10.0, decode_slope_ms=0.0)


def test_preemption_conserves_tokens_and_recomputes() -> None:
    """Two requests of 50 + 40 tokens in 120 tokens of KV: the younger one has to go and come back."""
    run = play(replace(PLAIN, kv_tokens=120), [Arrival(0, 50, 40), Arrival(0, 50, 40)])
    older, younger = run.sequences()
    assert (older.preemptions, younger.preemptions) == (0, 1)
    for number in (1, 2):
        assert sum(event.tokens for event in run.events if event.number == number) == 40
        assert [event.kind for event in run.events if event.number == number].count("first") == 1
    assert (older.outcome, younger.outcome) == ("length", "length")
    # Both decode until 10 tokens each: 50 + 10 twice is all the KV holds beside the newest tokens.
    pause = [event.time_ns for event in run.events if event.number == 2 and event.tokens]
    gaps_ms = [(after - before) / MS for before, after in pairwise(pause)]
    recomputed = gaps_ms.index(max(gaps_ms)) + 1  # tokens it had when it was preempted
    assert recomputed == 11
    # It waits for the older one's last 29 tokens, then its prompt and its 11 tokens are prefilled again.
    assert max(gaps_ms) == 29 * 10 + 50 + 11


def test_kv_never_exceeds_its_capacity_and_is_given_back() -> None:
    engine = Engine(replace(PLAIN, slots=16, kv_tokens=400))
    sequences = [engine.submit(0, 30 + number, 60) for number in range(20)]
    most = 0
    while engine.advance(10**12) is not None:
        assert engine.kv_used <= 400
        most = max(most, engine.kv_used)
    assert most > 350
    assert engine.kv_used == engine.running == engine.waiting == 0
    assert engine.tally.preemptions > 0
    assert engine.tally.tokens == 20 * 60
    assert all(isinstance(sequence, Sequence) and sequence.tokens == 60 for sequence in sequences)


@pytest.mark.parametrize(
    ("limits", "prompt_tokens", "max_tokens", "status"),
    [
        ({"context_tokens": 100}, 60, 40, None),
        ({"context_tokens": 100}, 61, 40, 400),
        ({"kv_tokens": 100}, 61, 40, 400),
        ({"kv_tokens": 100, "context_tokens": 1000}, 60, 40, None),
    ],
)
def test_what_can_never_fit_is_refused(
    limits: dict[str, int], prompt_tokens: int, max_tokens: int, status: int | None
) -> None:
    run = play(replace(PLAIN, **limits), [Arrival(0, prompt_tokens, max_tokens)])  # type: ignore[arg-type]
    taken = run.taken[0]
    assert (taken.status if isinstance(taken, Refusal) else None) == status
    assert run.engine.tally.too_long == (1 if status is not None else 0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_full_queue_refuses(status: int) -> None:
    settings = replace(PLAIN, slots=2, max_queue=3, queue_status=status)
    run = play(settings, [Arrival(0, 10, 5)] * 7)
    refusals = [taken for taken in run.taken if isinstance(taken, Refusal)]
    assert [isinstance(taken, Sequence) for taken in run.taken] == [True] * 5 + [False] * 2
    assert refusals == [Refusal(status, "queue_full", 1)] * 2
    assert run.engine.tally.queue_full == 2


def test_a_queue_of_none_still_uses_every_slot() -> None:
    settings = replace(PLAIN, slots=2, max_queue=0)
    run = play(settings, [Arrival(0, 10, 5), Arrival(MS, 10, 5), Arrival(2 * MS, 10, 5), Arrival(S, 10, 5)])
    assert [isinstance(taken, Sequence) for taken in run.taken] == [True, True, False, True]


def test_a_queue_behind_kv_counts_everybody_who_waits() -> None:
    """Eight slots but KV for one: two may wait, although slots are free."""
    settings = replace(PLAIN, slots=8, kv_tokens=100, max_queue=2)
    arrivals = [Arrival(number * MS, 60, 30) for number in range(12)]
    # Until the first boundary, at 60 ms, nobody knows that KV is short; the free slots count as room till then.
    assert [isinstance(taken, Sequence) for taken in play(settings, arrivals).taken] == [True] * 10 + [False] * 2
    late = [Arrival(0, 60, 30), *(Arrival((100 + number) * MS, 60, 30) for number in range(12))]
    assert [isinstance(taken, Sequence) for taken in play(settings, late).taken] == [True] * 3 + [False] * 10


RATE = [
    pytest.param(1, [0, 50, 100, 150, 200], [True, False, True, False, True], id="ten a second, one at once"),
    pytest.param(3, [1000, 1000, 1000, 1000, 1100, 1150], [True] * 3 + [False, True, False], id="three at once"),
]


@pytest.mark.parametrize(("burst", "at_ms", "expected"), RATE)
def test_rate_limit(burst: int, at_ms: list[int], expected: list[bool]) -> None:
    settings = replace(PLAIN, rate_limit_rps=10.0, rate_limit_burst=burst)
    run = play(settings, [Arrival(at * MS, 1, 1) for at in at_ms])
    assert [isinstance(taken, Sequence) for taken in run.taken] == expected
    assert run.engine.tally.rate_limit == expected.count(False)


def test_rate_limit_says_when_to_come_back() -> None:
    run = play(replace(PLAIN, rate_limit_rps=0.2), [Arrival(0, 1, 1), Arrival(S, 1, 1)])
    assert run.taken[1] == Refusal(429, "rate_limit", 4)


def test_a_refused_request_does_not_use_up_the_rate() -> None:
    settings = replace(PLAIN, slots=1, max_queue=0, rate_limit_rps=10.0, rate_limit_burst=2)
    run = play(settings, [Arrival(0, 10, 3), Arrival(MS, 10, 3), Arrival(60 * MS, 10, 3)])
    assert [isinstance(taken, Sequence) for taken in run.taken] == [True, False, True]


def test_prefix_cache_saves_prefill_of_the_shared_part() -> None:
    shared = tuple(range(1, 7))  # 6 blocks: 96 tokens
    settings = replace(PLAIN, prefix_cache_tokens=10_000)
    run = play(settings, [Arrival(0, 100, 2, blocks=shared), Arrival(S, 112, 2, blocks=(*shared, 99))])
    first, second = run.sequences()
    assert (first.cached_tokens, second.cached_tokens) == (0, 96)
    assert ttft_ms(first) == 100
    assert ttft_ms(second) == 112 - 96
    assert run.engine.tally.cached_tokens == 96


def test_without_a_prefix_cache_cached_tokens_are_unknown() -> None:
    run = play(PLAIN, [Arrival(0, 100, 2, blocks=(1, 2))])
    assert run.sequence(0).cached_tokens is None


CACHE = [
    pytest.param([], [1, 2], 40, 0, id="empty"),
    pytest.param([[1, 2, 3]], [1, 2, 9], 48, 32, id="the common front counts"),
    pytest.param([[1, 2, 3]], [9, 2, 3], 48, 0, id="not what follows an unknown block"),
    pytest.param([[1, 2, 3]], [1, 2, 3], 48, 47, id="the last token is always computed"),
    pytest.param([[1, 2], [3, 4], [5, 6]], [1, 2], 40, 0, id="oldest out"),
    pytest.param([[1, 2], [3, 4], [1, 2], [5, 6]], [1, 2], 40, 32, id="use keeps it in"),
    pytest.param([[1, 2, 3], [8]], [1, 2, 3], 50, 48, id="fits exactly"),
    pytest.param([[1, 2, 3], [8, 9]], [1, 2, 3], 50, 32, id="the end of a prompt goes before its front"),
]


@pytest.mark.parametrize(("stored", "asked", "prompt_tokens", "expected"), CACHE)
def test_prefix_cache(stored: list[list[int]], asked: list[int], prompt_tokens: int, expected: int) -> None:
    cache = PrefixCache(4 * BLOCK_TOKENS)
    for blocks in stored:
        cache.store(blocks)
    assert cache.cached_tokens(asked, prompt_tokens) == expected


def test_word_blocks_agree_as_long_as_the_words_do() -> None:
    words = [f"w{number}" for number in range(5 * BLOCK_TOKENS)]
    changed = [*words[:40], "other", *words[41:]]
    same = [a == b for a, b in zip(word_blocks(words), word_blocks(changed), strict=True)]
    assert same == [True, True, False, False, False]
    assert word_blocks(words[: BLOCK_TOKENS - 1]) == []


def test_a_preempted_request_comes_back_before_those_that_wait() -> None:
    run = play(replace(PLAIN, kv_tokens=120), [Arrival(0, 50, 40), Arrival(0, 50, 40), Arrival(MS, 50, 5)])
    older, preempted, waiting = run.sequences()
    assert preempted.preemptions == 1
    # There would be room for the shorter one at once, but it must not jump the queue.
    assert waiting.started_ns == older.ended_ns


@pytest.mark.parametrize("bulk", [False, True], ids=["step by step", "in bulk"])
@pytest.mark.parametrize("leaver", ["preempted", "stalled"])
def test_room_that_a_cancelled_request_leaves_is_used_at_the_next_boundary(leaver: str, bulk: bool) -> None:
    """One decodes on; the second, whose going lets the third in, is cancelled in the middle of a step."""
    faults, kv_tokens = ((Fault("stall", 0.5, 9.0),), 138) if leaver == "stalled" else ((), 130)
    settings = replace(PLAIN, kv_tokens=kv_tokens, faults=faults, seed=22)
    run = play(settings, [Arrival(0, 20, 60), Arrival(0, 60, 60, cancelled_ns=405 * MS), Arrival(MS, 60, 5)], bulk=bulk)
    _, left, third = run.sequences()
    assert (bool(left.stall_ns), bool(left.preemptions)) == (leaver == "stalled", leaver == "preempted")
    assert third.started_ns == 410 * MS
