"""Window: mergeable TTFT, ITL and E2E histograms of the last seconds, for live percentiles.

Each second has its own three; the figure of a second is the percentile over it and the nine before. Samples belong to
the second they arrived in: TTFT with the first output event, ITL with the event that ends the gap, E2E with the end of
the request. What arrived from requests that still run, or that were cut off later, is in here too: live figures are
provisional. Second by second they are what the run's own, final histograms are for the whole.
"""

from __future__ import annotations

from typing import Any, Final

from locust_llm.measure.histogram import Histogram

WINDOW_S: Final = 10
QUANTILES: Final = (0.5, 0.95, 0.99)
TTFT, ITL, E2E = 0, 1, 2

Percentiles = tuple[float | None, float | None, float | None]
BLANK: Final[Percentiles] = (None, None, None)


class Window:
    """Histograms of single seconds; `forget` bounds them."""

    __slots__ = ("_floor", "_seconds")

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[Histogram, Histogram, Histogram]] = {}
        self._floor: int | None = None

    def at(self, second: int) -> tuple[Histogram, Histogram, Histogram] | None:
        """The (TTFT, ITL, E2E) histograms of one second, to add to; None when that second is past and gone."""
        found = self._seconds.get(second)
        if found is None:
            if self._floor is not None and second < self._floor:
                return None
            found = self._seconds[second] = (Histogram(), Histogram(), Histogram())
        return found

    def percentiles(self, second: int) -> tuple[Percentiles, Percentiles, Percentiles]:
        """p50, p95, p99 of (TTFT, ITL, E2E) in ms over the ten seconds that end with `second`; None when empty."""
        recent = [found for s in range(second - WINDOW_S + 1, second + 1) if (found := self._seconds.get(s))]
        ttft, itl, e2e = (_percentiles([row[kind] for row in recent]) for kind in (TTFT, ITL, E2E))
        return ttft, itl, e2e

    def forget(self, before: int) -> None:
        """Drop all seconds before `before`, for good."""
        self._floor = before if self._floor is None else max(self._floor, before)
        for second in [s for s in self._seconds if s < before]:
            del self._seconds[second]

    def clear(self) -> None:
        """Drop all seconds; later samples of the same seconds are welcome."""
        self._seconds.clear()

    def pack(self) -> dict[int, list[bytes | None]]:
        """Second → packed histograms."""
        return {
            second: [histogram.pack() if histogram.count else None for histogram in row]
            for second, row in self._seconds.items()
        }

    def merge_packed(self, packed: dict[Any, list[bytes | None]]) -> None:
        """Add what `pack` of another window gave."""
        for second, row in packed.items():
            mine = self.at(int(second))
            if mine is not None:
                for histogram, data in zip(mine, row, strict=True):
                    if data is not None:
                        histogram.merge_packed(data)


def _percentiles(histograms: list[Histogram]) -> Percentiles:
    merged = Histogram.merged(histograms)
    p50, p95, p99 = (merged.percentile(q) for q in QUANTILES)
    return p50, p95, p99
