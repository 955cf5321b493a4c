"""Prompts: the length asked for, and a beginning that no prefix cache has seen (D13)."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from locust_llm.workload.lengths import parse_lengths
from locust_llm.workload.prompts import PromptFileError, Prompts, read_prompt_file


@pytest.mark.parametrize("words", [1, 2, 500, 3000])
def test_a_prompt_has_the_words_asked_for(words: int) -> None:
    prompts = Prompts(parse_lengths(str(words)), run="r")
    assert {len(prompts().split()) for _ in range(50)} == {words}


def test_no_two_prompts_share_a_beginning_in_a_run_over_workers_or_runs() -> None:
    makers = [Prompts(parse_lengths("20"), run=run, worker=worker, seed=0) for run in ("a", "b") for worker in (0, 1)]
    beginnings = [maker().split()[0] for maker in makers for _ in range(100)]
    assert len(set(beginnings)) == len(beginnings) == 400


def test_a_seed_repeats_the_words_but_not_the_nonce() -> None:
    one, other = (Prompts(parse_lengths("30"), run=run, seed=7)() for run in ("a", "b"))
    assert one.split()[1:] == other.split()[1:]
    assert one.split()[0] != other.split()[0]


def test_a_file_is_every_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("Wie spät ist es?\n", encoding="utf-8")
    prompt = read_prompt_file(str(path))
    assert prompt() == prompt() == "Wie spät ist es?"


@pytest.mark.parametrize(("content", "says"), [(b"", "is empty"), (b"\xff\xfe", "not a UTF-8 text file")])
def test_an_unusable_file_is_said(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(content)
    with pytest.raises(PromptFileError, match=says):
        read_prompt_file(str(path))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match="No such file"):
        read_prompt_file(str(tmp_path / "none.txt"))


def begins(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def test_prompts_share_one_of_the_prefixes_on_all_workers_and_are_unique_after_it() -> None:
    makers = [Prompts(parse_lengths("100"), run="r", worker=worker, shared=0.5, prefixes=3) for worker in (0, 1)]
    first, second = ([maker() for _ in range(60)] for maker in makers)
    assert {len(text.split()) for text in first + second} == {100}
    prefixes = {begins(text, 50) for text in first}
    assert prefixes == {begins(text, 50) for text in second}
    assert len(prefixes) == 3
    assert len({text.split()[50] for text in first + second}) == 120
    other = Prompts(parse_lengths("100"), run="another", shared=0.5, prefixes=3)
    assert not prefixes & {begins(other(), 50) for _ in range(60)}


def test_of_prompts_of_many_lengths_the_shorter_prefix_begins_the_longer() -> None:
    prompts = Prompts(parse_lengths("uniform:60-400"), run="r", shared=0.5, prefixes=2)
    texts = [prompts() for _ in range(60)]
    prefixes = [begins(text, round(len(text.split()) / 2)) for text in texts]
    families = {begins(text, 30) for text in texts}
    assert len(families) == 2
    for family in families:
        mine = sorted((prefix for prefix in prefixes if prefix.startswith(family)), key=len)
        assert all(longer.startswith(shorter) for shorter, longer in itertools.pairwise(mine))


@pytest.mark.parametrize(("share", "unique"), [(0.0, 30), (1.0, 4)])
def test_nothing_or_all_may_be_shared(share: float, unique: int) -> None:
    prompts = Prompts(parse_lengths("40"), run="r", shared=share, prefixes=4)
    texts = [prompts() for _ in range(30)]
    assert {len(text.split()) for text in texts} == {40}
    assert len(set(texts)) == unique


def test_a_length_and_a_share_of_its_own() -> None:
    prompts = Prompts(parse_lengths("40"), run="r")
    texts = [prompts(200, shared=0.9) for _ in range(5)]
    assert {len(text.split()) for text in texts} == {200}
    assert len({begins(text, 180) for text in texts}) == 1
