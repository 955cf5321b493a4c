"""`self.client` of an LLMUser against a server that plays its answers, without the `locust` command."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import gevent
import pytest
from locust.env import Environment
from locust.exception import LocustError

from locust_llm import LLMUser
from locust_llm.plugin import watch as watch_room
from locust_llm.plugin.events import LLMError
from locust_llm.plugin.session import session_of
from tests.plugin.clock import own_clock
from tests.replay import DONE, ROLE, STOP, C, End, Exchange, Replay, Script, U, answer, event, stream

ANSWER = stream((0, ROLE + C("Hi")), (20, C("!") + STOP + U(9, 2) + DONE))
BUSY = answer("429 Too Many Requests", b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}')
BROKEN = stream((0, C("Hi")), end=End.RST)


class Asker(LLMUser):
    def context(self) -> dict[str, Any]:
        return {"user": "u7", "place": "class"}


class Heard(list[dict[str, Any]]):
    def __init__(self, environment: Environment) -> None:
        environment.events.request.add_listener(lambda **said: self.append(said))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [said for said in self if said["request_type"] == kind]


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a user has slept, on a clock that it moves itself."""
    return own_clock(monkeypatch, watch_room)


def make(server: Replay, user_class: type[LLMUser] = Asker) -> LLMUser:
    environment = Environment(user_classes=[user_class], host=server.url)
    environment.create_local_runner()
    user_class.host = server.url
    return user_class(environment)


def counts(user: LLMUser) -> tuple[int, int, int, int]:
    told = session_of(user.environment).stats.counts()
    return told.started, told.succeeded, told.failed, told.cancelled


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_chat() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        record = user.client.chat("Hello", name="greet", max_tokens=7, top_p=0.9, model="m1")
        user.client.close()
    assert (record.text, record.finish_reason, record.output_tokens, record.error) == ("Hi!", "stop", 2, None)
    assert record.success
    assert record.ttft_ms is not None
    assert len(record.itl_ms) == 1
    assert record.tpot_ms == record.itl_ms[0]
    assert record.e2e_ms >= record.ttft_ms
    (asked,) = server.exchanges
    assert asked.target == "/v1/chat/completions"
    assert asked.json["messages"] == [{"role": "user", "content": "Hello"}]
    assert (asked.json["max_tokens"], asked.json["top_p"], asked.json["model"]) == (7, 0.9, "m1")
    assert (asked.json["stream"], asked.json["temperature"]) == (True, 0)
    assert counts(user) == (1, 1, 0, 0)


def test_a_completion() -> None:
    end = event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    text = event({"choices": [{"index": 0, "text": "Hi", "finish_reason": None}]})
    with Replay(stream((0, text), (10, end + U(3, 1) + DONE))) as server:
        user = make(server)
        record = user.client.complete("Say hi", echo=False)
        user.client.close()
    assert (record.text, record.name, record.output_tokens) == ("Hi", "completion", 1)
    assert server.exchanges[0].target == "/v1/completions"
    assert (server.exchanges[0].json["prompt"], server.exchanges[0].json["echo"]) == ("Say hi", False)


def test_context_is_merged_and_reaches_listeners() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        heard = Heard(user.environment)
        user.client.chat("Hello", context={"place": "call"})
        user.client.close()
    assert {tuple(said["context"].items()) for said in heard} == {(("user", "u7"), ("place", "call"))}
    assert [len(heard.of(kind)) for kind in ("TTFT", "ITL", "TPOT", "E2E")] == [1, 1, 1, 1]


def test_a_failed_request_does_not_raise() -> None:
    with Replay(BROKEN, ANSWER) as server:
        user = make(server)
        heard = Heard(user.environment)
        first, second = user.client.chat("a"), user.client.chat("b")
        user.client.close()
    assert not first.success
    assert second.success
    assert [said["response_time"] is None for said in heard.of("E2E")] == [True, False]
    assert len(heard.of("TTFT")) == 1
    assert counts(user) == (2, 1, 1, 0)


