"""Outcomes: the ended requests of a step as columns, small enough to travel from workers in bulk.

A row holds what the analysis needs of one request, already reduced to numbers: instants in wall-clock seconds (so that
the rows of several machines share one axis), the record's own metrics, and how it ended. In the columns NaN stands for
"absent"; results made of them say None.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from locust_llm.measure import metrics
from locust_llm.measure.counts import tally
from locust_llm.measure.record import Outcome, RequestRecord

Floats = NDArray[np.float64]
_NS: Final = 1e-9
_ABSENT: Final = float("nan")

REFUSED_STATUS: Final = (429, 503, 529)
"""HTTP status of a server that sends a request away instead of queueing it (529: Anthropic's "overloaded")."""


class Fate(IntEnum):
    """How a request ended. REFUSED is a failure of its own kind: sent away before any output."""

    SUCCESS = 0
    FAILED = 1
    REFUSED = 2
    CANCELLED = 3


class Ended(NamedTuple):
    """One ended request. `user` tells users apart, over all workers; `met`: 1 all SLOs met, 0 not, -1 not judged.

    `first_s` and `last_s` are its first and last output events; `decode_ms` and `decode_tokens` the parts of its TPOT.
    """

    user: int
    started_s: float
    first_s: float
    last_s: float
    ended_s: float
    input_tokens: float
    tokens: float
    decode_ms: float
    decode_tokens: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    fate: int
    met: int
    error: str | None


_COLUMNS: Final = np.dtype(
    [(name, "i8" if name in ("user", "fate", "met") else "f8") for name in Ended._fields if name != "error"]
    + [("error", "i8")]
)

_ROOM: Final = 256


class Outcomes:
    """A growing table of ended requests."""

    def __init__(self) -> None:
        self._new: list[tuple[Any, ...]] = []
        self._kept = np.empty(_ROOM, _COLUMNS)  # grows by doubling; the first `_count` rows are filled
        self._count = 0
        self._labels: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count + len(self._new)

    def add(self, ended: Ended) -> None:
        """One more ended request."""
        self._new.append((*ended[:-1], self._number(ended.error)))

    def extend(self, many: Iterable[Ended]) -> None:
        """Several ended requests."""
        for ended in many:
            self.add(ended)

    @property
    def rows(self) -> NDArray[Any]:
        """All rows, to read: a structured array with the fields of `Ended`; `error` is a label's number, or -1."""
        if self._new:
            self._keep(np.array(self._new, _COLUMNS))
            self._new.clear()
        return self._kept[: self._count]

    def errors(self, rows: NDArray[Any]) -> dict[str, int]:
        """How often each label stands in `rows`, most frequent first; without the cancelled ones."""
        counts: dict[str, int] = {}
        failed = rows[(rows["fate"] == Fate.FAILED) | (rows["fate"] == Fate.REFUSED)]
        for label, number in self._labels.items():
            found = int(np.count_nonzero(failed["error"] == number))
            if found:
                tally(counts, label, found)
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def pack(self) -> tuple[bytes, list[str]]:
        """The rows as bytes, and the labels that their numbers stand for."""
        return self.rows.tobytes(), list(self._labels)

    def merge_packed(self, packed: tuple[bytes, list[str]]) -> None:
        """Add what `pack` of another table gave."""
        data, labels = packed
        rows = np.frombuffer(data, _COLUMNS).copy()
        numbers = np.array([self._number(label) for label in labels] + [-1], dtype=np.int64)
        rows["error"] = numbers[rows["error"]]  # -1 finds the last one: no label
        self._keep(rows)

    def clear(self) -> None:
        """Forget all rows; the labels keep their numbers."""
        self._new.clear()
        self._kept = np.empty(_ROOM, _COLUMNS)
        self._count = 0

    def _keep(self, rows: NDArray[Any]) -> None:
        count = self._count + len(rows)
        if count > len(self._kept):
            grown = np.empty(max(count, 2 * len(self._kept)), _COLUMNS)
            grown[: self._count] = self._kept[: self._count]
            self._kept = grown
        self._kept[self._count : count] = rows
        self._count = count

    def _number(self, label: str | None) -> int:
        return -1 if label is None else self._labels.setdefault(label, len(self._labels))


def ended(record: RequestRecord, user: int, offset_ns: int, met: bool | None = None) -> Ended:
    """The row of a record. `offset_ns` = wall clock - monotonic clock of its process."""

    def wall_s(at_ns: int) -> float:
        return (at_ns + offset_ns) * _NS

    events = record.event_ns
    span = metrics.decode_span(record)
    return Ended(
        user=user,
        started_s=wall_s(record.started_ns),
        first_s=wall_s(events[0]) if events else _ABSENT,
        last_s=wall_s(events[-1]) if events else _ABSENT,
        ended_s=wall_s(record.ended_ns),
        input_tokens=_or_absent(record.input_tokens),
        tokens=_or_absent(record.output_tokens),
        decode_ms=span[0] if span is not None else _ABSENT,
        decode_tokens=float(span[1]) if span is not None else _ABSENT,
        ttft_ms=_or_absent(metrics.ttft_ms(record)),
        tpot_ms=_or_absent(metrics.tpot_ms(record)),
        e2e_ms=_or_absent(metrics.e2e_ms(record)),
        fate=_fate(record),
        met=-1 if met is None else int(met),
        error=record.error,
    )


def _fate(record: RequestRecord) -> Fate:
    if record.outcome is Outcome.SUCCESS:
        return Fate.SUCCESS
    if record.outcome is Outcome.CANCELLED:
        return Fate.CANCELLED
    refused = record.status in REFUSED_STATUS and not record.event_ns
    return Fate.REFUSED if refused else Fate.FAILED


def _or_absent(value: float | None) -> float:
    return float(value) if value is not None else _ABSENT
