"""Workload: whose requests are whose, what workers are told, and which length an answer shall have."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from locust.env import Environment

from locust_llm import LLMUser, OpenLoopUser
from locust_llm.plugin.fitting import BOTH, Fit
from locust_llm.plugin.session import Session
from locust_llm.plugin.workload import Workload, aim_of
from locust_llm.wire.call import Call
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.calibration import Calibration, Point
from locust_llm.workload.prompt import Prompt


class Asker(LLMUser):
    pass


class Sender(OpenLoopUser):
    pass


def make(folder: Path, *classes: type, **options: Any) -> Session:
    (folder / "data.jsonl").write_text("".join(json.dumps({"prompt": f"q{n}"}) + "\n" for n in range(10)))
    given = Namespace(host="http://h", llm_no_preflight=True, llm_model="m", **options)
    return Session(Environment(user_classes=[*(classes or (Asker,))], host="http://h", parsed_options=given))


def as_worker(master: Session, index: int, name: str, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """The workload of a worker that gets the master's options."""
    told = json.loads(json.dumps(vars(master.environment.parsed_options)))
    worker = Session(Environment(user_classes=[Asker], host="http://h", parsed_options=Namespace(**told)))
    worker.environment.runner = Namespace(worker_index=index, client_id=name)
    monkeypatch.setattr(Session, "is_worker", True)
    worker.workload.read(worker.environment.parsed_options)
    return worker.workload


def test_workers_deal_the_file_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master = make(tmp_path, llm_dataset=str(tmp_path / "data.jsonl"), llm_run="r", llm_seed=3)
    master.prepare()
    master.workload.divide({"b", "c", "a"})
    shares = [as_worker(master, index, name, monkeypatch) for index, name in enumerate("cab")]
    dealt = [share.prompt("chat ") for _ in range(3) for share in shares]
    assert len(set(dealt)) == 9


def test_another_file_on_a_worker_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master = make(tmp_path, llm_dataset=str(tmp_path / "data.jsonl"))
    master.prepare()
    master.workload.divide({"a"})
    (tmp_path / "data.jsonl").write_text('{"prompt": "other"}\n')
    with pytest.raises(ConfigurationError, match="is not the file that the master has"):
        as_worker(master, 0, "a", monkeypatch)


def test_what_was_found_of_targets_reaches_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master = make(tmp_path, llm_input_tokens="60")
    master.prepare()
    found = Fit(Calibration((Point(10, "", 30), Point(20, "", 50))), frozenset(("min_tokens",)))
    aim = aim_of("http://h", "chat")
    master.workload.fits = {aim: found}
    master.workload.tell(master.environment.parsed_options)
    worker = as_worker(master, 0, "a", monkeypatch)
    assert worker.fits == {aim: found}
    assert len(worker.prompt(aim).split()) == 1 + 25  # 10 tokens stand around the text, a word is two
    assert len(worker.prompt("another target").split()) == 60
    assert len(worker.prompt(aim, 110).split()) == 1 + 50


def test_what_is_sent_before_the_test_is_not_what_it_begins_with(tmp_path: Path) -> None:
    session = make(tmp_path, llm_seed=1)
    session.prepare()
    before = session.workload.before_test()
    first = {before() for _ in range(5)}
    session.begin()
    assert not first & {session.workload.prompt("chat ") for _ in range(20)}


PLAIN, MOST, EXACT = "text", Prompt("a", output_tokens=5), Prompt("a", output_tokens=5, exact=True)
SIZED = [
    ("nothing asked", {}, PLAIN, 256, False, {}),
    ("at most", {}, MOST, 5, False, {}),
    ("at most, as messages", {}, MOST.messages, 5, False, {}),
    ("just so many", {}, EXACT, 5, True, {"min_tokens": 5}),
    ("by the option", {"llm_output_tokens": "9"}, PLAIN, 9, True, {"min_tokens": 9}),
    ("the option before the file", {"llm_output_tokens": "9"}, EXACT, 9, True, {"min_tokens": 9}),
]


@pytest.mark.parametrize(
    ("options", "asked", "tokens", "ignore_eos", "extra"), [row[1:] for row in SIZED], ids=[row[0] for row in SIZED]
)
def test_the_length_of_an_answer(
    tmp_path: Path, options: dict[str, Any], asked: object, tokens: int, ignore_eos: bool, extra: dict[str, int]
) -> None:
    session = make(tmp_path, **options)
    session.begin()
    call = session.workload.sized(Call(max_tokens=256), asked, None, "chat")
    assert (call.max_tokens, call.ignore_eos, dict(call.extra)) == (tokens, ignore_eos, extra)


@pytest.mark.parametrize(
    ("fields", "ignore_eos", "extra"),
    [
        (BOTH, True, {"min_tokens": 9, "top_k": 1}),
        (frozenset(("ignore_eos",)), True, {"top_k": 1}),
        (frozenset[str](), False, {"top_k": 1}),
    ],
)
def test_only_fields_that_the_server_takes_are_sent(
    tmp_path: Path, fields: frozenset[str], ignore_eos: bool, extra: dict[str, int]
) -> None:
    session = make(tmp_path, llm_output_tokens="9")
    session.begin()
    session.workload.fits = {aim_of("http://h", "chat"): Fit(exact=fields)}
    call = session.workload.sized(Call(extra={"top_k": 1}), "a", "http://h", "chat")
    assert (call.ignore_eos, dict(call.extra)) == (ignore_eos, extra)
    other = session.workload.sized(Call(), "a", "http://h", "messages")
    assert "min_tokens" not in other.extra


def test_a_length_of_its_own_makes_a_prompt_up(tmp_path: Path) -> None:
    session = make(tmp_path, llm_dataset=str(tmp_path / "data.jsonl"))
    session.begin()
    assert session.workload.prompt("chat ").startswith("q")
    assert len(session.workload.prompt("chat ", 33).split()) == 33


def test_a_trace_is_for_open_load(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 5, "input_length": 20, "output_length": 3, "hash_ids": [1]}\n')
    with pytest.raises(ConfigurationError, match="--llm-trace needs an OpenLoopUser"):
        make(tmp_path, llm_trace=str(path)).prepare()
    session = make(tmp_path, Sender, llm_trace=str(path))
    session.prepare()
    prompt = session.workload.recorded("chat ", 0)
    assert prompt is not None
    assert (len(prompt.split()), prompt.output_tokens, prompt.exact) == (20, 3, True)
    assert session.workload.told() == {"trace": {"path": str(path), "requests": 1}}
