"""Calibration: the wanted number of the server's tokens within six requests, whatever its tokenizer does."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from locust_llm.workload.calibration import Calibration, CalibrationError, calibrate
from locust_llm.workload.lengths import parse_lengths
from locust_llm.workload.prompts import Prompts

Tokenizer = Callable[[str], int]
AROUND = 23  # what a chat template adds


def by_word(text: str) -> int:
    return AROUND + len(text.split())


def by_byte(text: str) -> int:
    return AROUND + len(text)


def uneven(text: str) -> int:
    """Words of one to four tokens, as by a tokenizer of another language; the first word has one more."""
    return AROUND + 1 + sum(1 + zlib.crc32(word.encode()) % 4 for word in text.split())


def pieces(text: str) -> int:
    """Two characters a token."""
    return AROUND + sum(-(-len(word) // 2) for word in text.split())


TOKENIZERS = [by_word, by_byte, uneven, pieces]


def calibrated(tokenizer: Tokenizer, *targets: int) -> tuple[Calibration, int]:
    prompts, sent = Prompts(parse_lengths("1"), run="before"), []

    def measure(words: int, pad: str) -> int:
        sent.append(words)
        return tokenizer(prompts.measured(words, pad))

    return calibrate(measure, targets), len(sent)


@pytest.mark.parametrize("shared", [0.0, 0.5])
@pytest.mark.parametrize("target", [128, 512, 2048])
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_length_is_hit_by_every_prompt(tokenizer: Tokenizer, target: int, shared: float) -> None:
    found, sent = calibrated(tokenizer, target)
    assert sent <= 6
    prompts = Prompts(parse_lengths(str(target)), run="r", worker=3, shared=shared, prefixes=4)
    counts = {tokenizer(prompts(calibration=found)) for _ in range(50)}
    assert all(abs(count - target) <= 0.01 * target for count in counts), counts


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_distribution_keeps_its_lengths(tokenizer: Tokenizer) -> None:
    lengths = parse_lengths("uniform:200-2000")
    found, sent = calibrated(tokenizer, *lengths.quantiles(0.95, 0.05, 0.5))
    assert sent <= 6
    prompts = Prompts(lengths, run="r")
    for wanted in (200, 333, 512, 1000, 1999):
        got = tokenizer(prompts(wanted, calibration=found))
        assert got == pytest.approx(wanted, rel=0.03), (wanted, got)


def test_what_travels_to_workers_is_the_same() -> None:
    found, _ = calibrated(by_byte, 512)
    assert Calibration.from_list(found.to_list()) == found


def test_a_server_that_counts_nothing_is_said() -> None:
    with pytest.raises(CalibrationError, match="its usage does not tell the length"):
        calibrated(lambda text: 7, 128)


def test_less_than_what_stands_around_the_text_is_said() -> None:
    with pytest.raises(CalibrationError, match=r"prompts of 20 tokens cannot be had: .* is 24 tokens"):
        calibrated(by_word, 20)
