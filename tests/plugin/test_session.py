"""Session: how the target of a test is settled (D61), and what the workers are left of it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from locust import HttpUser
from locust.env import Environment

from locust_llm import LLMUser
from locust_llm.plugin import targets as targets_room
from locust_llm.plugin.session import Session, session_of
from locust_llm.wire.target import ConfigurationError

ENGINE = "http://127.0.0.1:{}"


class FakeEngine:
    """Each has a port of its own."""

    made: list[FakeEngine]

    def __init__(self, arguments: tuple[str, ...] = ()) -> None:
        self.command = ("sim", *arguments)
        self.url = ENGINE.format(5000 + len(self.made))
        self.running = True
        self.made.append(self)


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEngine.made = []
    monkeypatch.setattr(targets_room, "EmbeddedEngine", FakeEngine)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


class Asker(LLMUser):
    pass


class Plain(HttpUser):
    host = "http://plain"


def make(host: str | None = None, *classes: Any, own: str | None = None, **options: Any) -> Session:
    given = Namespace(host=host, llm_no_preflight=True, **{"llm_model": "m", **options})
    asker = type("Asker", (Asker,), {"host": own})
    return Session(Environment(user_classes=[asker, *classes], host=host, parsed_options=given))


def asks(session: Session) -> str:
    """The URL that the first user class asks."""
    (host, *_) = session.targets.hosts()
    return session.targets.config_for(host, "chat").url


P = "/chat/completions"
TARGETS = [
    ("a host", "http://h/api/v1", None, {}, f"http://h/api/v1{P}", 0),
    ("the class's host", None, "http://own/v1", {}, f"http://own/v1{P}", 0),
    ("a host over the class's", "http://h/v1", "http://own/v1", {}, f"http://h/v1{P}", 0),
    ("the variable, last of all", None, None, {"OPENAI_BASE_URL": "http://var/v1"}, f"http://var/v1{P}", 0),
    ("the class's host over the variable", None, "http://own", {"OPENAI_BASE_URL": "http://var/v1"},
     f"http://own/v1{P}", 0),
    ("nothing at all", None, None, {}, ENGINE.format(5000) + f"/v1{P}", 1),
    ("an empty host, as the form sends it", "", None, {}, ENGINE.format(5000) + f"/v1{P}", 1),
    ("sim", "sim", None, {}, ENGINE.format(5000) + f"/v1{P}", 1),
    ("sim, with blanks", " sim ", None, {}, ENGINE.format(5000) + f"/v1{P}", 1),
    ("sim over the variable", "sim", None, {"OPENAI_BASE_URL": "http://var/v1"}, ENGINE.format(5000) + f"/v1{P}", 1),
    ("the class says sim", None, "sim", {}, ENGINE.format(5000) + f"/v1{P}", 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "own", "variables", "url", "engines"), [row[1:] for row in TARGETS], ids=[row[0] for row in TARGETS]
)
def test_the_target(
    monkeypatch: pytest.MonkeyPatch,
    host: str | None,
    own: str | None,
    variables: dict[str, str],
    url: str,
    engines: int,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    session = make(host, own=own)
    session.prepare()
    assert asks(session) == url
    assert session.simulated is bool(engines)
    assert len(FakeEngine.made) == engines
    session.begin()
    assert asks(session) == url


def test_environment_host_is_left_alone_but_for_a_typed_sim() -> None:
    for host in (None, "http://h"):
        session = make(host, Plain)
        session.prepare()
        assert session.environment.host == host
    session = make("sim", Plain)
    session.prepare()
    assert session.environment.host == session.environment.parsed_options.host == ENGINE.format(5001)


def test_the_engine_is_kept_from_test_to_test_and_stays_simulated() -> None:
    """The form shows its address as the host of the next test."""
    session = make("sim")
    for _ in range(3):
        session.prepare()
        session.begin()
        assert session.simulated
    assert len(FakeEngine.made) == 1
    session.environment.host = "http://real"
    session.prepare()
    assert not session.simulated


def test_an_engine_that_has_died_is_started_anew() -> None:
    session = make("sim")
    session.prepare()
    FakeEngine.made[0].running = False
    session.prepare()
    assert session.environment.host == session.targets.engine_url == ENGINE.format(5001)
    assert asks(session).startswith(ENGINE.format(5001))


def test_the_options_of_the_engine() -> None:
    session = make("sim", llm_sim="--slots 4 --fault 'slow:1:2'")
    session.prepare()
    assert session.targets.engine_command == ("sim", "--slots", "4", "--fault", "slow:1:2")
    with pytest.raises(ConfigurationError, match="--llm-sim cannot be read"):
        make("sim", llm_sim="--slots '4").prepare()


def test_without_llm_users_nothing_is_settled() -> None:
    session = Session(Environment(user_classes=[Plain], parsed_options=Namespace(host=None)))
    session.prepare()
    assert (session.targets.hosts(), session.targets.reports, session.simulated, FakeEngine.made) == ([], [], False, [])
    assert session.run


def test_what_workers_are_left_is_plain_and_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://var/v1")
    master = make(llm_model="", llm_max_tokens=7)
    monkeypatch.setenv("OPENAI_MODEL", "from-the-variable")
    master.prepare()
    sent = json.loads(json.dumps(vars(master.environment.parsed_options)))
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_MODEL")
    worker = make()
    vars(worker.environment.parsed_options).update(sent)
    worker.begin()
    assert asks(worker) == asks(master) == f"http://var/v1{P}"
    call = worker.targets.call(None, "chat")
    assert (worker.run, call.model, call.max_tokens) == (master.run, "from-the-variable", 7)
    assert not worker.simulated


def test_each_test_is_another_run() -> None:
    session = make("http://h")
    runs = set()
    for number in range(1, 4):
        session.prepare()
        session.begin()
        runs.add(session.run)
        assert (session.test, session.lost, session.over) == (number, {}, False)
        session.lost["w"], session.over = 1.0, True
    assert len(runs) == 3


def test_a_test_asks_as_its_own_options_say() -> None:
    """What all requests have in common is made once a test, and anew for the next."""
    session = make("http://h", llm_model="m1", llm_max_tokens=7)
    session.prepare()
    session.begin()
    first = session.targets.call("http://h", "chat")
    assert session.targets.call("http://h", "chat") is first
    session.environment.parsed_options.llm_model, session.environment.parsed_options.llm_max_tokens = "m2", 9
    session.prepare()
    session.begin()
    second = session.targets.call("http://h", "chat")
    assert [(call.model, call.max_tokens) for call in (first, second)] == [("m1", 7), ("m2", 9)]


MISTAKES = [
    ("a password in the host", "http://u:secret@h/v1", {}, "user name or password"),
    ("no URL", "ftp://h", {}, "is not an HTTP URL"),
    ("no prompt file", "http://h", {"llm_prompt_file": "missing.txt"}, "--llm-prompt-file missing.txt"),
    ("no number", "http://h", {"llm_max_tokens": "many"}, "--llm-max-tokens takes a whole number"),
    ("no key", "http://h", {"llm_api_key_env": "NO_SUCH"}, "names NO_SUCH, which is not set"),
]


@pytest.mark.parametrize(("host", "options", "says"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, options: dict[str, Any], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    session = make()
    session.environment.host = session.environment.parsed_options.host = host
    vars(session.environment.parsed_options).update(options)
    with pytest.raises(ConfigurationError) as refused:
        session.prepare()
    assert says in str(refused.value)
    assert "secret" not in str(refused.value) + session.environment.host + session.environment.parsed_options.host


def test_there_is_one_session_for_an_environment() -> None:
    first, second = Environment(), Environment()
    assert session_of(first) is session_of(first)
    assert session_of(first) is not session_of(second)
