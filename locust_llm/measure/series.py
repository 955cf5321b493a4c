"""Series: what happened in each wall-clock second, bounded for runs of days.

A row is one second; rows older than an hour are folded into ten-second rows with exact sums. All counts may be added
to at any time, with either sign. A second in which nothing happened has no row and reads as zeros, not as missing;
gauges (age, users) and percentiles of it are None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.measure.counts import tally
from locust_llm.measure.window import BLANK, Percentiles

THIN_AFTER_S: Final = 3600
THIN_SPAN_S: Final = 10


class Row:
    """One second, or ten. `open` holds output events not weighed yet, by name; only ten-second rows keep a `peak`."""

    __slots__ = (
        "cancelled",
        "errors",
        "failed",
        "input_tokens",
        "oldest_age_s",
        "open",
        "output_tokens",
        "peak",
        "percentiles",
        "started",
        "succeeded",
        "users",
    )

    def __init__(self) -> None:
        self.output_tokens = 0
        self.input_tokens = 0
        self.started = 0
        self.succeeded = 0
        self.failed = 0
        self.cancelled = 0
        self.open: dict[str, int] | None = None
        self.errors: dict[str, int] | None = None
        self.oldest_age_s: float | None = None
        self.users: int | None = None
        self.percentiles: tuple[Percentiles, Percentiles, Percentiles] | None = None
        self.peak: float | None = None

    def add_open(self, name: str, events: int) -> None:
        """Count events of `name` that are not weighed yet; a negative number takes them back."""
        if self.open is None:
            self.open = {}
        left = self.open.get(name, 0) + events
        if left:
            self.open[name] = left
        else:
            self.open.pop(name, None)

    def add_error(self, label: str, count: int = 1) -> None:
        """Count failures of one label."""
        if self.errors is None:
            self.errors = {}
        tally(self.errors, label, count)

    def gauge(self, oldest_age_s: float | None, users: int | None) -> None:
        """Raise the gauges: of several samples or processes the highest counts."""
        if oldest_age_s is not None:
            self.oldest_age_s = oldest_age_s if self.oldest_age_s is None else max(self.oldest_age_s, oldest_age_s)
        if users is not None:
            self.users = users if self.users is None else max(self.users, users)

    def merge(self, other: Row) -> None:
        """Add the numbers of `other`; percentiles do not merge."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, events in (other.open or {}).items():
            self.add_open(name, events)
        for label, count in (other.errors or {}).items():
            self.add_error(label, count)
        self.gauge(other.oldest_age_s, other.users)

    def tokens(self, weight: Callable[[str], float]) -> float:
        """Output tokens that arrived, unweighed events at `weight(name)` tokens each."""
        total = float(self.output_tokens)
        for name, events in (self.open or {}).items():
            total += events * weight(name)
        return total


