"""Order: in which order the requests of a file are sent, so that none repeats until all have been."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np


def order(
    count: int, *, seed: str | int = 0, index: int = 0, processes: int = 1, last_first: bool = False
) -> Iterator[int]:
    """Numbers below `count` without end, in an order drawn by `seed`: every number once, then all in a new order.

    Of the one order of a run, process number `index` of `processes` takes each `processes`-th, so that together they
    send every request once. `last_first` takes an order from its end: for requests before the test.
    """
    position = index % processes
    round_ = 0
    while True:
        digest = hashlib.sha256(f"{seed}/{round_}".encode()).digest()
        shuffled = np.random.default_rng(int.from_bytes(digest[:8])).permutation(count)
        if last_first:
            shuffled = shuffled[::-1]
        while position < count:
            yield int(shuffled[position])
            position += processes
        position -= count
        round_ += 1
