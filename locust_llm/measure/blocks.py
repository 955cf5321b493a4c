"""Blocks: what ended in each stretch of a run; for intervals from time batches and for comparisons.

Theory of operation. The requests of one run depend on each other, so what a figure is uncertain by shows only in how
it scatters from one stretch of time to the next. A block keeps counts, and the samples of TTFT, ITL, TPOT and E2E, of
the requests that ended in it: all blocks together are the run's own counts and histograms. A block is a power of two of
seconds long and begins at a multiple of that (wall clock). When a run outgrows LIMIT blocks, neighbours are joined and
all are twice as long. So memory is bounded, a run longer than LIMIT seconds has more than LIMIT / 2 of them, and they
depend on what was added alone, not in which process or order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from locust_llm.measure.catalogue import E2E, ITL, TPOT, TTFT
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import Outcome

LIMIT: Final = 128
KEPT: Final = frozenset((TTFT, ITL, TPOT, E2E))
"""The distributions that blocks have the samples of."""

COUNTS: Final = ("succeeded", "failed", "cancelled", "met", "missed")


class Block:
    """What ended in one stretch. `met` and `missed`: requests that met every SLO, and those that did not."""

    __slots__ = (*COUNTS, "histograms")

    succeeded: int
    failed: int
    cancelled: int
    met: int
    missed: int

    def __init__(self) -> None:
        for name in COUNTS:
            setattr(self, name, 0)
        self.histograms: dict[str, Histogram] = {}

    def count(self, outcome: Outcome, met: bool | None) -> None:
        """One request has ended."""
        if outcome is Outcome.SUCCESS:
            self.succeeded += 1
        elif outcome is Outcome.FAILED:
            self.failed += 1
        else:
            self.cancelled += 1
        self.met += met is True
        self.missed += met is False

    def histogram(self, key: str) -> Histogram:
        """The samples of one distribution, to add to."""
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = Histogram()
        return found

    def merge(self, other: Block) -> None:
        """Add what is in `other`."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for key, histogram in other.histograms.items():
            self.histogram(key).merge(histogram)


class Blocks:
    """The blocks of a run, or of one request name in it."""

    __slots__ = ("_blocks", "span_s")

    def __init__(self) -> None:
        self.span_s = 1
        self._blocks: dict[int, Block] = {}

    def at(self, second: int) -> Block:
        """The block that a wall-clock second belongs to, to add to."""
        block = self._blocks.get(second // self.span_s)
        if block is None:
            self._blocks[second // self.span_s] = Block()
            while max(self._blocks) - min(self._blocks) >= LIMIT:
                self._coarsen(2 * self.span_s)
            block = self._blocks[second // self.span_s]
        return block

    def items(self) -> Iterator[tuple[int, Block]]:
        """(wall-clock second at which it begins, block), rising; stretches in which nothing ended have none."""
        for index in sorted(self._blocks):
            yield index * self.span_s, self._blocks[index]

    def merge(self, other: Blocks) -> None:
        """Add what is in `other`, which stays as it is."""
        self._coarsen(other.span_s)
        for second, block in other.items():
            self.at(second).merge(block)

    def _coarsen(self, span_s: int) -> None:
        """Join blocks until they are at least `span_s` long."""
        if span_s <= self.span_s:
            return
        joined: dict[int, Block] = {}
        for second, block in self.items():
            kept = joined.setdefault(second // span_s, block)
            if kept is not block:
                kept.merge(block)
        self.span_s, self._blocks = span_s, joined

    # -- travelling ----------------------------------------------------------------------------------------------

    def pack(self) -> list[Any]:
        """Everything as plain values for a worker's report."""
        return [
            self.span_s,
            {
                second: [[getattr(block, name) for name in COUNTS], {k: h.pack() for k, h in block.histograms.items()}]
                for second, block in self.items()
            },
        ]

    def merge_packed(self, packed: list[Any]) -> None:
        """Add what `pack` of other blocks gave."""
        span_s, blocks = packed
        self._coarsen(span_s)
        for second, (counts, histograms) in blocks.items():
            block = self.at(int(second))
            for name, count in zip(COUNTS, counts, strict=True):
                setattr(block, name, getattr(block, name) + count)
            for key, data in histograms.items():
                block.histogram(key).merge_packed(data)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists by column, for JSON."""
        rows = list(self.items())
        return {
            "span_s": self.span_s,
            "second": [second for second, _ in rows],
            **{name: [getattr(block, name) for _, block in rows] for name in COUNTS},
            "histograms": [{key: h.to_dict() for key, h in sorted(block.histograms.items())} for _, block in rows],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Blocks:
        """The blocks that `to_dict` described."""
        blocks = cls()
        blocks.span_s = data["span_s"]
        for position, second in enumerate(data["second"]):
            block = blocks.at(second)
            for name in COUNTS:
                setattr(block, name, data[name][position])
            for key, told in data["histograms"][position].items():
                block.histograms[key] = Histogram.from_dict(told)
        return blocks
