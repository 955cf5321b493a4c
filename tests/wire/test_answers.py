"""Every case's bytes, read whole, byte by byte, and cut at every place, by the fast and by the tolerant way."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from locust_llm.wire import document, failures, openai_chunks
from tests.wire import (
    anthropic_cases,
    body_cases,
    embeddings_cases,
    ending_cases,
    error_cases,
    framing_cases,
    ollama_cases,
    output_cases,
    responses_cases,
    usage_cases,
)
from tests.wire.playing import Case, assert_as_expected, bytewise, cuts, play

OPENAI = [error_cases, output_cases, usage_cases, ending_cases, framing_cases, body_cases]
TABLES = [*OPENAI, anthropic_cases, responses_cases, ollama_cases, embeddings_cases]
CASES = [case for table in TABLES for case in table.CASES]
LONG_BYTES = 2000  # longer cases are cut at about 200 places


@pytest.fixture(autouse=True)
def _own_labels() -> Iterator[None]:
    failures.LABELS.reset()
    yield
    failures.LABELS.reset()


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def size(case: Case) -> int:
    return sum(len(data) for _, data in case.steps)


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


@each(CASES)
def test_whole(case: Case) -> None:
    assert_as_expected(case, play(case))


@each(CASES)
def test_byte_by_byte(case: Case) -> None:
    assert play(case, bytewise(case.steps)) == play(case)


@each([case for case in CASES if size(case) > 1])
def test_cut_at_every_place(case: Case) -> None:
    whole = play(case)
    for steps in cuts(case.steps, 1 if size(case) < LONG_BYTES else size(case) // 200):
        assert play(case, steps) == whole


class Refuses:
    """A JSON decoder that can read nothing."""

    def decode(self, _data: bytes) -> object:
        raise msgspec.DecodeError


@pytest.mark.parametrize("last_resort", [False, True], ids=["untyped", "last resort"])
@each(CASES)
def test_tolerant_ways_say_the_same(case: Case, last_resort: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = play(case)
    monkeypatch.setattr(openai_chunks, "_chunk", Refuses())
    if last_resort:
        monkeypatch.setattr(document, "_decoder", Refuses())
    assert play(case) == fast
