"""Verify: every figure of a run document computed again from the records of its requests.

Theory of operation. The document was made live: counted while streams ran, in histograms, by processes that reported to
a master. The records are what each process wrote of its own requests when they had ended. Percentiles are computed here
another way: from the sorted samples themselves, not from histograms. Counts and rates come from the records fed, one
after the other, into fresh RunStats with the document's own window (its stop request, its steady window).

What cannot be equal to the last digit: a histogram's percentiles are right to 0.1 %; records keep whole microseconds;
and rates depend on where a window's edges lie, which the processes of a distributed run each place on their own
(`RATE` of one process, `RATES` of several).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from locust_llm import __version__
from locust_llm.measure.catalogue import DISTRIBUTIONS, TPOT, Distribution
from locust_llm.measure.counts import OTHER, Counts
from locust_llm.measure.figures import FIGURES, Kind
from locust_llm.measure.record import DEFINITIONS_VERSION, RequestRecord
from locust_llm.measure.slo import parse_slo
from locust_llm.measure.smoothness import STALL_MS
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import QUANTILES, infinite_samples

HISTOGRAM: Final = 0.001
"""Relative error of a percentile, and of what is a mean of rounded instants."""
RATE: Final = 0.002
RATES: Final = 0.02
MICROSECOND_MS: Final = 0.001
"""Two instants are each right to half of it."""

_EDGES: Final = ("drained_tokens", "drained_events", "drained_input_tokens", "drained_succeeded", "drained_met")
"""Counts that only say where the window ends; what they make is in the rates."""
_ROUNDED: Final = ("decode_ns", "coalesced_events", "lagged", "buffered", "clock_faults")
"""Counts of instants at the nanosecond, which records do not keep."""
_OF_TEXTS: Final = "audit"
"""What counts of the billing audit begin with: they rest on the answers' texts, which records do not keep."""
_ROUNDED_SHARE: Final = 0.01
"""By how much rounding may change the shares that are made of them."""

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: of one request name or (None) of all, as the document tells it and as the records do."""

    name: str | None
    metric: str
    told: Value
    found: Value
    ok: bool

    @property
    def difference(self) -> float | None:
        """found - told; None where one of them is no number."""
        if isinstance(self.told, int | float) and isinstance(self.found, int | float):
            return self.found - self.told
        return None


class Unverifiable(ValueError):
    """A run whose document cannot be compared with records; one sentence on why."""


def verify(content: Mapping[str, Any], records: Sequence[RequestRecord], *, processes: int = 1) -> list[Compared]:
    """Every figure of a document beside what `records`, of so many processes, say. Raises Unverifiable.

    Counts that a document of another version of locust_llm does not have are left out.
    """
    if content["definitions"]["version"] != DEFINITIONS_VERSION:
        raise Unverifiable(
            f"the document's figures have definitions of version {content['definitions']['version']}, this locust_llm"
            f" has version {DEFINITIONS_VERSION}: use the one that made it"
        )
    if content["marks"]["reset_s"] is not None:
        records = _since_reset(content, records, processes)
    stats = _stats(content, records)
    same = content["versions"].get("locust_llm") == __version__
    rate = RATE if processes <= 1 else RATES
    found: list[Compared] = []
    told_names = {each["name"] for each in content["names"]}
    for each in content["names"]:
        name = each["name"]
        mine = [record for record in records if name is None or record.name == name]
        found += (one for one in _counts(name, each["counts"], stats.counts(name)) if same or one.told)
        found += _figures(name, each["figures"], stats, rate)
        for metric in DISTRIBUTIONS:
            if metric.key in each["summary"]:  # documents of older versions have fewer
                found += _summary(metric, name, each["summary"][metric.key], mine, stats)
    for name in stats.names:
        if name not in told_names:
            found.append(Compared(name, "name", None, "in the records only", False))
    return found


def _since_reset(
    content: Mapping[str, Any], records: Sequence[RequestRecord], processes: int
) -> Sequence[RequestRecord]:
    """The requests that ended after the figures were reset: the last ones, as many as the document counts.

    Their number is the document's word; that the reset lies in the right second is the records'.
    """
    if processes > 1:
        raise Unverifiable(
            "the figures were reset while the run went on (--reset-stats, or the button), at an instant of its own in"
            " each process, so the records cannot tell which requests the document is about"
        )
    (counts,) = (each["counts"] for each in content["names"] if each["name"] is None)
    n = sum(counts.get(key, 0) for key in ("succeeded", "failed", "cancelled"))
    ended = sorted((record for record in records if not record.warmup), key=lambda each: each.ended_ns)
    left_out, counted = ended[: len(ended) - n], ended[len(ended) - n :]
    reset_ns = content["marks"]["reset_s"] * 10**9
    if n > len(ended) or any(each.ended_ns >= reset_ns for each in left_out[-1:]):
        return ended  # requests that it should count are missing in it, or here: the table will show which figures
    return counted if not counted or counted[0].ended_ns >= reset_ns - 10**9 else ended


def _stats(content: Mapping[str, Any], records: Sequence[RequestRecord]) -> RunStats:
    """Fresh statistics of the records, with the document's marks. Instants of records are wall-clock ns."""
    marks = content["marks"]
    slos = [parse_slo(text) for text in content.get("slos", ())]
    stall_ms = marks.get("stall_ms", STALL_MS)
    stats = RunStats(0, min_tokens=marks["min_tokens"], lag_s=0, slos=slos, stall_ms=stall_ms)
    if marks["reset_s"] is not None:
        stats.reset((marks["reset_s"] - 1) * 10**9)
    if marks["stopped_s"] is not None:
        stats.mark_stop(round(marks["stopped_s"] * 1e9))
    if marks["all_running_s"] is not None:
        stats.mark_all_users_running(round(marks["all_running_s"] * 1e9))
    for record in records:
        stats.started(record.name, record.started_ns, warmup=record.warmup)
    for record in sorted(records, key=lambda each: each.ended_ns):
        stats.add(record)
    if marks["complete_s"] is not None:
        stats.tick(marks["complete_s"] * 10**9, ())  # thins a long run's series as the document's was
    return stats


