"""--llm-ab: who asks what, what is refused before any load, and what the run leaves (issue E)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import LocustResult
from tests.plugin import gated
from tests.replay import DONE, ROLE, STOP, C, Replay, U, answer, stream

GOOD = stream((0, ROLE + C("Hi")), (20, C("!") + STOP + U(9, 2) + DONE))
SLOW = stream((60, ROLE + C("Hi")), (20, C("!") + STOP + U(9, 2) + DONE))
BROKEN = answer("401 Unauthorized", b'{"error": {"message": "no"}}')

ASKING = gated.GATED.replace('self.client.chat("Hello", name="ask"', 'self.client.chat(self.prompt(), name="ask"')
USERS = "--headless --spawn-rate 50 --run-time 3s --stop-timeout 5 --llm-input-tokens 20 --llm-min-tokens 1".split()


def run(folder: Path, *args: str, users: int = 4) -> LocustResult:
    return gated.run(folder, ASKING, *USERS, "--users", str(users), "--llm-json", "run.json", *args)


def document(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def asked(server: Replay) -> list[tuple[str, str]]:
    """(model, prompt) of each request but the preflight's, by the number in its nonce."""
    bodies = [exchange.json for exchange in server.exchanges if exchange.method == "POST"]
    told = [(body["model"], body["messages"][0]["content"]) for body in bodies[1:]]
    return sorted(told, key=lambda each: int(each[1].split()[0].rsplit("-", 1)[1]))


def test_two_hosts_get_the_same_prompts(tmp_path: Path) -> None:
    with Replay(GOOD) as a, Replay(SLOW) as b:
        result = run(tmp_path, "--host", a.url, "--llm-model", "m", "--llm-ab", b.url)
        one, other = asked(a), asked(b)
    assert result.exit_code == 0, result.output
    common = min(len(one), len(other))
    assert common >= 10
    words = [[text.split()[1:] for _, text in side[:common]] for side in (one, other)]
    assert words[0] == words[1]
    assert not {text.split()[0] for _, text in one} & {text.split()[0] for _, text in other}
    content = document(tmp_path)
    assert sorted(each["name"] for each in content["names"] if each["name"]) == ["ask (A)", "ask (B)"]
    sides = content["sides"]
    assert (sides["a"], sides["b"]) == (f"{a.url} (m)", f"{b.url} (m)")
    figures = {figure["figure"]: figure for figure in sides["figures"]}
    assert figures["ttft:p50"]["run"] > figures["ttft:p50"]["base"] + 30
    assert "B against A\n" in result.output
    assert sides["sentence"].split(".")[0] in " ".join(result.output.split())


def test_two_models_of_one_host_on_two_workers(tmp_path: Path) -> None:
    with Replay(GOOD) as server:
        args = ["--host", server.url, "--llm-model", "m", "--llm-ab", "n", *gated.processes()]
        result = run(tmp_path, *args)
        models = [exchange.json["model"] for exchange in server.exchanges if exchange.method == "POST"]
    assert result.exit_code == 0, result.output
    assert {"m", "n"} == set(models)
    assert 0.3 < models.count("n") / len(models) < 0.7
    sides = document(tmp_path)["sides"]
    assert (sides["a"], sides["b"]) == ("m", "n")
    counts = {each["name"]: each["counts"]["succeeded"] for each in document(tmp_path)["names"] if each["name"]}
    assert set(counts) == {"ask (A)", "ask (B)"}


@pytest.mark.parametrize(
    ("id_", "args", "users", "sentence"),
    [
        ("one user", ["--llm-ab", "n"], 1, "--llm-ab needs two users or more"),
        ("a shape", ["--llm-ab", "n", "--llm-shape", "sweep"], 4, "it does not go with a shape"),
        ("the same model", ["--llm-ab", "m"], 4, "--llm-ab m is the model that is asked anyway"),
        ("a dead host", ["--llm-ab", "http://127.0.0.1:9/v1"], 4, "127.0.0.1:9"),
    ],
)
def test_mistakes_are_told_before_any_load(
    id_: str, args: list[str], users: int, sentence: str, tmp_path: Path
) -> None:
    with Replay(GOOD) as server:
        result = run(tmp_path, "--host", server.url, "--llm-model", "m", *args, users=users)
        posts = [exchange for exchange in server.exchanges if exchange.method == "POST"]
    assert result.exit_code == 1
    assert sentence in result.output
    assert len(posts) <= 1  # the preflight of the first target


def test_a_second_target_that_refuses_is_told_before_any_load(tmp_path: Path) -> None:
    with Replay(GOOD) as a, Replay(BROKEN) as b:
        result = run(tmp_path, "--host", a.url, "--llm-model", "m", "--llm-ab", b.url)
    assert result.exit_code == 1
    assert "401" in result.output
    assert not (tmp_path / "run.json").exists()
