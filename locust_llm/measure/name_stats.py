"""NameStats: the figures of one request name, but for what happens second by second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from locust_llm.measure.blocks import KEPT, Block, Blocks
from locust_llm.measure.catalogue import DISTRIBUTIONS, ITL, TPOT
from locust_llm.measure.counts import Counts
from locust_llm.measure.histogram import Histogram, check
from locust_llm.measure.record import Clock, RequestRecord

LAG_LIMIT_NS: Final = 5_000_000
"""A request counts as lagged when its stamps were read, not the kernel's, and this process was later than this."""

_METRICS: Final[tuple[tuple[str, Callable[[RequestRecord], Any], bool, bool, bool], ...]] = tuple(
    (metric.key, metric.of, metric.pooled, metric.timing, metric.key in KEPT) for metric in DISTRIBUTIONS
)


class NameStats:
    """Counts, histograms and blocks of one request name.

    `lagged` holds the timings that the client's own delay may have touched, `histograms` all others.
    """

    __slots__ = ("blocks", "counts", "histograms", "lagged")

    def __init__(self) -> None:
        self.counts = Counts()
        self.histograms: dict[str, Histogram] = {}
        self.lagged: dict[str, Histogram] = {}
        self.blocks = Blocks()

    def sample(self, record: RequestRecord, block: Block, min_tokens: int) -> bytes | None:
        """Put the record's samples into the distributions, and into the block it ended in.

        Returns its gaps when it has some and all are valid: the bytes of a float64 array, which all that keep them
        can share.
        """
        gaps = None
        counts = self.counts
        plain = self.histograms
        timings = plain
        if _lagged(record):
            counts.lagged += 1
            timings = self.lagged
        for key, of, pooled, timing, kept in _METRICS:
            value = of(record)
            if value is None:
                continue
            if key == TPOT:
                counts.tpot_judged += 1
                if (record.output_tokens or 0) < min_tokens:
                    counts.tpot_left_out += 1
                    continue
            histograms = timings if timing else plain
            histogram = histograms.get(key)
            if histogram is None:
                histogram = histograms[key] = Histogram()
            try:
                if not pooled:
                    histogram.add(value)
                    if kept:
                        block.histogram(key).add(value)
                elif isinstance(value, tuple):
                    histogram.add_weighted(*value)
                elif len(value):
                    check(value)
                    doubles = value.tobytes()
                    histogram.add_checked(doubles)
                    if key == ITL:
                        gaps = doubles
                        block.histogram(key).add_checked(doubles)
            except ValueError:
                counts.clock_faults += 1
        return gaps

    def pack(self) -> list[Any]:
        """[histograms, lagged histograms, blocks]; samples that the blocks hold as well do not travel twice.

        Lagged ones are the exception: blocks do not keep them apart.
        """
        alone = {key: kept for key, kept in self.histograms.items() if key not in KEPT or key in self.lagged}
        return [_packed(alone), _packed(self.lagged), self.blocks.pack()]

    def merge_packed(self, parts: list[Any]) -> None:
        """Add what `pack` gave, as far as it is given; whatever stands in the blocks alone counts here too."""
        for mine, packed in zip((self.histograms, self.lagged), parts, strict=False):
            for key, data in packed.items():
                _histogram(mine, key).merge_packed(data)
        for packed in parts[2:]:
            self.blocks.merge_packed(packed)
            known = parts[0].keys() | parts[1].keys()
            for _, histograms in packed[1].values():
                for key, data in histograms.items():
                    if key not in known:
                        _histogram(self.histograms, key).merge_packed(data)


def _histogram(histograms: dict[str, Histogram], key: str) -> Histogram:
    found = histograms.get(key)
    if found is None:
        found = histograms[key] = Histogram()
    return found


def _packed(histograms: dict[str, Histogram]) -> dict[str, bytes]:
    return {key: histogram.pack() for key, histogram in histograms.items()}


def _lagged(record: RequestRecord) -> bool:
    """Whether the client's own delay may have touched the stamps; the kernel's stamps it cannot touch."""
    transit = record.transit
    return transit.clock is Clock.READ and transit.max_lag_ns is not None and transit.max_lag_ns > LAG_LIMIT_NS