_SUMS: Final = ("output_tokens", "input_tokens", "started", "succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the series. Counts are sums over `span_s` seconds from `second` (wall clock) on.

    `in_flight` is at the end of the span; `oldest_age_s` and `users` are gauges, None when nobody sampled them.
    The percentiles (p50, p95, p99 in ms) are of the ten seconds that end with the span; None when nothing arrived.
    """

    second: int
    span_s: int
    output_tokens: float
    input_tokens: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    in_flight: int
    oldest_age_s: float | None
    users: int | None
    errors: dict[str, int]
    ttft_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles


class Series:
    """Rows by wall-clock second. `carried`: requests that were in flight before the first row."""

    __slots__ = ("_rows", "_thin_before", "carried")

    def __init__(self) -> None:
        self.carried = 0
        self._rows: dict[int, Row] = {}
        self._thin_before: int | None = None

    def at(self, second: int) -> Row:
        """The row that `second` belongs to, to add to."""
        row = self._rows.get(second)
        if row is None:
            key = self._key(second)
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = Row()
        return row

    def _key(self, second: int) -> int:
        thin = self._thin_before is not None and second < self._thin_before
        return second - second % THIN_SPAN_S if thin else second

    @property
    def first(self) -> int | None:
        """The earliest second that has a row."""
        return min(self._rows, default=None)

    def rows(self) -> Iterator[tuple[int, int, Row]]:
        """(second, span in s, row) of all rows, rising."""
        for key in sorted(self._rows):
            thin = self._thin_before is not None and key < self._thin_before
            yield key, THIN_SPAN_S if thin else 1, self._rows[key]

    def edge(self, second: int) -> int:
        """The first beginning of a row at or after `second`."""
        key = self._key(second)
        return second if key == second else key + THIN_SPAN_S

    def open_events(self) -> dict[str, int]:
        """Output events by name whose tokens nobody has told: of running requests and of those that were cut off."""
        total: dict[str, int] = {}
        for row in self._rows.values():
            for name, events in (row.open or {}).items():
                total[name] = total.get(name, 0) + events
        return total

    def points(self, weight: Callable[[str], float], until: int, since: int | None = None) -> Iterator[Point]:
        """Every second from the first row to `until`, those without a row as zeros; only those after `since`."""
        first = self.first
        if first is None:
            return
        in_flight = self.carried
        key = first
        while key <= until:
            span = THIN_SPAN_S if self._thin_before is not None and key < self._thin_before else 1
            row = self._rows.get(key, _NOTHING)
            in_flight += row.started - row.succeeded - row.failed - row.cancelled
            if since is None or key > since:
                yield _point(key, span, row, in_flight, weight)
            key += span

    def thin(self, now: int, weight: Callable[[str], float]) -> None:
        """Fold the rows older than an hour into ten-second rows."""
        before = (now - THIN_AFTER_S) // THIN_SPAN_S * THIN_SPAN_S
        if self._thin_before is not None and before <= self._thin_before:
            return
        old, self._thin_before = self._thin_before, before
        for second in sorted(s for s in self._rows if s < before and (old is None or s >= old)):
            row = self._rows.pop(second)
            peak = row.tokens(weight)
            folded = self.at(second)
            folded.merge(row)
            folded.percentiles = row.percentiles  # of the last second, whose window is these ten
            folded.peak = peak if folded.peak is None else max(folded.peak, peak)

    def clear(self) -> None:
        """Forget everything."""
        self.carried = 0
        self._rows.clear()
        self._thin_before = None

    def pack(self, names: list[str]) -> list[list[Any]]:
        """The rows as plain lists; names stand as their position in `names`."""
        at = {name: i for i, name in enumerate(names)}
        packed: list[list[Any]] = []
        for second, row in self._rows.items():
            line = [second, *(getattr(row, name) for name in _SUMS), row.oldest_age_s, row.users]
            if row.open or row.errors:
                line += [{at[name]: events for name, events in (row.open or {}).items()}, row.errors or {}]
            packed.append(line)
        return packed

    def merge_packed(self, packed: list[list[Any]], names: list[str]) -> None:
        """Add the rows that `pack` of another series gave."""
        for line in packed:
            row = self.at(line[0])
            for name, value in zip(_SUMS, line[1:7], strict=True):
                setattr(row, name, getattr(row, name) + value)
            row.gauge(line[7], line[8])
            if len(line) > 9:
                for i, events in line[9].items():
                    row.add_open(names[int(i)], events)
                for label, count in line[10].items():
                    row.add_error(label, count)


_NOTHING: Final = Row()


def _point(second: int, span_s: int, row: Row, in_flight: int, weight: Callable[[str], float]) -> Point:
    ttft, itl, e2e = row.percentiles if row.percentiles is not None else (BLANK, BLANK, BLANK)
    return Point(
        second=second,
        span_s=span_s,
        output_tokens=row.tokens(weight),
        input_tokens=row.input_tokens,
        started=row.started,
        succeeded=row.succeeded,
        failed=row.failed,
        cancelled=row.cancelled,
        in_flight=in_flight,
        oldest_age_s=row.oldest_age_s,
        users=row.users,
        errors=dict(row.errors or {}),
        ttft_ms=ttft,
        itl_ms=itl,
        e2e_ms=e2e,
    )
