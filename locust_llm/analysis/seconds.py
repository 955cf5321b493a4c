"""Seconds: what happened second by second in a step, as columns.

Tokens within one second are taken to arrive evenly, so that sums over any stretch of time can be told.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Seconds:
    """Consecutive spans of `span_s` (a second, unless said otherwise), in order and without a gap."""

    def __init__(self, span_s: float = 1.0) -> None:
        self.span_s = span_s
        self._begin_s: float | None = None
        self._tokens: list[float] = []
        self._in_flight: list[float] = []
        self._users: list[float] = []

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def begin_s(self) -> float | None:
        """Wall-clock time at which the first span begins; None before it came."""
        return self._begin_s

    @property
    def end_s(self) -> float | None:
        """Where the last span ends."""
        return None if self._begin_s is None else self._begin_s + len(self) * self.span_s

    def add(self, begin_s: float, tokens: float, in_flight: float, users: float) -> None:
        """The next span: tokens that arrived in it; requests in flight and users running at its end.

        Raises ValueError when it does not follow the last one.
        """
        if self._begin_s is None:
            self._begin_s = begin_s
        elif abs(begin_s - (self._begin_s + len(self) * self.span_s)) > 0.01 * self.span_s:
            raise ValueError(f"a second is missing or came twice: {begin_s} after {self.end_s}")
        self._tokens.append(tokens)
        self._in_flight.append(in_flight)
        self._users.append(users)

    def edges(self) -> Floats:
        """The borders of the spans, one more than spans."""
        begin = self._begin_s if self._begin_s is not None else 0.0
        return np.arange(len(self) + 1, dtype=np.float64) * self.span_s + begin

    def tokens(self, edges: Floats) -> Floats:
        """Tokens that arrived between each pair of edges, shape (edges - 1,)."""
        return self._between(np.array(self._tokens), edges)

    def mean_in_flight(self, edges: Floats) -> Floats:
        """Mean requests in flight between each pair of edges, each span counting with its end's number."""
        return self._between(np.array(self._in_flight) * self.span_s, edges) / np.diff(edges)

    def mean_users(self, begin_s: float, end_s: float) -> float:
        """Mean users running."""
        edges = np.array([begin_s, end_s])
        return float(self._between(np.array(self._users) * self.span_s, edges)[0] / (end_s - begin_s))

    def _between(self, amounts: Floats, edges: Floats) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(amounts)])
        return np.diff(np.interp(edges, self.edges(), total))
