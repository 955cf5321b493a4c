"""A clock that only sleeping moves."""

from __future__ import annotations

from types import ModuleType

import pytest


def own_clock(monkeypatch: pytest.MonkeyPatch, room: ModuleType) -> list[float]:
    """Give a module's `time` and `gevent` such a clock; what it has slept, as it goes."""
    slept: list[float] = []

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return sum(slept)

    class Sleeper:
        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)

    monkeypatch.setattr(room, "time", Clock)
    monkeypatch.setattr(room, "gevent", Sleeper)
    return slept
