"""Schedule: absolute times, oldest first when late, drops past the limit, nothing lost when a user is stopped."""

from __future__ import annotations

import itertools
import time

import gevent

from locust_llm.plugin.schedule import DROPPED, TAKEN, Schedule


def started(offsets: list[float], *, late_s: float = 0.0, **limits: object) -> Schedule:
    schedule = Schedule(**limits)  # type: ignore[arg-type]
    schedule.start(iter(offsets), time.monotonic_ns() - int(late_s * 1e9))
    return schedule


def test_an_arrival_is_never_taken_before_its_time() -> None:
    schedule = started([0.02, 0.05, 0.06])
    for _ in range(3):
        at_ns = schedule.wait()
        assert at_ns is not None
        assert time.monotonic_ns() >= at_ns
    assert schedule.wait() is None
    assert schedule.exhausted


def test_due_arrivals_wait_in_line_and_the_oldest_goes_first() -> None:
    schedule = started([0.1, 0.2, 0.3, 60.0], late_s=1.0)
    assert schedule.backlog == 3
    taken = [schedule.wait() for _ in range(3)]
    assert taken == sorted(taken)
    assert schedule.backlog == 0
    assert schedule.take_counts() == {TAKEN: 3, DROPPED: 0}


def test_an_arrival_past_the_limit_is_dropped_and_counted() -> None:
    in_flight = itertools.chain([0, 1, 1, 0], itertools.repeat(0))
    schedule = started([0.1, 0.2, 0.3, 0.4], late_s=1.0, limit=1, in_flight=lambda: next(in_flight))
    assert schedule.wait() is not None
    assert schedule.wait() is not None  # the second and third find one in flight
    assert schedule.take_counts() == {TAKEN: 2, DROPPED: 2}


def test_an_arrival_of_a_stopped_user_is_the_next_ones() -> None:
    schedule = started([0.05, 60.0])
    sleeper = gevent.spawn(schedule.wait)
    gevent.sleep(0.01)
    sleeper.kill()
    assert schedule.backlog == 0
    first = gevent.spawn(schedule.wait)
    first.join(timeout=5)
    assert first.value is not None
    assert schedule.take_counts() == {TAKEN: 1, DROPPED: 0}


def test_users_wait_until_the_schedule_begins() -> None:
    schedule = Schedule()
    early = gevent.spawn(schedule.wait)
    gevent.sleep(0.02)
    assert not early.ready()
    schedule.start(iter([0.0]), time.monotonic_ns())
    early.join(timeout=5)
    assert early.value is not None


def test_a_paused_schedule_forgets_what_it_had_and_wakes_who_sleeps() -> None:
    schedule = started([0.1, 0.2, 60.0, 61.0], late_s=1.0)
    assert schedule.backlog == 2
    assert schedule.wait() is not None
    assert schedule.wait() is not None
    sleeper = gevent.spawn(schedule.wait)  # for the arrival a minute from now
    gevent.sleep(0)
    schedule.pause()
    gevent.sleep(0.01)
    assert not sleeper.ready()
    assert schedule.backlog == 0
    t0_ns = time.monotonic_ns()
    schedule.start(iter([0.0]), t0_ns)
    sleeper.join(timeout=5)
    assert sleeper.value == t0_ns
    assert schedule.take_counts() == {TAKEN: 3, DROPPED: 0}


def test_what_is_due_at_a_pause_is_dropped() -> None:
    schedule = started([0.1, 0.2, 60.0], late_s=1.0)
    schedule.pause()
    assert schedule.take_counts() == {TAKEN: 0, DROPPED: 2}


def test_arrivals_are_counted_by_the_second_they_were_taken_in() -> None:
    schedule = started([0.1, 0.2, 0.3], late_s=2.5)
    for _ in range(2):
        schedule.wait()
    assert schedule.take_seconds() == {2: 2}
    assert schedule.take_seconds() == {}


def test_when_the_test_stops_nobody_takes_what_waits() -> None:
    """What is waiting then is counted as waiting, so it must not be counted as taken by who becomes free later."""
    schedule = started([0.1, 0.2, 60.0], late_s=1.0)
    assert schedule.close() == 2
    late = gevent.spawn(schedule.wait)
    gevent.sleep(0.05)
    late.kill()
    assert schedule.take_counts() == {TAKEN: 0, DROPPED: 0}
