"""LLMUser as a Locust user: how it is stopped, and that its connections close with it."""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
import pytest
from gevent.pool import Group
from locust import constant, task
from locust.env import Environment

from locust_llm import LLMUser
from tests.replay import DONE, ROLE, STOP, C, End, Replay, U, stream

GOOD = stream((0, ROLE + C("Hi") + STOP + U(9, 1) + DONE))


class Waiter(LLMUser):
    wait_time = constant(0.05)
    tasks_begun = 0
    tasks_ended = 0

    @task
    def work(self) -> None:
        self.tasks_begun += 1
        gevent.sleep(0.02)
        self.tasks_ended += 1


class Asker(LLMUser):
    wait_time = constant(0)

    @task
    def ask(self) -> None:
        self.client.chat("Hello")


def await_true(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        gevent.sleep(0.001)


def start(user_class: type[LLMUser], host: str = "http://127.0.0.1:1") -> tuple[LLMUser, Group]:
    environment = Environment(user_classes=[user_class])
    environment.create_local_runner()
    user_class.host = host
    user, group = user_class(environment), Group()
    user.start(group)
    return user, group


def block_the_hub(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("turn", range(5))
def test_a_user_that_wakes_as_it_is_stopped_begins_no_task(turn: int) -> None:
    """Locust stops users in a timer; when the hub was busy meanwhile, theirs are due in the same turn."""
    user, group = start(Waiter)
    await_true(lambda: user.tasks_ended and user._state == "waiting")
    gevent.spawn_later(0, user.stop, force=False)
    block_the_hub(0.06 + 0.01 * turn)
    assert group.join(timeout=5)
    assert user.tasks_begun == user.tasks_ended


def test_a_user_in_its_task_ends_it() -> None:
    user, group = start(Waiter)
    await_true(lambda: user._state == "running" and user.tasks_begun > user.tasks_ended)
    assert user.stop() is False
    assert group.join(timeout=5)
    assert user.tasks_begun == user.tasks_ended


@pytest.mark.parametrize("force", [False, True])
def test_its_connection_closes_with_it(force: bool) -> None:
    with Replay(GOOD) as server:
        user, group = start(Asker, server.url)
        await_true(lambda: len(server.exchanges) > 2)
        user.stop(force=force)
        assert group.join(timeout=5)
        assert [client._http for client in user.client._clients] == [None]
        assert server.connections == 1


def test_a_forced_stop_cuts_its_request_off() -> None:
    with Replay(stream((0, ROLE + C("Hi")), end=End.HOLD)) as server:
        user, group = start(Asker, server.url)
        await_true(lambda: server.exchanges and server.exchanges[0].sent_ns)
        user.stop(force=True)
        assert group.join(timeout=5)
        await_true(lambda: server.exchanges[0].left_ns)
    counts = user.session.stats.counts()
    assert (counts.started, counts.cancelled) == (1, 1)
