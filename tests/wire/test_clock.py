"""StampClock: kernel receive times (wall clock) on the monotonic clock, through slews and steps."""

from __future__ import annotations

import struct

import pytest

from locust_llm.wire.clock import StampClock

SECOND = 1_000_000_000
WALL = 1_700_000_000 * SECOND


class Clocks:
    """A wall and a monotonic clock that move together, but for what a test does to the wall."""

    def __init__(self) -> None:
        self.now = 5_000 * SECOND
        self.ahead = WALL
        self.reading_ns = 0  # how long each look at the wall clock takes

    def wall(self) -> int:
        self.now += self.reading_ns
        return self.now + self.ahead

    def monotonic(self) -> int:
        return self.now

    def stamped(self, monotonic_ns: int) -> list[tuple[int, int, bytes]]:
        """What the kernel hands over with a packet that arrives then."""
        wall = monotonic_ns + self.ahead
        return [(1, 37, struct.pack("@llllll", *divmod(wall, SECOND), 0, 0, 0, 0))]


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def watch(clocks: Clocks) -> StampClock:
    return StampClock(clocks.wall, clocks.monotonic)


def test_a_stamp_becomes_monotonic_time(clocks: Clocks) -> None:
    clock = watch(clocks)
    arrived = clocks.now + 700
    clocks.now += 5_000
    assert clock.monotonic(clocks.stamped(arrived), clocks.now) == arrived


NOTHING_USABLE: list[tuple[str, list[tuple[int, int, bytes]]]] = [
    ("no ancillary data", []),
    ("an empty stamp", [(1, 37, struct.pack("@llllll", 0, 0, 0, 0, 0, 0))]),
]


@pytest.mark.parametrize(("id_", "ancillary"), NOTHING_USABLE, ids=[case[0] for case in NOTHING_USABLE])
def test_without_a_usable_stamp(clocks: Clocks, id_: str, ancillary: list[tuple[int, int, bytes]]) -> None:
    assert watch(clocks).monotonic(ancillary, clocks.now) is None


@pytest.mark.parametrize(("ahead_ns", "usable"), [(0, True), (900, True), (900_000, True), (1_100_000, False)], ids=str)
def test_no_packet_arrives_after_it_was_read(clocks: Clocks, ahead_ns: int, usable: bool) -> None:
    stamp = watch(clocks).monotonic(clocks.stamped(clocks.now + ahead_ns), clocks.now)
    assert stamp == (clocks.now if usable else None)


@pytest.mark.parametrize("step_ns", [2 * SECOND, -2 * SECOND, 60_000, -60_000], ids=str)
def test_a_step_of_the_wall_clock_spoils_one_drain(clocks: Clocks, step_ns: int) -> None:
    """D81: no stamp is off by the step; the drain that meets it has none, the next one is right again."""
    clock = watch(clocks)
    before_step = clocks.stamped(clocks.now)
    clocks.now += 1_000_000
    clocks.ahead += step_ns
    clock.check()
    assert clock.steps == 1
    assert clock.monotonic(before_step, clocks.now) is None
    clocks.now += 1_000_000
    arrived = clocks.now
    clocks.now += 2_000
    clock.check()
    assert clock.steps == 1
    assert clock.monotonic(clocks.stamped(arrived), clocks.now) == arrived


def test_slewing_is_followed_and_is_no_step(clocks: Clocks) -> None:
    """NTP moves the wall clock by up to 500 parts in a million; drains may be seconds apart."""
    clock = watch(clocks)
    for _ in range(200):
        clocks.now += SECOND // 4
        clocks.ahead += SECOND // 4 * 500 // 1_000_000
        clock.check()
        arrived = clocks.now
        assert clock.trusted
        stamp = clock.monotonic(clocks.stamped(arrived), clocks.now + 10_000)
        assert stamp is not None
        assert abs(stamp - arrived) <= 2_000
    assert clock.steps == 0


def test_a_slow_reading_of_the_clocks_is_no_step(clocks: Clocks) -> None:
    """The process may be set aside between two readings; the quickest of several counts."""
    clock = watch(clocks)
    slow = iter([3_000_000, 2_000_000, 0, 0, 5_000_000, 0, 0, 0, 0, 0])

    def wall() -> int:
        clocks.now += next(slow)
        return clocks.now + clocks.ahead

    clock._wall_ns = wall
    clock.check()
    assert clock.steps == 0
    assert clock.trusted
    assert clock.offset_ns == clocks.ahead
