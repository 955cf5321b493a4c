"""Prompts: the length asked for, and a beginning that no prefix cache has seen (D13)."""

from __future__ import annotations

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
