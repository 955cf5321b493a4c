"""The order of a file's requests: none repeats before all have been sent, by one process or by many."""

from __future__ import annotations

import itertools

import pytest

from locust_llm.workload.order import order


@pytest.mark.parametrize("processes", [1, 2, 3, 7, 20])
def test_all_processes_together_send_each_once_a_round(processes: int) -> None:
    rounds = 3
    streams = [order(12, seed=5, index=k, processes=processes) for k in range(processes)]
    dealt = [next(stream) for _, stream in zip(range(12 * rounds), itertools.cycle(streams), strict=False)]
    for round_ in range(rounds):
        assert sorted(dealt[round_ * 12 : round_ * 12 + 12]) == list(range(12))
    assert dealt[:12] != dealt[12:24]


def test_a_seed_is_an_order() -> None:
    one, same, other = (list(itertools.islice(order(100, seed=seed), 100)) for seed in (1, 1, 2))
    assert one == same != other
    assert one != sorted(one)


def test_what_is_sent_before_the_test_comes_last_in_it() -> None:
    before = list(itertools.islice(order(100, seed=1, last_first=True), 5))
    assert before == list(itertools.islice(order(100, seed=1), 100))[:-6:-1]
