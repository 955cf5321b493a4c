"""TtftSplit: the client's mean TTFT taken apart by the server's own histograms of TTFT, queue and prefill time.

Theory of operation. A Prometheus histogram tells a sum and a count since the server's start. What both grew by between
the run's first and last look is the requests of that time, and their quotient a mean; of single requests, and so of
percentiles, it tells nothing. Means of the same requests may be subtracted: client - server is what the server did not
see (network, its HTTP front, whatever it does before its clock starts). That they are the same requests shows only in
their number, so without about equal numbers there is no split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from locust_llm.measure.catalogue import TTFT
from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.measure.stats import RunStats

AGREE: Final = 0.1
"""The server's count may differ from ours by this share."""

HISTOGRAMS: Final = ("ttft", "queue", "prefill")


@dataclass(frozen=True, slots=True)
class TtftSplit:
    """Means in ms over `n` requests of ours; `server_n` is how many the server counted meanwhile.

    `client_ms` = `network_ms` + `server_ms`; `server_ms` = `queue_ms` + `prefill_ms` + `rest_ms`, where a part that the
    server does not tell is None and stays in the rest. Differences are taken as they come: a rest slightly below 0 is
    the error of counts that agree only roughly.
    """

    n: int
    server_n: int
    client_ms: float
    server_ms: float
    queue_ms: float | None
    prefill_ms: float | None

    @property
    def network_ms(self) -> float:
        """What the server's TTFT does not hold: the network, and its entry up to where its own clock starts."""
        return self.client_ms - self.server_ms

    @property
    def rest_ms(self) -> float:
        """What the server's TTFT holds beside queue and prefill."""
        return self.server_ms - sum(part for part in (self.queue_ms, self.prefill_ms) if part is not None)


@dataclass(frozen=True, slots=True)
class NoSplit:
    """Why TTFT cannot be taken apart, as one sentence."""

    why: str


def ttft_split(stats: RunStats, series: ServerSeries) -> TtftSplit | NoSplit:
    """The split of the whole run, or why there is none."""
    ours, samples = stats.histogram(TTFT), series.samples
    if ours.mean is None:
        return NoSplit("No answer of this run has a TTFT.")
    if len(samples) < 2:
        return NoSplit("The server's metrics were not read twice.")
    if samples[-1].ttft_n is None:
        return NoSplit(f"The metrics of {samples[-1].engine} have no histogram of the time to first token.")
    if any(_fell(samples, name) for name in HISTOGRAMS):
        return NoSplit("A counter of the server fell during the run: it was started anew.")
    told = {name: _growth(samples, name) for name in HISTOGRAMS}
    server_n, server_ms = told["ttft"]
    if server_ms is None or not _agree(server_n, ours.count):
        return NoSplit(
            f"The server counted {server_n:,} first tokens and this run {ours.count:,} successes with a TTFT: other"
            " clients' requests, or warm-up, failed and cancelled ones of this run, are among them, or not all of the"
            " run went there."
        )
    if server_ms > ours.mean:
        return NoSplit(
            f"The server's own mean TTFT, {server_ms:.4g} ms, is above the client's, {ours.mean:.4g} ms: they were not"
            " taken of the same requests."
        )
    # These two are counted when an answer ends, which cancelled ones never do.
    queue_ms, prefill_ms = (ms if _agree(n, ours.count) else None for n, ms in (told["queue"], told["prefill"]))
    return TtftSplit(ours.count, server_n, ours.mean, server_ms, queue_ms, prefill_ms)


def _agree(server_n: int, n: int) -> bool:
    return abs(server_n - n) <= AGREE * n


def _counts(samples: Sequence[ServerSample], name: str) -> list[float]:
    """Counts by look; some servers tell a histogram only from its first request on: before that it is at 0."""
    counts, last = [], 0.0
    for sample in samples:
        n = getattr(sample, f"{name}_n")
        last = n if n is not None else last
        counts.append(last)
    return counts


def _fell(samples: Sequence[ServerSample], name: str) -> bool:
    return any(after < before for before, after in pairwise(_counts(samples, name)))


def _growth(samples: Sequence[ServerSample], name: str) -> tuple[int, float | None]:
    """Requests that the histogram grew by, and their mean in ms; None without any."""
    counts = _counts(samples, name)
    grown = round(counts[-1] - counts[0])
    before, after = (getattr(sample, f"{name}_s") for sample in (samples[0], samples[-1]))
    if not grown or after is None:
        return grown, None
    return grown, 1000 * (after - (before if before is not None else 0.0)) / grown
