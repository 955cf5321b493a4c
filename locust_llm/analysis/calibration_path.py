"""What a client can know of its path to an endpoint, from a few connections and small streamed answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from locust_llm.measure.metrics import coalesced_events
from locust_llm.measure.record import Clock, RequestRecord, Transit

COALESCED_LIMIT: Final = 0.01


@dataclass(frozen=True, slots=True)
class Path:
    """A path as a few requests showed it; times in ms, medians but for `rtt_ms`. None: not seen.

    `rtt_ms` is the fastest TCP handshake: one round trip to whoever accepted the connection (a proxy, if there is one).
    `first_ms` is TTFT on a kept connection. `apart_ms`: the median gap between output events. `events` and `coalesced`
    count output events, and those that were read together with the one before. `buffered` answers came in one burst,
    `whole` in one body. `late_ms`: the longest that this client left a packet unread; None where no kernel stamp tells.
    """

    url: str
    model: str
    proxy: bool
    connections: int
    dns_ms: float | None
    tcp_ms: float | None
    tls_ms: float | None
    rtt_ms: float | None
    requests: int
    failed: int
    reusable: int
    reused: int
    first_ms: float | None
    apart_ms: float | None
    events: int
    coalesced: int
    buffered: int
    whole: int
    kernel_clock: bool
    late_ms: float | None = None
    trouble: str | None = None

    @property
    def coalesced_share(self) -> float | None:
        """Of the events that follow another; None without any."""
        return self.coalesced / self.events if self.events else None

    @property
    def conclusions(self) -> list[str]:
        """What follows for a load test, a sentence each."""
        found = []
        if self.trouble is not None:
            found.append(f"{self.failed} of {self.requests} requests failed: {self.trouble}.")
        if self.reusable and self.reused < self.reusable:
            found.append(
                f"Only {self.reused} of {self.reusable} requests found their connection still open: the rest pay for "
                "connecting, which TTFT leaves out and E2E from the start does not."
            )
        if self.whole:
            found.append(f"{self.whole} answers came in one body, not as a stream: there will be no TTFT and no ITL.")
        if self.buffered:
            found.append(f"{self.buffered} answers came in one burst: something between holds the stream back.")
        share = self.coalesced_share
        if share is not None and share > COALESCED_LIMIT and not self.buffered:
            blame = "the server or the path groups them; compare servers by TPOT, not ITL."
            if self.late_ms is not None and self.apart_ms is not None and self.late_ms > self.apart_ms / 2:
                blame = f"but this busy client read up to {self.late_ms:.0f} ms late, which may be why: try again."
            found.append(
                f"{100 * share:.1f} % of the events came together with the one before (limit "
                f"{100 * COALESCED_LIMIT:.0f} %): {blame}"
            )
        if not self.kernel_clock and self.events:
            found.append(
                "The kernel does not stamp what arrives: times are those of the reads, and late on a busy client."
            )
        if self.rtt_ms is not None:
            found.append(
                f"TTFT and E2E hold one round trip, about {self.rtt_ms:.2f} ms, that the server has no part in"
                f"{' (to the proxy; what lies behind it is unknown)' if self.proxy else ''}."
            )
        return found


def path_of(
    url: str, model: str, *, proxy: bool, connections: Iterable[Transit], records: Sequence[RequestRecord]
) -> Path:
    """What the connections that were opened, and the requests one after the other over one of them, have shown."""
    opened = [transit for transit in connections if transit.tcp_ns is not None]
    good = [record for record in records if record.success]
    streamed = [record for record in good if record.streamed and len(record.event_ns) > 1]
    gaps_ms = [gap for record in streamed for gap in _gaps_ms(record)]
    later = records[1:]
    failed = [record for record in records if not record.success]
    return Path(
        url=url,
        model=model,
        proxy=proxy,
        connections=len(opened),
        dns_ms=_median_ms(transit.dns_ns for transit in opened),
        tcp_ms=_median_ms(transit.tcp_ns for transit in opened),
        tls_ms=_median_ms(transit.tls_ns for transit in opened),
        rtt_ms=min((transit.tcp_ns / 1e6 for transit in opened if transit.tcp_ns is not None), default=None),
        requests=len(records),
        failed=len(failed),
        reusable=len(later),
        reused=sum(record.transit.reused for record in later),
        first_ms=_median(ttft for record in good if record.transit.reused and (ttft := record.ttft_ms) is not None),
        apart_ms=_median(gaps_ms),
        events=len(gaps_ms),
        coalesced=sum(coalesced_events(record) for record in streamed),
        buffered=sum(_one_burst(record) for record in streamed),
        whole=sum(not record.streamed and record.stream_asked for record in good),
        kernel_clock=bool(records) and all(record.transit.clock is Clock.KERNEL for record in good),
        late_ms=max((lag / 1e6 for record in good if (lag := record.transit.max_lag_ns) is not None), default=None),
        trouble=failed[0].error if failed else None,
    )


def _one_burst(record: RequestRecord) -> bool:
    """Whether all events of an answer came with one read."""
    return record.event_ns[0] == record.event_ns[-1]


def _gaps_ms(record: RequestRecord) -> list[float]:
    return [(later - before) / 1e6 for before, later in pairwise(record.event_ns)]


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _median_ms(values_ns: Iterable[int | None]) -> float | None:
    return _median(value / 1e6 for value in values_ns if value is not None)
