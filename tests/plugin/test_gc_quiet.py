"""The garbage collector during a test: frozen, rare, and as before afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from locust.event import Events

from locust_llm.plugin.gc_quiet import THRESHOLDS, QuietGC


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def quiet() -> Iterator[QuietGC]:
    before = gc.get_threshold()
    made = QuietGC()
    yield made
    made.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_what_is_there_is_frozen_and_garbage_is_not(quiet: QuietGC) -> None:
    garbage = weakref.ref(Cycle())
    quiet.start()
    assert garbage() is None
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == THRESHOLDS
    assert len(gc.get_objects()) < gc.get_freeze_count()


def test_cycles_made_during_a_test_are_still_found(quiet: QuietGC) -> None:
    quiet.start()
    first = weakref.ref(Cycle())
    for _ in range(2 * THRESHOLDS[0]):
        if first() is None:
            break
        Cycle()
    assert first() is None


def test_a_second_test_freezes_anew_and_one_stop_is_enough(quiet: QuietGC) -> None:
    quiet.start()
    frozen = gc.get_freeze_count()
    kept = [Cycle() for _ in range(100)]
    quiet.start()
    assert gc.get_freeze_count() >= frozen + len(kept)
    quiet.stop()
    assert gc.get_freeze_count() == 0
    quiet.stop()


def test_settling_freezes_what_came_since_and_collects_nothing(quiet: QuietGC) -> None:
    quiet.settle()
    assert gc.get_freeze_count() == 0, "no test runs"
    quiet.start()
    frozen = gc.get_freeze_count()
    garbage, kept = weakref.ref(Cycle()), [Cycle() for _ in range(100)]
    quiet.settle()
    assert gc.get_freeze_count() >= frozen + len(kept)
    assert garbage() is not None


def test_stopping_what_was_not_started_touches_nothing(quiet: QuietGC) -> None:
    gc.freeze()
    quiet.stop()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


def test_it_follows_the_tests_of_an_environment(quiet: QuietGC) -> None:
    events = Events()
    quiet.install(events)
    events.test_start.fire(environment=None)
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    kept = [Cycle() for _ in range(100)]
    events.spawning_complete.fire(user_count=1)
    assert gc.get_freeze_count() >= frozen + len(kept)
    events.test_stop.fire(environment=None)
    assert gc.get_freeze_count() == 0
