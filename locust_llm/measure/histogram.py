"""Histogram: mergeable counts of non-negative numbers; percentiles by nearest rank with an error of at most 0.1 %.

Theory of operation. Samples are counted by bucket (see `buckets`), whose middle is within 0.098 % of each of them.
Smallest, largest, count and sum are kept beside.

New samples wait as raw doubles (which costs well under a microsecond) and are sorted into the buckets some thousand at
a time, or when somebody reads; packed histograms of other processes wait likewise. The buckets are two
sorted arrays (number, count), so that what is empty costs nothing. Merging is adding counts: it does not matter in
which order or on which machine samples were added.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure import packed
from locust_llm.measure.buckets import MAX_VALUE, SHIFT, ZERO, check, middle, number

_PENDING: Final = 8192
_PACKS: Final = 32
_FEW: Final = 8
_DOUBLE: Final = 8
_RANK_SLACK: Final = 1e-12

Ints = NDArray[np.int64]


class Histogram:
    """Counts of samples in 0 … 1e9. `len` is not defined: see `count`."""

    __slots__ = (
        "_chunks",
        "_counts",
        "_index",
        "_max",
        "_min",
        "_packs",
        "_pending",
        "_ranks",
        "_settled",
        "_sum",
        "_waiting",
    )

    def __init__(self) -> None:
        self._pending: array[float] = array("d")
        self._chunks: list[bytes] = []
        self._waiting = 0
        self._packs: list[bytes] = []
        self._index: Ints | None = None
        self._counts: Ints | None = None
        self._ranks: Ints | None = None  # the running sum of the counts, while they stay as they are
        self._settled = 0
        self._sum = 0.0
        self._min = math.inf
        self._max = -math.inf

    # -- adding --------------------------------------------------------------------------------------------------

    def add(self, value: float) -> None:
        """One sample. Raises ValueError when it is negative, NaN or above 1e9."""
        if not 0.0 <= value <= MAX_VALUE:
            raise ValueError(f"not a sample: {value}")
        pending = self._pending
        pending.append(value)
        if len(pending) >= _PENDING:
            self._settle()

    def add_many(self, values: NDArray[np.float64]) -> None:
        """All of `values`, or none of them and ValueError when one is negative, NaN or above 1e9."""
        check(values)
        self.add_checked(values.tobytes())

    def add_checked(self, doubles: bytes) -> None:
        """Many samples, as the bytes of a float64 array that has passed `check`. They are kept, not copied."""
        if not doubles:
            return
        self._chunks.append(doubles)
        self._waiting += len(doubles) // _DOUBLE
        if self._waiting >= _PENDING:
            self._settle()

    def add_weighted(self, values: NDArray[np.float64], weights: Ints) -> None:
        """Each value as often as its weight says."""
        self.add_many(np.repeat(values, weights))

    def merge(self, other: Histogram) -> None:
        """Add all samples of `other`, which stays as it is."""
        self.merge_all((other,))

    def merge_all(self, others: Iterable[Histogram]) -> None:
        """Add all samples of many, which stay as they are."""
        indexes, counts = [], []
        for other in others:
            if other.count == 0:
                continue
            self._min = min(self._min, other._min)
            self._max = max(self._max, other._max)
            self._sum += other._sum
            self._settled += other._settled
            self._pending.extend(other._pending)
            self._chunks += other._chunks
            self._waiting += other._waiting
            if other._index is not None and other._counts is not None:
                indexes.append(other._index)
                counts.append(other._counts)
        if indexes:
            self._absorb_any(np.concatenate(indexes), np.concatenate(counts))
        if len(self._pending) + self._waiting >= _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Sort what waits into the buckets."""
        if self._packs:
            self._settle_packs()
        if not self._pending and not self._chunks:
            return
        values = np.frombuffer(self._raw(), dtype=np.float64)
        self._pending = array("d")
        self._chunks = []
        self._waiting = 0
        low, high = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
        self._min = min(self._min, low)
        self._max = max(self._max, high)
        self._sum += float(np.add.reduce(values))
        self._settled += len(values)
        numbers = values.view(np.int64) >> SHIFT
        first = number(low)
        if first == ZERO:
            np.maximum(numbers, ZERO, out=numbers)
        numbers -= first
        dense = np.bincount(numbers)
        held = dense.nonzero()[0]
        counts = dense[held]
        held += first
        self._absorb(held, counts)

    def _raw(self) -> bytes:
        """The samples that wait, as doubles."""
        return b"".join((self._pending.tobytes(), *self._chunks))

    def _settle_packs(self) -> None:
        packs, self._packs = self._packs, []
        low, high, total, index, counts = packed.unpack(packs)
        self._min = min(self._min, low)
        self._max = max(self._max, high)
        self._sum += total
        self._settled += int(counts.sum())
        self._absorb_any(index, counts)

    def _absorb_any(self, index: Ints, counts: Ints) -> None:
        """Add buckets in any order, the same ones any number of times."""
        first = int(index.min())
        dense = np.bincount(index - first, weights=counts).astype(np.int64)  # exact below 2^53
        held = dense.nonzero()[0]
        self._absorb(held + first, dense[held])

    def _absorb(self, index: Ints, counts: Ints) -> None:
        """Add buckets; `index` is sorted and holds each number once."""
        self._ranks = None
        if self._index is None or self._counts is None:
            self._index, self._counts = index.copy(), counts.copy()
            return
        at = np.searchsorted(self._index, index)
        known = self._index[np.minimum(at, len(self._index) - 1)] == index
        if known.all():
            self._counts[at] += counts
        else:
            self._counts[at[known]] += counts[known]
            new = ~known
            self._index = np.insert(self._index, at[new], index[new])
            self._counts = np.insert(self._counts, at[new], counts[new])

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of samples."""
        if self._packs:
            self._settle_packs()
        return self._settled + self._waiting + len(self._pending)

    @property
    def sum(self) -> float:
        """Sum of the samples (of the samples themselves, not of their buckets)."""
        self._settle()
        return self._sum

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None when empty."""
        return self.sum / self.count if self.count else None

    @property
    def min(self) -> float | None:
        """The smallest sample, exactly; None when empty."""
        self._settle()
        return self._min if self._settled else None

    @property
    def max(self) -> float | None:
        """The largest sample, exactly; None when empty."""
        self._settle()
        return self._max if self._settled else None

    def percentile(self, q: float) -> float | None:
        """Nearest rank: the smallest value v with at least q·n samples ≤ v, within 0.1 %; q in 0 … 1. None when empty.

        Never above the largest sample or below the smallest.
        """
        return self._at_rank(_rank(q, self.count)) if self.count else None

    def percentile_with(self, infinite: int, q: float) -> float | None:
        """The same with `infinite` more samples of +∞ (failures): `math.inf` when the rank falls among them."""
        total = self.count + infinite
        if total == 0:
            return None
        rank = _rank(q, total)
        return self._at_rank(rank) if rank <= self.count else math.inf

    def _at_rank(self, rank: int) -> float:
        self._settle()
        if rank <= 1:
            return self._min
        if rank >= self._settled:
            return self._max
        assert self._index is not None
        assert self._counts is not None
        if self._ranks is None:
            self._ranks = self._counts.cumsum()
        position = int(self._ranks.searchsorted(rank))
        return min(max(middle(int(self._index[position])), self._min), self._max)

    def count_at_least(self, value: float) -> int:
        """How many samples are ≥ `value`; those in its own bucket (0.2 % wide) count as such."""
        self._settle()
        if self._index is None or self._counts is None or value > self._max:
            return 0
        return int(self._counts[np.searchsorted(self._index, number(value)) :].sum())

    def count_above(self, value: float) -> int:
        """How many samples lie in buckets above that of `value`."""
        self._settle()
        if self._index is None or self._counts is None or value >= self._max:
            return 0
        return int(self._counts[np.searchsorted(self._index, number(value), side="right") :].sum())

    def buckets(self) -> list[tuple[float, int]]:
        """(middle, count) of every bucket that holds something, rising."""
        self._settle()
        if self._index is None or self._counts is None:
            return []
        return [(middle(i), n) for i, n in zip(self._index.tolist(), self._counts.tolist(), strict=True)]

    # -- travelling ----------------------------------------------------------------------------------------------

    def pack(self) -> bytes:
        """Compact bytes for a worker's report; `merge_packed` reads them."""
        if self.count <= _FEW and self._settled == 0:
            return packed.pack_few(self._raw())
        self._settle()
        assert self._index is not None
        assert self._counts is not None
        return packed.pack(self._min, self._max, self._sum, self._index, self._counts)

    def merge_packed(self, data: bytes) -> None:
        """Add what `pack` of another histogram gave."""
        self.merge_packs([data])

    def merge_packs(self, many: list[bytes]) -> None:
        """Add what `pack` of several others gave."""
        few, others = packed.few_of(many)
        self.add_checked(few)
        self._packs += others
        if len(self._packs) >= _PACKS:
            self._settle()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON. Bucket i holds values whose double, shifted right by 43 bits, is i."""
        self._settle()
        return {
            "count": self.count,
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "index": [] if self._index is None else self._index.tolist(),
            "counts": [] if self._counts is None else self._counts.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Histogram:
        """The histogram that `to_dict` described."""
        histogram = cls()
        if data["count"]:
            histogram._index = np.array(data["index"], dtype=np.int64)
            histogram._counts = np.array(data["counts"], dtype=np.int64)
            histogram._settled = int(data["count"])
            histogram._sum = float(data["sum"])
            histogram._min = float(data["min"])
            histogram._max = float(data["max"])
        return histogram

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """A new histogram with the samples of all."""
        result = cls()
        result.merge_all(histograms)
        return result


def _rank(q: float, count: int) -> int:
    """The nearest rank ⌈q·n⌉, at least 1; q·n is eased a little, since 0.07 · 100 is 7.000000000000001."""
    return max(1, min(count, math.ceil(q * count * (1.0 - _RANK_SLACK))))