# -- counts and rates ----------------------------------------------------------------------------------------------


def _counts(name: str | None, told: Mapping[str, Any], counts: Counts) -> Iterable[Compared]:
    """Whole numbers are equal; packed counts leave out zeros."""
    for field in fields(Counts):
        key = field.name
        if key in _EDGES or key in _ROUNDED or key.startswith(_OF_TEXTS):
            continue
        mine = getattr(counts, key)
        theirs = told.get(key, {} if isinstance(mine, dict) else 0)
        if not isinstance(mine, dict):
            if mine or theirs:
                yield Compared(name, f"counts.{key}", theirs, mine, mine == theirs)
        elif OTHER not in mine and OTHER not in theirs:
            for label in sorted({*mine, *theirs}):
                one, other = theirs.get(label, 0), mine.get(label, 0)
                yield Compared(name, f"counts.{key}.{label}", one, other, one == other)


def _figures(name: str | None, told: Mapping[str, Any], stats: RunStats, rate: float) -> Iterable[Compared]:
    for figure in FIGURES:
        if figure.key not in told:
            continue
        theirs, mine = told[figure.key], figure.of(stats, name)
        relative = 0.0 if figure.kind is Kind.COUNT else rate
        absolute = _ROUNDED_SHARE if figure.key in ("coalesced_share", "lagged_share") else 0.0
        yield Compared(name, figure.key, theirs, mine, _close(theirs, mine, relative, absolute))


def _close(told: Any, found: float | int | None, relative: float, absolute: float) -> bool:
    """Within what the histogram and the rounding may each be off by; the two add up."""
    if told is None or found is None:
        return told is found
    if not isinstance(told, int | float):
        return False
    return told == found or abs(told - found) <= relative * max(abs(told), abs(found)) + absolute


# -- distributions -------------------------------------------------------------------------------------------------


def _summary(
    metric: Distribution, name: str | None, told: Mapping[str, Any], records: Sequence[RequestRecord], stats: RunStats
) -> Iterable[Compared]:
    """n, mean, smallest, largest and every percentile of one distribution."""
    samples = _samples(metric, records, stats.min_tokens)
    n = len(samples)
    slack = _slack(metric, samples)

    def compared(what: str, theirs: Any, mine: float | int | None, relative: float, absolute: float) -> Compared:
        return Compared(name, f"{metric.key} {what}", theirs, mine, _close(theirs, mine, relative, absolute))

    yield compared("n", told["n"], n, 0.0, 0.0)
    yield compared("mean", told["mean"], float(samples.mean()) if n else None, HISTOGRAM, slack)
    yield compared("min", told["min"], float(samples[0]) if n else None, 0.0, slack)
    yield compared("max", told["max"], float(samples[-1]) if n else None, 0.0, slack)
    infinite = infinite_samples(stats.counts(name), metric, n) if metric.judged else 0
    for q in QUANTILES:
        key = f"p{q * 100:.6g}"
        theirs = told["percentiles"].get(key)
        if theirs is None:
            continue
        yield compared(key, theirs["value"], _nearest_rank(samples, q, 0), HISTOGRAM, slack)
        if metric.judged:
            worst = _nearest_rank(samples, q, infinite)
            beyond = worst == math.inf
            yield compared(f"{key} with failures", theirs["with_failures"], None if beyond else worst, HISTOGRAM, slack)
            if beyond != theirs["beyond"]:
                yield Compared(name, f"{metric.key} {key} beyond", str(theirs["beyond"]), str(beyond), False)


def _samples(metric: Distribution, records: Sequence[RequestRecord], min_tokens: int) -> NDArray[np.float64]:
    """All samples of one distribution, rising; those that a clock fault made negative are left out."""
    parts: list[NDArray[np.float64]] = []
    for record in records:
        if record.warmup or (metric.key == TPOT and (record.output_tokens or 0) < min_tokens):
            continue
        value = metric.of(record)
        if value is None:
            continue
        part = np.repeat(*value) if isinstance(value, tuple) else np.atleast_1d(np.asarray(value, dtype=np.float64))
        if not (part < 0).any():
            parts.append(part)
    return np.sort(np.concatenate(parts)) if parts else np.empty(0)


def _nearest_rank(samples: NDArray[np.float64], q: float, infinite: int) -> float | None:
    """The smallest sample v with at least q·n samples ≤ v, of the samples and so many more of +∞."""
    n = len(samples) + infinite
    if n == 0:
        return None
    rank = max(1, math.ceil(q * n * (1 - 1e-12)))
    return float(samples[rank - 1]) if rank <= len(samples) else math.inf


def _slack(metric: Distribution, samples: NDArray[np.float64]) -> float:
    """What rounding instants to microseconds can do to a sample."""
    if metric.unit == "ms":
        return MICROSECOND_MS
    if metric.key == "tps" and len(samples):
        return float(samples[-1]) * HISTOGRAM
    return 0.0
