"""Lengths: constants, distributions and histograms; what makes none is said in a sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from locust_llm.workload.lengths import parse_lengths


def draws(text: str, count: int = 20_000) -> np.ndarray:
    lengths, draw = parse_lengths(text), random.Random(1)
    return np.array([lengths.draw(draw) for _ in range(count)])


def test_a_number_is_the_one_length() -> None:
    assert parse_lengths(" 512 ").constant == 512
    assert set(draws("512", 10)) == {512}
    assert parse_lengths("uniform:5-5").constant is None


def test_uniform_has_both_ends() -> None:
    found = draws("uniform:100-104")
    assert sorted(set(found)) == [100, 101, 102, 103, 104]
    assert np.unique(found, return_counts=True)[1] == pytest.approx([4000] * 5, rel=0.1)


def test_normal() -> None:
    found = draws("normal:512,128")
    assert (found.mean(), found.std()) == pytest.approx((512, 128), rel=0.03)
    assert draws("normal:5,50").min() == 1


def test_lognormal_has_the_median_and_sigma() -> None:
    found = draws("lognormal:512,0.5")
    assert np.median(found) == pytest.approx(512, rel=0.03)
    assert np.log(found).std() == pytest.approx(0.5, rel=0.03)
    assert draws("lognormal:1000,400", 100).max() <= 10_000_000


@pytest.mark.parametrize(
    "content", [{"10": 1, "20": 3}, [[10, 1], [20, 3]], [10, 20, 20, 20], [[20, 1.5], [10, 0.5]]], ids=str
)
def test_a_histogram_file(tmp_path: Path, content: object) -> None:
    path = tmp_path / "lengths.json"
    path.write_text(json.dumps(content))
    found = draws(f"file:{path}")
    assert set(found) == {10, 20}
    assert np.mean(found == 20) == pytest.approx(0.75, abs=0.02)


def test_a_seed_repeats_the_draws() -> None:
    assert list(draws("normal:512,128", 50)) == list(draws("normal:512,128", 50))


def test_quantiles() -> None:
    low, middle, high = parse_lengths("uniform:1-1000").quantiles(0.05, 0.5, 0.95)
    assert (low, middle, high) == pytest.approx((50, 500, 950), abs=40)


WRONG = [
    ("many", "takes a whole number of tokens or a distribution (512, uniform:100-900"),
    ("12.5", "takes a whole number of tokens"),
    ("0", "must be at least 1, not 0"),
    ("99999999999", "must be at most 10,000,000"),
    ("gauss:5,1", "'gauss:5,1' is no length: write 512, uniform:100-900"),
    ("uniform:900-100", "is no range of lengths: write uniform:LOW-HIGH"),
    ("uniform:5", "is no range of lengths"),
    ("uniform:a-b", "takes a whole number of tokens"),
    ("normal:512", "write normal:MEAN,SD, such as normal:512,128"),
    ("normal:512,nan", "write normal:MEAN,SD"),
    ("lognormal:0,1", "write lognormal:MEDIAN,SIGMA, such as lognormal:512,0.5"),
    ("file:none.json", "none.json: No such file"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_what_makes_no_length_is_said(text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is looked at
        parse_lengths(text)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("{}", "holds no lengths"),
        ("7", "holds no lengths"),
        ("[0]", "entry 1: [0, 1] is no length of 1 or more"),
        ('{"10": 1, "x": 2}', "entry 2: ['x', 2] is no length"),
        ('{"10": -1}', "entry 1"),
        ('{"10": 0}', "holds no lengths"),
        ("[[1.5, 2]]", "entry 1"),
        ("[true]", "entry 1"),
    ],
)
def test_a_broken_histogram_is_said(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "lengths.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"lengths\.json") as refused:
        parse_lengths(f"file:{path}")
    assert says in str(refused.value)
