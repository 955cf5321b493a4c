"""Packed: a histogram as few bytes, for workers' reports.

A few samples travel as they are (a zero byte, then doubles). Else: a kind byte, smallest, largest, sum, number of
buckets, number of the first bucket; then the gaps from bucket to bucket and the counts, each in the narrowest unsigned
type that holds all of them; the kind byte tells which types.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_HEADER: Final = struct.Struct("<BdddII")
_FEW: Final = b"\0"
_TYPES: Final[tuple[np.dtype[Any], ...]] = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8"))

Ints = NDArray[np.int64]


def pack_few(doubles: bytes) -> bytes:
    """The samples themselves, as doubles."""
    return _FEW + doubles


def few_of(many: list[bytes]) -> tuple[bytes, list[bytes]]:
    """(the doubles of all that `pack_few` packed, all that `pack` made)."""
    doubles = b"".join([data[1:] for data in many if data[0] == _FEW[0]])
    return doubles, [data for data in many if data[0] != _FEW[0]]


def pack(low: float, high: float, total: float, index: Ints, counts: Ints) -> bytes:
    """Smallest and largest sample, their sum, the numbers of the buckets (rising) and their counts."""
    first = int(index[0])
    gaps, gaps_kind = _narrow(np.diff(index, prepend=first))
    numbers, numbers_kind = _narrow(counts)
    return (
        _HEADER.pack(1 + gaps_kind * len(_TYPES) + numbers_kind, low, high, total, len(index), first) + gaps + numbers
    )


def unpack(many: list[bytes]) -> tuple[float, float, float, Ints, Ints]:
    """What was given to `pack` each time, as one: the buckets of all, one after the other."""
    low, high, total = math.inf, -math.inf, 0.0
    alike: dict[int, list[tuple[bytes, int, int]]] = {}
    for data in many:
        kind, least, most, added, length, first = _HEADER.unpack_from(data)
        low, high, total = min(low, least), max(high, most), total + added
        alike.setdefault(kind, []).append((data, length, first))
    indexes, counts = zip(*(_unpack_alike(kind, group) for kind, group in alike.items()), strict=True)
    return low, high, total, np.concatenate(indexes), np.concatenate(counts)


def _unpack_alike(kind: int, group: list[tuple[bytes, int, int]]) -> tuple[Ints, Ints]:
    """The buckets of several of one kind: their gaps are summed up in one go, and each put where it begins."""
    gaps_type, counts_type = _TYPES[(kind - 1) // len(_TYPES)], _TYPES[(kind - 1) % len(_TYPES)]
    begin, width = _HEADER.size, gaps_type.itemsize
    gaps = np.frombuffer(b"".join([data[begin : begin + length * width] for data, length, _ in group]), gaps_type)
    counts = np.frombuffer(b"".join([data[begin + length * width :] for data, length, _ in group]), counts_type)
    lengths = np.array([length for _, length, _ in group])
    firsts = np.array([first for _, _, first in group])
    index = gaps.cumsum(dtype=np.int64)
    index += (firsts - index[lengths.cumsum() - lengths]).repeat(lengths)
    return index, counts.astype(np.int64)


def _narrow(numbers: Ints) -> tuple[bytes, int]:
    """The numbers in the narrowest unsigned type that holds them, and which type that is."""
    largest = int(numbers.max())
    kind = next(kind for kind, narrow in enumerate(_TYPES) if largest < 256**narrow.itemsize)
    return numbers.astype(_TYPES[kind]).tobytes(), kind
