"""ByLength: TTFT and TPOT by input length, by output length and by the share of the prompt that was cached.

Bounded and mergeable: buckets of lengths are powers of two up to `LONGEST`, buckets of cached shares quarters, and each
holds histograms of the answers of all request names. A bucket is named by its upper end; what is longer than the
longest is in the last one.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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

_NONE: Final = math.nan
_WIDTH: Final = 5
_MOST: Final = 1024 * _WIDTH

Floats = NDArray[np.float64]


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


def _ends(tokens: Floats) -> Floats:
    """The upper ends of lengths' buckets; 2 · LONGEST for what is longer than all, NaN for none."""
    _, bits = np.frexp(np.maximum(tokens - 1, 0))  # of a whole number: how many bits it has
    ends = np.where(tokens > LONGEST, 2.0 * LONGEST, np.maximum(SHORTEST, 2.0**bits))
    return np.where(np.isnan(tokens), _NONE, ends)


def _cached_ends(cached: Floats, whole: Floats) -> Floats:
    """0, 25, 50, 75 or 100 percent."""
    return np.minimum(4, np.ceil(4 * np.maximum(cached, 0) / whole)) * 25


def _bucket(axis: str, end: int) -> Bucket:
    if axis == CACHED:
        return Bucket(axis, max(end - 25, 0), end)
    if end > LONGEST:
        return Bucket(axis, LONGEST, None)
    return Bucket(axis, 0 if end == SHORTEST else end // 2, end)


class ByLength:
    """Histograms of TTFT and TPOT by (axis, bucket). Answers wait as plain numbers, and are put in by the thousand."""

    __slots__ = ("_cells", "_waiting")

    def __init__(self) -> None:
        self._cells: dict[tuple[str, int], dict[str, Histogram]] = {}
        self._waiting: array[float] = array("d")

    def add(self, record: RequestRecord, ttft_ms: float | None, tpot_ms: float | None) -> None:
        """An answer with its valid samples; what told no length is in no bucket of it."""
        usage, waiting = record.usage, self._waiting
        waiting.append(_NONE if usage.input_tokens is None else usage.input_tokens)
        waiting.append(_NONE if record.output_tokens is None else record.output_tokens)
        waiting.append(_NONE if usage.cached_tokens is None else usage.cached_tokens)
        waiting.append(_NONE if ttft_ms is None else ttft_ms)
        waiting.append(_NONE if tpot_ms is None else tpot_ms)
        if len(waiting) >= _MOST:
            self._take_in()

    def _take_in(self) -> None:
        """Put what waits into its buckets."""
        if not self._waiting:
            return
        told = np.frombuffer(self._waiting.tobytes()).reshape(-1, _WIDTH)
        self._waiting = array("d")
        whole, output, cached = told[:, 0], told[:, 1], told[:, 2]
        samples = dict(zip(SHOWN, (told[:, 3], told[:, 4]), strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(whole > 0, _cached_ends(cached, whole), _NONE)
        for axis, ends in ((INPUT, _ends(whole)), (OUTPUT, _ends(output)), (CACHED, shares)):
            for end in np.unique(ends[~np.isnan(ends)]):
                cell, here = self._cell(axis, int(end)), ends == end
                for key, values in samples.items():
                    chosen = values[here]
                    cell[key].add_many(chosen[~np.isnan(chosen)])

    def _cell(self, axis: str, end: int) -> dict[str, Histogram]:
        cell = self._cells.get((axis, end))
        if cell is None:
            cell = self._cells[axis, end] = {key: Histogram() for key in SHOWN}
        return cell

    def rows(self, axis: str) -> Iterator[tuple[Bucket, dict[str, Histogram]]]:
        """The buckets of one axis that have an answer, rising, with their histograms by metric."""
        self._take_in()
        for name, end in sorted(self._cells):
            if name == axis:
                yield _bucket(axis, end), self._cells[name, end]

    def clear(self) -> None:
        """Forget everything."""
        self._cells = {}
        self._waiting = array("d")

    def pack(self) -> list[list[Any]]:
        """Everything as plain values for a worker's report."""
        self._take_in()
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
        self._take_in()
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
