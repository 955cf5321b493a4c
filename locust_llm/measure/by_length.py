"""ByLength: TTFT and TPOT by input length, by output length and by the share of the prompt that was cached.

Bounded and mergeable: buckets of lengths are powers of two up to `LONGEST`, buckets of cached shares quarters, and each
holds histograms of the answers of all request names. A bucket is named by its upper end; what is longer than the
longest is in the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.measure.catalogue import TPOT, TTFT
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.record import RequestRecord

SHORTEST: Final = 64
LONGEST: Final = 131_072

INPUT: Final = "input"
OUTPUT: Final = "output"
CACHED: Final = "cached"
AXES: Final = (INPUT, OUTPUT, CACHED)

SHOWN: Final = (TTFT, TPOT)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket: `low` < value <= `high`, in tokens or (cached) in percent; the last of lengths has no `high`.

    The lowest of the cached shares holds 0 alone.
    """

    axis: str
    low: int
    high: int | None

    @property
    def title(self) -> str:
        """As tables show it."""
        if self.axis == CACHED:
            return "nothing" if self.high == 0 else f"{self.low}–{self.high} %"
        return f"over {self.low:,}" if self.high is None else f"{self.low + 1:,}–{self.high:,}"


def _end(tokens: int) -> int:
    """The upper end of a length's bucket; 2 · LONGEST for what is longer than all."""
    if tokens > LONGEST:
        return 2 * LONGEST
    return max(SHORTEST, 1 << max(tokens - 1, 0).bit_length())


def _cached_end(cached: int, whole: int) -> int:
    """0, 25, 50, 75 or 100 percent."""
    return 0 if cached <= 0 else min(4, -(-4 * cached // whole)) * 25


def _bucket(axis: str, end: int) -> Bucket:
    if axis == CACHED:
        return Bucket(axis, max(end - 25, 0), end)
    if end > LONGEST:
        return Bucket(axis, LONGEST, None)
    return Bucket(axis, 0 if end == SHORTEST else end // 2, end)


class ByLength:
    """Histograms of TTFT and TPOT by (axis, bucket)."""

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: dict[tuple[str, int], dict[str, Histogram]] = {}

    def cells(self, record: RequestRecord) -> list[dict[str, Histogram]]:
        """The buckets that an answer belongs to, to add its samples to; what told no length is in no bucket of it."""
        usage, found = record.usage, []
        if usage.input_tokens is not None:
            found.append(self._cell(INPUT, _end(usage.input_tokens)))
            if usage.cached_tokens is not None and usage.input_tokens > 0:
                found.append(self._cell(CACHED, _cached_end(usage.cached_tokens, usage.input_tokens)))
        if record.output_tokens is not None:
            found.append(self._cell(OUTPUT, _end(record.output_tokens)))
        return found

    def _cell(self, axis: str, end: int) -> dict[str, Histogram]:
        cell = self._cells.get((axis, end))
        if cell is None:
            cell = self._cells[axis, end] = {key: Histogram() for key in SHOWN}
        return cell

    def rows(self, axis: str) -> Iterator[tuple[Bucket, dict[str, Histogram]]]:
        """The buckets of one axis that have an answer, rising, with their histograms by metric."""
        for name, end in sorted(self._cells):
            if name == axis:
                yield _bucket(axis, end), self._cells[name, end]

    def clear(self) -> None:
        """Forget everything."""
        self._cells = {}

    def pack(self) -> list[list[Any]]:
        """Everything as plain values for a worker's report."""
        return [
            [axis, end, {key: histogram.pack() for key, histogram in cell.items() if histogram.count}]
            for (axis, end), cell in self._cells.items()
        ]

    def merge_packed(self, packed: list[list[Any]]) -> None:
        """Add what `pack` of another gave."""
        for axis, end, histograms in packed:
            cell = self._cell(axis, end)
            for key, data in histograms.items():
                cell[key].merge_packed(data)

    def to_dict(self) -> list[dict[str, Any]]:
        """The buckets with their histograms, for JSON; `end` names them."""
        return [
            {"axis": axis, "end": end, **{key: histogram.to_dict() for key, histogram in sorted(cell.items())}}
            for (axis, end), cell in sorted(self._cells.items())
        ]

    def merge_dict(self, told: list[dict[str, Any]]) -> None:
        """Add what `to_dict` of another gave."""
        for each in told:
            cell = self._cell(each["axis"], each["end"])
            for key in SHOWN:
                cell[key].merge(Histogram.from_dict(each[key]))