def test_greenlets_of_one_user_may_ask_at_once() -> None:
    """Each over a connection of its own, which the next request then uses again."""
    slow = stream((0, ROLE), (200, C("Hi") + STOP + U(9, 1) + DONE))
    with Replay(slow) as server:
        user = make(server)
        asked = [gevent.spawn(user.client.chat, "Hello") for _ in range(3)]
        gevent.joinall(asked, raise_error=True)
        user.client.chat("Again")
        user.client.close()
    assert [greenlet.value.text for greenlet in asked] == ["Hi"] * 3
    assert sorted({exchange.connection for exchange in server.exchanges}) == [1, 2, 3]


# -- catch_response ------------------------------------------------------------------------------------------------


def test_an_answer_may_be_marked_failed() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        heard = Heard(user.environment)
        with user.client.chat("Hello", catch_response=True) as caught:
            assert caught.text == "Hi!"
            assert heard == []
            caught.failure("not polite")
        with user.client.chat("Hello", catch_response=True) as caught:
            raise LLMError("not polite either")
        with user.client.chat("Hello", catch_response=True):
            pass
        user.client.close()
    assert [str(said["exception"]) for said in heard.of("E2E")] == ["not polite", "not polite either", "None"]
    assert [said["response_time"] is None for said in heard.of("E2E")] == [True, True, False]
    assert len(heard.of("TTFT")) == 1
    assert counts(user) == (3, 1, 2, 0)
    assert session_of(user.environment).stats.counts().errors == {"not polite": 1, "not polite either": 1}


def test_a_failure_may_be_marked_a_success() -> None:
    with Replay(BROKEN) as server:
        user = make(server)
        heard = Heard(user.environment)
        with user.client.chat("Hello", catch_response=True) as caught:
            assert caught.error is not None
            caught.success()
        user.client.close()
    assert [said["exception"] for said in heard.of("E2E")] == [None]
    assert counts(user) == (1, 1, 0, 0)


def test_an_error_of_the_task_goes_on_its_way() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        with pytest.raises(ZeroDivisionError), user.client.chat("Hello", catch_response=True):
            _ = 1 / 0
        user.client.close()
    assert counts(user) == (1, 1, 0, 0)


def test_an_answer_is_judged_in_a_with_block() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        caught = user.client.chat("Hello", catch_response=True)
        for judge in (caught.success, lambda: caught.failure("no")):
            with pytest.raises(LocustError, match="with block"):
                judge()
        user.client.close()


# -- D42: 429 and 503 ----------------------------------------------------------------------------------------------

PAUSES = [
    ("as the server asks", answer("429 Too Many Requests", b"{}", retry_after="2"), 2.0),
    ("a second where it does not say", BUSY, 1.0),
    ("503 too", answer("503 Service Unavailable", b"<html>", content_type="text/html", retry_after="3"), 3.0),
    ("at most the cap", answer("429 Too Many Requests", b"{}", retry_after="9999"), 30.0),
    ("529 too, Anthropic's busy", answer("529 Overloaded", b"{}", retry_after="4"), 4.0),
    ("not after other failures", answer("500 Internal Server Error", b"{}"), 0.0),
    ("not after a success", ANSWER, 0.0),
]


@pytest.mark.parametrize("caught", [False, True], ids=["plain", "catch_response"])
@pytest.mark.parametrize(("script", "pause_s"), [row[1:] for row in PAUSES], ids=[row[0] for row in PAUSES])
def test_d42_a_user_pauses(naps: list[float], script: Script, pause_s: float, caught: bool) -> None:
    with Replay(script) as server:
        user = make(server)
        if caught:
            with user.client.chat("Hello", catch_response=True):
                assert naps == []
        else:
            user.client.chat("Hello")
        user.client.close()
    assert sum(naps) == pytest.approx(pause_s)


def test_d42_the_pause_ends_when_the_user_is_stopped(naps: list[float]) -> None:
    with Replay(PAUSES[3][1]) as server:
        user = make(server)
        user._state = "stopping"
        user.client.chat("Hello")
        user.client.close()
    assert naps == []


def test_a_server_that_is_gone_is_not_asked_all_the_time(naps: list[float]) -> None:
    with Replay(ANSWER) as server:
        user = make(server)
    record = user.client.chat("Hello")
    user.client.close()
    assert record.error == "connect failed: refused"
    assert sum(naps) == 1.0


