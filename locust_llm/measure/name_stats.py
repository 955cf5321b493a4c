"""NameStats: the figures of one request name, but for what happens second by second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from locust_llm.measure.blocks import KEPT, Block
from locust_llm.measure.buckets import check
from locust_llm.measure.by_length import ByLength
from locust_llm.measure.catalogue import DISTRIBUTIONS, ITL, MAX_GAP, TPOT, TTFT
from locust_llm.measure.counts import Counts
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import Clock, RequestRecord
from locust_llm.measure.smoothness import STALL_MS, reader_waits

LAG_LIMIT_NS: Final = 5_000_000
"""A request counts as lagged when its stamps were read, not the kernel's, and this process was later than this."""

REPORTS: Final = 64
"""Reports that may wait to be taken in."""

_METRICS: Final[tuple[tuple[str, Callable[[RequestRecord], Any], bool, bool, bool], ...]] = tuple(
    (metric.key, metric.of, metric.pooled, metric.timing, metric.key in KEPT)
    for metric in DISTRIBUTIONS
    if metric.key != MAX_GAP  # comes with the gaps
)


class NameStats:
    """Counts and histograms of one request name.

    `lagged` holds the timings that the client's own delay may have touched, `histograms` all others. What other
    processes packed is taken in some reports at a time, or when somebody reads: a master gets it for every name of
    every worker.
    """

    __slots__ = ("_histograms", "_lagged", "_reports", "counts")

    def __init__(self) -> None:
        self.counts = Counts()
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._lagged: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._reports: list[Sequence[dict[str, bytes]]] = []

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """Metric → samples that the client's own delay has not touched."""
        self._take_in()
        return self._histograms

    @property
    def lagged(self) -> Mapping[str, Histogram]:
        """Metric → the timings that it may have touched."""
        self._take_in()
        return self._lagged

    def sample(
        self,
        record: RequestRecord,
        blocks: Sequence[Block],
        min_tokens: int,
        stall_ms: float = STALL_MS,
        lengths: ByLength | None = None,
    ) -> bytes | None:
        """Put the record's samples into the distributions, and into the blocks it ended in and `lengths`.

        Returns its gaps when it has some and all are valid: the bytes of a float64 array, which all that keep them
        can share.
        """
        gaps = ttft_ms = tpot_ms = None
        counts = self.counts
        plain = self._histograms
        timings = plain
        if _lagged(record):
            counts.lagged += 1
            timings = self._lagged
        for key, of, pooled, timing, kept in _METRICS:
            value = of(record)
            if value is None:
                continue
            if key == TPOT:
                counts.tpot_judged += 1
                if (record.output_tokens or 0) < min_tokens:
                    counts.tpot_left_out += 1
                    continue
            histogram = (timings if timing else plain)[key]
            try:
                if not pooled:
                    histogram.add(value)
                    if kept:
                        for block in blocks:
                            block.histogram(key).add(value)
                        if key == TTFT:
                            ttft_ms = value
                        elif key == TPOT:
                            tpot_ms = value
                elif isinstance(value, tuple):
                    histogram.add_weighted(*value)
                elif len(value):
                    largest = check(value)
                    doubles = value.tobytes()
                    histogram.add_checked(doubles)
                    if key == ITL:
                        gaps = doubles
                        self._smoothness(record, value, largest, timings, stall_ms)
                        for block in blocks:
                            block.histogram(key).add_checked(doubles)
            except ValueError:
                counts.clock_faults += 1
        if lengths is not None:
            lengths.add(record, ttft_ms, tpot_ms)
        return gaps

    def _smoothness(
        self, record: RequestRecord, gaps: Any, largest_ms: float, timings: dict[str, Histogram], stall_ms: float
    ) -> None:
        """The largest gap, the stalls, and whether a reader waits, of an answer with these gaps."""
        timings[MAX_GAP].add(largest_ms)
        counts = self.counts
        counts.gap_tokens += record.streamed_tokens if record.streamed_tokens is not None else len(record.event_ns)
        if largest_ms > stall_ms:
            counts.stalls += int((gaps > stall_ms).sum())
        waits = reader_waits(record, largest_ms)
        if waits is not None:
            counts.readers += 1
            counts.readers_waited += waits

    def pack(self) -> list[dict[str, bytes]]:
        """[histograms, lagged histograms]."""
        return [_packed(self.histograms), _packed(self.lagged)]

    def merge_packed(self, parts: Sequence[dict[str, bytes]]) -> None:
        """Add what `pack` gave."""
        self._reports.append(parts)
        if len(self._reports) >= REPORTS:
            self._take_in()

    def _take_in(self) -> None:
        if not self._reports:
            return
        reports, self._reports = self._reports, []
        for place, mine in enumerate((self._histograms, self._lagged)):
            packs: defaultdict[str, list[bytes]] = defaultdict(list)
            for parts in reports:
                for key, data in parts[place].items():
                    packs[key].append(data)
            for key, many in packs.items():
                mine[key].merge_packs(many)


def _packed(histograms: Mapping[str, Histogram]) -> dict[str, bytes]:
    return {key: histogram.pack() for key, histogram in histograms.items()}


def _lagged(record: RequestRecord) -> bool:
    """Whether the client's own delay may have touched the stamps; the kernel's stamps it cannot touch."""
    transit = record.transit
    return transit.clock is Clock.READ and transit.max_lag_ns is not None and transit.max_lag_ns > LAG_LIMIT_NS
