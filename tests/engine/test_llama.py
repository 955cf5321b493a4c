"""The real server says what is known in advance: on this the end-to-end tests stand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import gevent.pool
import pytest

from tests.engine.llama import ALIAS, API_KEY, Llama
from tests.engine.tiny_text import N_TOKENS, TEXT, said

pytestmark = pytest.mark.engine


def chat(server: Llama, key: str | None = None, **body: Any) -> dict[str, Any]:
    asked = {"model": ALIAS, "messages": [{"role": "user", "content": "Say it."}]} | body
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key is not None else {})
    request = Request(f"{server.url}/v1/chat/completions", json.dumps(asked).encode(), headers)
    with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
        return json.load(answer)


# The cuts fall within café, 😀 and 日, whose bytes are tokens of their own.
@pytest.mark.parametrize("max_tokens", [1, 5, 28, 29, 32, 33, 35, 38, 54])
def test_a_cut_answer(llama: Llama, max_tokens: int) -> None:
    answer = chat(llama, max_tokens=max_tokens)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == max_tokens
    # Without streaming, llama.cpp gives the bytes of a character it could not finish as U+FFFD.
    assert answer["choices"][0]["message"]["content"].rstrip("\ufffd") == said(max_tokens)


def test_a_whole_answer(llama: Llama) -> None:
    answer = chat(llama)
    assert answer["model"] == ALIAS
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["message"]["content"] == TEXT
    assert answer["usage"]["completion_tokens"] == N_TOKENS == 55


def test_a_repeated_answer(llama: Llama) -> None:
    answer = chat(llama, max_tokens=120, ignore_eos=True)
    assert answer["choices"][0]["message"]["content"] == said(120)
    assert answer["usage"]["completion_tokens"] == 120


def test_its_counts(own_llama: Llama) -> None:
    for _ in range(3):
        chat(own_llama)
    deadline_s = time.monotonic() + 10
    while own_llama.requests_ended() < 3 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert own_llama.requests_started() == own_llama.requests_ended() == 3
    metrics = own_llama.metrics()
    assert metrics["tokens_predicted_total"] == 3 * N_TOKENS
    assert metrics["requests_processing"] == 0


def test_it_can_be_killed_and_started_again(own_llama: Llama) -> None:
    url, pid = own_llama.url, own_llama.pid
    own_llama.kill()
    with pytest.raises(OSError, match="refused"):
        chat(own_llama)
    own_llama.restart()
    assert own_llama.url == url
    assert own_llama.pid != pid
    assert chat(own_llama)["usage"]["completion_tokens"] == N_TOKENS


def test_without_the_engine_the_way_to_get_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engine.llama._MODEL", tmp_path / "tiny.gguf")
    with pytest.raises(AssertionError, match="run `make engine`"):
        Llama.start(tmp_path)


@pytest.mark.parametrize("key", [None, "sk-wrong"], ids=["no key", "a wrong key"])
def test_the_key_is_asked_for(llama_with_key: Llama, key: str | None) -> None:
    with pytest.raises(HTTPError) as refused:
        chat(llama_with_key, key)
    assert refused.value.code == 401
    refused.value.close()
    assert chat(llama_with_key, API_KEY)["usage"]["completion_tokens"] == N_TOKENS
    assert llama_with_key.metrics()["tokens_predicted_total"] >= N_TOKENS


@pytest.mark.long
def test_whatever_it_is_asked_and_however_many_ask_at_once(llama: Llama) -> None:
    """The tests may count on the text and on N: different prompts of any length, 16 at once on 4 slots."""

    def ask(number: int) -> tuple[str, int]:
        answer = chat(llama, messages=[{"role": "user", "content": f"{number} " + "why? " * (number % 50)}])
        return answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]

    answers = gevent.pool.Pool(16).map(ask, range(300))
    assert answers == [(TEXT, N_TOKENS)] * 300
