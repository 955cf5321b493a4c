"""Packed: a histogram as few bytes, for workers' reports.

A few samples travel as they are (a zero byte, then doubles). Else: a kind byte, smallest, largest, sum, number of
buckets, number of the first bucket; then the gaps from bucket to bucket and the counts, each in the narrowest unsigned
type that holds all of them; the kind byte tells which types.
"""

from __future__ import annotations

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


def few(packed: bytes) -> bytes | None:
    """The doubles that `pack_few` packed; None when `pack` made it."""
    return packed[1:] if packed[:1] == _FEW else None


def pack(low: float, high: float, total: float, index: Ints, counts: Ints) -> bytes:
    """Smallest and largest sample, their sum, the numbers of the buckets (rising) and their counts."""
    first = int(index[0])
    gaps, gaps_kind = _narrow(np.diff(index, prepend=first))
    numbers, numbers_kind = _narrow(counts)
    return (
        _HEADER.pack(1 + gaps_kind * len(_TYPES) + numbers_kind, low, high, total, len(index), first) + gaps + numbers
    )


def unpack(packed: bytes) -> tuple[float, float, float, Ints, Ints]:
    """What was given to `pack`."""
    kind, low, high, total, length, first = _HEADER.unpack_from(packed)
    gaps_type, counts_type = _TYPES[(kind - 1) // len(_TYPES)], _TYPES[(kind - 1) % len(_TYPES)]
    gaps = np.frombuffer(packed, gaps_type, length, _HEADER.size)
    counts = np.frombuffer(packed, counts_type, length, _HEADER.size + gaps.nbytes)
    return low, high, total, gaps.cumsum(dtype=np.int64) + first, counts.astype(np.int64)


def _narrow(numbers: Ints) -> tuple[bytes, int]:
    """The numbers in the narrowest unsigned type that holds them, and which type that is."""
    largest = int(numbers.max())
    kind = next(kind for kind, narrow in enumerate(_TYPES) if largest < 256**narrow.itemsize)
    return numbers.astype(_TYPES[kind]).tobytes(), kind
