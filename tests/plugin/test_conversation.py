"""Conversations: what is sent grows by what was said, each turn has a name, a failing turn ends the talk alone."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import gevent
import pytest
from locust.env import Environment
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING

from locust_llm import Conversation, LLMUser
from locust_llm.plugin import conversation as conversation_room
from tests.plugin.clock import own_clock
from tests.replay import DONE, ROLE, STOP, C, Replay, Script, U, answer, stream

BROKEN = answer("500 Internal Server Error", b"{}")


def says(text: str) -> Script:
    return stream((0, ROLE + C(text) + STOP + U(9, 1) + DONE))


class Talker(LLMUser):
    pass


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a user has slept, on a clock that it moves itself."""
    return own_clock(monkeypatch, conversation_room)


def make(server: Replay, **options: Any) -> LLMUser:
    given = Namespace(host=server.url, llm_no_preflight=True, llm_model="m", **options)
    environment = Environment(user_classes=[Talker], host=server.url, parsed_options=given)
    environment.create_local_runner()
    Talker.host = server.url
    user = Talker(environment)
    user._state = LOCUST_STATE_RUNNING
    return user


def sent(server: Replay) -> list[list[tuple[str, str]]]:
    return [[(each["role"], each["content"]) for each in exchange.json["messages"]] for exchange in server.exchanges]


def test_history_grows_as_said_and_turns_have_names() -> None:
    with Replay(says("One."), says("Two."), says("Three.")) as server:
        user = make(server)
        talk = user.conversation(name="talk", turns=3, system="Count.")
        assert isinstance(talk, Conversation)
        records = [talk.ask(f"Turn {turn}?") for turn in talk]
    assert [record.name for record in records] == ["talk turn 1", "talk turn 2", "talk turn 3"]
    begin = [("system", "Count."), ("user", "Turn 1?")]
    assert sent(server) == [
        begin,
        [*begin, ("assistant", "One."), ("user", "Turn 2?")],
        [*begin, ("assistant", "One."), ("user", "Turn 2?"), ("assistant", "Two."), ("user", "Turn 3?")],
    ]
    assert talk.messages[-1] == {"role": "assistant", "content": "Three."}
    assert (talk.turn, talk.over) == (3, False)


def test_a_failing_turn_ends_the_conversation_and_not_the_user() -> None:
    with Replay(says("One."), BROKEN, says("New.")) as server:
        user = make(server)
        talk = user.conversation(turns=5)
        outcomes = [talk.ask().success for _ in talk]
        assert outcomes == [True, False]
        assert talk.over
        again = user.conversation(turns=1)
        assert [again.ask().success for _ in again] == [True]
    assert [len(messages) for messages in sent(server)] == [1, 3, 1]


def test_generated_questions_have_their_lengths() -> None:
    with Replay(says("a")) as server:
        user = make(server, llm_input_tokens="40", llm_turns="3")
        talk = user.conversation(tokens=7)
        for _ in talk:
            talk.ask()
    asked = sent(server)[-1]
    assert [len(content.split()) for role, content in asked if role == "user"] == [40, 7, 7]


def test_a_data_set_says_what_the_user_says(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    turns = [("system", "Rhyme."), ("human", "One"), ("gpt", "?"), ("human", "Two"), ("gpt", "?"), ("human", "Three")]
    path.write_text(json.dumps([{"conversations": [{"from": who, "value": what} for who, what in turns]}]))
    with Replay(says("a")) as server:
        user = make(server, llm_dataset=str(path), llm_turns="2")
        talk = user.conversation()
        assert [talk.ask().success for _ in talk] == [True, True]
        whole = user.conversation(turns=9)
        assert len([whole.ask() for _ in whole]) == 3
    assert sent(server)[1] == [("system", "Rhyme."), ("user", "One"), ("assistant", "a"), ("user", "Two")]
    assert [content for role, content in sent(server)[-1] if role == "user"] == ["One", "Two", "Three"]


def test_the_user_thinks_between_turns_and_not_after_the_last(naps: list[float]) -> None:
    with Replay(says("a")) as server:
        user = make(server, llm_think_time=1.1)
        for think_time, slept in ((None, 2.2), (lambda _: 0.2, 0.4), (0.0, 0.0)):
            naps.clear()
            talk = user.conversation(turns=3, think_time=think_time)
            for _ in talk:
                talk.ask()
            assert sum(naps) == pytest.approx(slept)
            assert all(nap <= 0.25 for nap in naps)


def test_a_user_that_is_stopped_asks_no_more() -> None:
    with Replay(says("a")) as server:
        user = make(server)
        talk = user.conversation(turns=9, think_time=30.0)
        gevent.spawn_later(0.05, setattr, user, "_state", LOCUST_STATE_STOPPING)
        assert len([talk.ask() for _ in talk]) == 1
    assert len(server.exchanges) == 1


def test_who_asks_nothing_is_not_asked_for_ever() -> None:
    with Replay(says("a")) as server:
        assert len(list(make(server).conversation(turns=3))) == 1


def test_late_turns_share_a_row() -> None:
    with Replay(says("a")) as server:
        talk = make(server).conversation(turns=12)
        names = [talk.ask().name for _ in talk]
    assert names[8:] == ["conversation turn 9", *["conversation turn 10+"] * 3]


def test_an_answer_without_text_is_not_said_again() -> None:
    with Replay(stream((0, ROLE + STOP + U(9, 1) + DONE))) as server:
        talk = make(server).conversation(turns=2)
        for _ in talk:
            talk.ask("Hm?")
    assert sent(server) == [[("user", "Hm?")], [("user", "Hm?")] * 2]
