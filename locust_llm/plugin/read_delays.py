"""ReadDelays: how late this process read what the kernel had stamped, as the collector counts it for every read.

It is the error bar of a run: with kernel stamps it touches no figure, but what is read late may be read together with
the next packet, and stamps of the read itself would be as late.
"""

from __future__ import annotations

import numpy as np

from locust_llm.measure.histogram import Histogram
from locust_llm.wire.collector import LAG_BINS, collector

_UPPER_MS = np.array([(1 << bits) / 1e6 for bits in range(LAG_BINS)])
"""A delay whose nanoseconds have n bits is below 2^n."""


class ReadDelays:
    """Of one process."""

    def __init__(self) -> None:
        self._seen = np.zeros(LAG_BINS, dtype=np.int64)

    def take(self) -> Histogram:
        """The delays of all reads since the last call, in ms, each as the upper end of its bin."""
        now = np.array(collector().lags, dtype=np.int64)
        fresh, self._seen = now - self._seen, now
        found = Histogram()
        counted = np.flatnonzero(fresh)
        found.add_weighted(_UPPER_MS[counted], fresh[counted])
        return found
