"""ProbeLog: the few numbers of each request of a probe run that the phases are fitted to (`analysis.phases`).

Only runs of users with `llm_probe` keep one: their requests are few and planned, so that each may be remembered. What
is beyond `LIMIT` is counted and left out, so that memory, reports and documents stay bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from locust_llm.measure import metrics
from locust_llm.measure.record import RequestRecord

LIMIT: Final = 10_000


class ProbePoint(NamedTuple):
    """One request. Instants are seconds of the wall clock; what is not known is None.

    `first_s` and `last_s` are the output events' of an answer that tells when tokens came; None of any other request,
    which is kept since it was in the others' way. `decode_tokens` = N_stream - tokens of the first event, the
    denominator of TPOT.
    """

    sent_s: float
    ended_s: float
    first_s: float | None = None
    last_s: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    decode_tokens: int | None = None

    @property
    def ttft_ms(self) -> float | None:
        """First output event - sent."""
        return None if self.first_s is None else (self.first_s - self.sent_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """(Last output event - first) / decode tokens; None of one token."""
        if self.first_s is None or self.last_s is None or not self.decode_tokens:
            return None
        return (self.last_s - self.first_s) * 1e3 / self.decode_tokens


class ProbeLog:
    """The requests of a probe run. `left_out` counts those beyond the limit."""

    __slots__ = ("_points", "left_out")

    def __init__(self) -> None:
        self._points: list[ProbePoint] = []
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[ProbePoint]:
        return iter(self._points)

    def add(self, record: RequestRecord, offset_ns: int) -> None:
        """One request has ended; `offset_ns` = wall - monotonic. One that was never sent leaves no trace."""
        sent_ns = record.transit.sent_ns
        if sent_ns is None:
            return
        if len(self._points) >= LIMIT:
            self.left_out += 1
            return

        def wall_s(at_ns: int) -> float:
            return (at_ns + offset_ns) / 1e9

        point = ProbePoint(wall_s(sent_ns), wall_s(record.ended_ns))
        if metrics.ttft_ms(record) is not None:
            span = metrics.decode_span(record)
            point = point._replace(
                first_s=wall_s(record.event_ns[0]),
                last_s=wall_s(record.event_ns[-1]),
                input_tokens=record.usage.input_tokens,
                cached_tokens=record.usage.cached_tokens,
                decode_tokens=span[1] if span is not None else None,
            )
        self._points.append(point)

    def clear(self) -> None:
        """Forget everything."""
        self._points = []
        self.left_out = 0

    def pack(self) -> list[Any]:
        """Everything as plain values, for a worker's report and for JSON."""
        return [self.left_out, [list(point) for point in self._points]]

    def merge_packed(self, packed: Sequence[Any]) -> None:
        """Add what `pack` of another log gave."""
        left_out, points = packed
        self.left_out += left_out
        self.extend(ProbePoint(*point) for point in points)

    def extend(self, points: Iterable[ProbePoint]) -> None:
        """Add requests, as many as there is room for."""
        for point in points:
            if len(self._points) < LIMIT:
                self._points.append(point)
            else:
                self.left_out += 1
