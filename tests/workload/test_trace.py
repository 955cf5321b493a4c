"""Traces: Mooncake's and Azure's files, and prompts that share what the trace says they share."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path

import pytest

from locust_llm.workload.calibration import Calibration, Point
from locust_llm.workload.trace import Entry, Trace, TraceError, prompt_text, read_trace

MOONCAKE = [
    {"timestamp": 27_000, "input_length": 1100, "output_length": 7, "hash_ids": [0, 1, 2]},
    {"timestamp": 30_500, "input_length": 600, "output_length": 3, "hash_ids": [0, 9]},
    {"timestamp": 30_500, "input_length": 40, "output_length": 0, "hash_ids": [5]},
    {"timestamp": 29_000, "input_length": 10, "output_length": 2},
]
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
AZURE_2024 = AZURE.replace("11-16 18:15:46.6805900", "11-16 18:15:46.680590+00:00").replace("\n", "\r\n")


def write(folder: Path, text: str, name: str = "trace") -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def mooncake(folder: Path, speed: float = 1.0) -> Trace:
    return read_trace(write(folder, "\n".join(json.dumps(line) for line in MOONCAKE) + "\n"), speed)


def test_mooncake(tmp_path: Path) -> None:
    """In the order of their times, the first at 0; those of the same time a microsecond apart."""
    trace = mooncake(tmp_path)
    assert list(trace.offsets()) == [0.0, 2.0, 3.5, 3.500001]
    assert [trace.at(offset) for offset in trace.offsets_ns] == [
        Entry(1100, 7, (0, 1, 2)),
        Entry(10, 2),
        Entry(600, 3, (0, 9)),
        Entry(40, 1, (5,)),
    ]
    assert trace.quantiles(0.0, 0.5, 1.0) == [10, 600, 1100]


def test_a_time_that_was_rounded_on_its_way_still_finds_its_request(tmp_path: Path) -> None:
    trace = mooncake(tmp_path)
    for offset_ns in trace.offsets_ns:
        entry = trace.at(offset_ns)
        assert all(trace.at(int(offset_ns / 1e9 * 1e9) + off) == entry for off in (-2, 0, 2))


def test_speed(tmp_path: Path) -> None:
    assert list(mooncake(tmp_path, 2.0).offsets())[:3] == [0.0, 1.0, 1.75]


@pytest.mark.parametrize("text", [AZURE, AZURE_2024, "\ufeff" + AZURE], ids=["2023", "2024", "with a mark"])
def test_azure(tmp_path: Path, text: str) -> None:
    trace = read_trace(write(tmp_path, text, "azure.csv"))
    assert list(trace.offsets()) == pytest.approx([0.0, 4.314579, 4.541877], abs=2e-5)
    assert [trace.at(offset) for offset in trace.offsets_ns] == [Entry(374, 44), Entry(396, 109), Entry(879, 55)]


def test_a_csv_of_seconds(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "timestamp,input_length,output_length\n1.5,10,2\n3,20,4\n"))
    assert list(trace.offsets()) == [0.0, 1.5]


def common_words(one: str, other: str) -> int:
    pairs = zip(one.split(), other.split(), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def test_prompts_share_what_their_hash_ids_say() -> None:
    first = prompt_text(Entry(1500, 1, (0, 1, 2)), "run")
    second = prompt_text(Entry(1100, 1, (0, 1, 7)), "run")
    other = prompt_text(Entry(1500, 1, (4, 1, 2)), "run")
    assert [len(text.split()) for text in (first, second, other)] == [1500, 1100, 1500]
    assert 1024 <= common_words(first, second) < 1030
    assert common_words(first, other) < 6
    assert common_words(first, prompt_text(Entry(1500, 1, (0, 1, 2)), "another run")) < 6
    assert first == prompt_text(Entry(1500, 1, (0, 1, 2)), "run")
    assert len(prompt_text(Entry(700, 1, (0,)), "run").split()) == 700  # a block more than the trace has ids for


def test_calibrated_prompts_have_as_many_words_as_make_the_tokens() -> None:
    two_a_word = Calibration((Point(100, "", 210), Point(1000, "", 2010)))
    text = prompt_text(Entry(1500, 1, (0, 1, 2)), "run", two_a_word)
    assert len(text.split()) == 1 + (1500 - 10) // 2
    assert 256 <= common_words(text, prompt_text(Entry(900, 1, (0, 8)), "run", two_a_word)) - 1 < 262


BROKEN = [
    ("no JSON", '{"timestamp": 1, "input_length": 5, "output_length": 1}\n{"timestamp"', "line 2"),
    ("no length", '{"timestamp": 1, "output_length": 1}\n', "line 1"),
    ("a text for a length", '{"timestamp": 1, "input_length": "5", "output_length": 1}\n', "line 1"),
    ("nothing", "", "neither Mooncake's JSON lines"),
    ("no header", "1,2,3\n4,5,6\n", "neither Mooncake's JSON lines"),
    ("a header alone", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "it holds no request"),
    ("no date", AZURE + "yesterday,5,5\n", "line 5: 'yesterday,5,5' is no request"),
    ("no count", AZURE + "2023-11-16 18:15:52,x,5\n", "line 5"),
    ("too few cells", AZURE + "2023-11-16 18:15:52,5\n", "line 5"),
]


@pytest.mark.parametrize(("text", "says"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_broken_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TraceError, match="--llm-trace ") as refused:
        read_trace(write(tmp_path, text))
    assert says in str(refused.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_trace(str(tmp_path / "none"))
