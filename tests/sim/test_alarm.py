"""The alarm: rings at its time, once, in both of its forms."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import pytest

from locust_llm.sim import alarm
from locust_llm.sim.alarm import Alarm
from tests.sim.playing import MS

RINGS_WITHIN_S = 10.0


class Bell:
    """Notes when it rang."""

    def __init__(self) -> None:
        self.rang_ns: list[int] = []
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self.rang_ns.append(time.monotonic_ns())
        self._rung.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._rung.wait(), RINGS_WITHIN_S)
        self._rung.clear()


@pytest.fixture(params=["timerfd", "loop timer"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a test body with an alarm of each form."""
    if request.param == "loop timer":
        monkeypatch.setattr(alarm, "sys", type("NoLinux", (), {"platform": "elsewhere"}))
    elif sys.platform != "linux":
        pytest.skip("timerfd is Linux only")

    def go(body: Callable[[Alarm, Bell], Awaitable[None]]) -> None:
        async def main() -> None:
            bell = Bell()
            clock = Alarm(asyncio.get_running_loop(), bell)
            try:
                await body(clock, bell)
            finally:
                clock.close()

        asyncio.run(main())

    return go


def test_it_rings_once_and_never_early(run: Callable[..., None]) -> None:
    async def body(clock: Alarm, bell: Bell) -> None:
        at_ns = time.monotonic_ns() + 15 * MS
        clock.set(at_ns)
        clock.set(at_ns)
        await bell.wait()
        await asyncio.sleep(0.03)
        assert len(bell.rang_ns) == 1
        assert bell.rang_ns[0] >= at_ns - MS  # the loop's own timer rounds to its resolution

    run(body)


def test_the_last_time_set_counts(run: Callable[..., None]) -> None:
    async def body(clock: Alarm, bell: Bell) -> None:
        now_ns = time.monotonic_ns()
        clock.set(now_ns + 3600 * 1000 * MS)
        clock.set(now_ns + 5 * MS)
        await bell.wait()
        clock.set(time.monotonic_ns() + 5 * MS)
        clock.set(None)
        await asyncio.sleep(0.03)
        assert len(bell.rang_ns) == 1

    run(body)


def test_a_time_in_the_past_rings_at_once(run: Callable[..., None]) -> None:
    async def body(clock: Alarm, bell: Bell) -> None:
        clock.set(time.monotonic_ns() - 1000 * MS)
        await bell.wait()

    run(body)


def test_it_can_be_set_again_while_it_rings(run: Callable[..., None]) -> None:
    async def body(clock: Alarm, bell: Bell) -> None:
        at_ns = time.monotonic_ns() + MS
        for _ in range(3):
            clock.set(at_ns)  # the same time again, which is past by then
            await bell.wait()
        assert len(bell.rang_ns) == 3

    run(body)
