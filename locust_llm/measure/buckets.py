"""The buckets of a histogram: which one a number belongs to, and what stands for all numbers of it.

Log-linear, without a logarithm: a double's exponent and the top 9 bits of its mantissa, read as one integer, number 512
equal buckets to each power of two. A bucket is at most 1/512 of its values wide, so its middle is within 1/1024
(0.098 %) of each of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_VALUE: Final = 1e9
"""Largest value a histogram takes; 1e9 ms are eleven days."""

_MANTISSA_BITS: Final = 9
SHIFT: Final = 52 - _MANTISSA_BITS
"""A double's bits, shifted right by this, are the number of its bucket."""

_TINY: Final = int(np.float64(1e-9).view(np.int64))
"""Zero, and all that is not larger than this double, share the bucket of zero (the bits of -0.0 are negative)."""
ZERO: Final = _TINY >> SHIFT
"""The number of the bucket of zero."""

_LARGEST: Final = int(np.float64(MAX_VALUE).view(np.int64))
_BITS: Final = Struct("=qq")
_DOUBLES: Final = Struct("=dd")


def check(values: NDArray[np.float64]) -> float:
    """The largest of the values, 0 of none.

    Raises ValueError when one of the values cannot be a sample: negative, NaN or above 1e9.

    The bits of a double, read as an unsigned number, are larger than those of 1e9 in each of these cases.
    """
    if not len(values):
        return 0.0
    bits = np.maximum.reduce(values.view(np.uint64))
    if bits > _LARGEST:
        raise ValueError(f"not samples: {values.min()} … {values.max()}")
    return float(bits.view(np.float64))


def number(value: float) -> int:
    """The number of the bucket that a value belongs to."""
    return max(int(np.float64(value).view(np.int64)), _TINY) >> SHIFT


def middle(number: int) -> float:
    """The number that stands for all of a bucket; its smallest and largest are within 0.098 % of it."""
    if number == ZERO:
        return 0.0
    low, high = _DOUBLES.unpack(_BITS.pack(number << SHIFT, (number + 1) << SHIFT))
    return float((low + high) / 2)