def test_d70_the_labels_of_failures_are_few() -> None:
    """100 refusals, each with its own numbers and ids, are one row."""

    def refuse(exchange: Exchange) -> Script:
        text = f"Rate limit reached for org-{exchange.read_ns}: try again in {exchange.read_ns % 977}.5s (req_x1)"
        body = b'{"error":{"message":"%s","code":"rate_limit_exceeded"}}' % text.encode()
        return answer("429 Too Many Requests", body)

    with Replay(choose=refuse) as server:
        user = make(server)
        user.session.settings = replace(user.session.settings, retry_after_cap=0)
        for _ in range(100):
            user.client.chat("Hello")
        user.client.close()
    (error,) = user.environment.stats.errors.values()
    assert (repr(error.error), error.occurrences) == ("HTTP 429 rate_limit_exceeded", 100)
    assert user.environment.stats.total.num_failures == 100


# -- D85: abandoned streams ----------------------------------------------------------------------------------------


def test_d85_the_151st_request_proceeds_and_the_server_sees_each_leave() -> None:
    held = stream((0, ROLE + C("Hi")), end=End.HOLD)

    def choose(exchange: Exchange) -> Script:
        return ANSWER if b"last" in exchange.body else held

    with Replay(choose=choose) as server:
        user = make(server)
        for number in range(150):
            asking = gevent.spawn(user.client.chat, f"{number}")
            deadline = time.monotonic() + 10
            while not (len(server.exchanges) > number and server.exchanges[number].sent_ns):
                assert time.monotonic() < deadline
                gevent.sleep(0.001)
            asking.kill()
        assert user.client.chat("last").text == "Hi!"
        user.client.close()
        deadline = time.monotonic() + 10
        while any(exchange.left_ns is None for exchange in server.exchanges[:150]):
            assert time.monotonic() < deadline
            gevent.sleep(0.01)
    assert counts(user) == (151, 1, 0, 150)
    assert user.environment.stats.total.num_requests == 1
    assert session_of(user.environment).listener.running == set()


# -- from one test to the next -------------------------------------------------------------------------------------


def test_a_request_of_the_last_test_is_none_of_the_next() -> None:
    slow = stream((0, ROLE + C("Hi")), (300, C("!") + STOP + U(9, 2) + DONE))
    with Replay(slow) as server:
        user = make(server)
        asking = gevent.spawn(user.client.chat, "Hello")
        while not server.exchanges:
            gevent.sleep(0.001)
        user.session.run = ""
        user.environment.stats.clear_all()
        user.session.begin()
        assert asking.get().text == "Hi!"
        user.client.close()
    assert counts(user) == (0, 0, 0, 0)
    assert user.environment.stats.total.num_requests == 0


def test_no_second_is_added_once_the_test_is_over() -> None:
    with Replay(ANSWER) as server:
        user = make(server)
        user.client.chat("Hello")
        user.client.close()
    listener = session_of(user.environment).listener
    heard: list[None] = []
    listener.on_tick.append(lambda: heard.append(None))
    listener.finish()
    last = listener.stats.complete_s
    gevent.sleep(2.2)
    assert (listener.stats.complete_s, heard) == (last, [])


# -- as a library --------------------------------------------------------------------------------------------------


def test_a_program_without_the_locust_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoint and model from the environment; no preflight; prompts of the run's own."""
    with Replay(ANSWER) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/api/v1")
        monkeypatch.setenv("OPENAI_MODEL", "m2")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-library")
        environment = Environment(user_classes=[LLMUser])
        environment.create_local_runner()
        monkeypatch.setattr(LLMUser, "host", None)
        user = LLMUser(environment)
        user.client.chat(user.prompt())
        user.client.chat(user.prompt())
        user.client.close()
    first, second = server.exchanges
    assert first.target == "/api/v1/chat/completions"
    assert ("authorization", "Bearer sk-library") in first.headers
    assert first.json["model"] == "m2"
    nonces = [exchange.json["messages"][0]["content"].split()[0] for exchange in (first, second)]
    assert nonces[0] != nonces[1]
    assert nonces[0].startswith(session_of(environment).run)
    assert len(session_of(environment).run) == 8
