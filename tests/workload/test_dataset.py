"""Data sets: every format read by places, and a broken record named with its line before anything is sent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from locust_llm.workload.dataset import Dataset, DatasetError

HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hällo"}]
TALK = [
    {"from": "system", "value": "Rhyme."},
    {"from": "human", "value": "One\ntwo"},
    {"from": "gpt", "value": "Three"},
    {"from": "human", "value": "Four"},
]
SILENT = {"id": "x", "conversations": [{"from": "gpt", "value": "Me first"}]}


def write(folder: Path, text: str, name: str = "data.jsonl") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_json_lines(tmp_path: Path) -> None:
    text = lines({"prompt": "Say “hi”", "output_tokens": 7}, "just a text") + "\n   \n"
    text += lines({"messages": HELLO, "max_tokens": 5}, {"text": "t"}).rstrip()
    data = Dataset(write(tmp_path, text))
    assert (data.format, len(data), data.left_out, data.exact) == ("jsonl", 4, 0, True)
    first, second, third, fourth = (data[number].prompt for number in range(4))
    assert (first, first.output_tokens, first.exact) == ("Say “hi”", 7, True)
    assert first.messages == [{"role": "user", "content": "Say “hi”"}]
    assert (second, second.output_tokens, second.exact) == ("just a text", None, False)
    assert (third, third.messages, third.output_tokens, third.exact) == ("Be brief.\n\nHällo", HELLO, 5, False)
    assert fourth == "t"
    assert (data[2].opening, data[2].turns) == ((HELLO[0],), ("Hällo",))
    assert data.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", ["array", "lines"])
def test_sharegpt(tmp_path: Path, form: str, indent: int | None) -> None:
    records = [{"id": "a,[]{}", "conversations": TALK}, SILENT, {"id": "b", "conversations": []}]
    records += [{"conversations": [{"from": "human", "value": "日本"}]}]
    text = json.dumps(records, indent=indent, ensure_ascii=False) if form == "array" else lines(*records)
    data = Dataset(write(tmp_path, f" {text}" if form == "array" else text, "sg.json"))
    assert data.format == ("sharegpt" if form == "array" else "jsonl")
    assert (len(data), data.left_out) == (2, 2)
    talk = data[0]
    assert talk.prompt == "Rhyme.\n\nOne\ntwo"
    assert talk.prompt.messages == [
        {"role": "system", "content": "Rhyme."},
        {"role": "user", "content": "One\ntwo"},
    ]
    assert talk.turns == ("One\ntwo", "Four")
    assert data[1].prompt == "日本"


def test_a_text_has_a_prompt_a_line(tmp_path: Path) -> None:
    data = Dataset(write(tmp_path, "Wie geht es?\r\n\n{curly} \nlast", "prompts.txt"))
    assert (data.format, len(data)) == ("text", 3)
    assert [data[number].prompt for number in range(3)] == ["Wie geht es?", "{curly}", "last"]


def test_a_format_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, '{"prompt": "a"}\n')
    assert Dataset(path, "text")[0].prompt == '{"prompt": "a"}'
    assert Dataset(path, "jsonl")[0].prompt == "a"


GOOD = lines({"prompt": "a"})
BROKEN = [
    ("half a line", GOOD + '{"prompt": "b"', "data.jsonl, line 2: it is not JSON"),
    ("a number", GOOD + "\n7\n", "line 3: it is neither an object nor a text"),
    ("no prompt", lines({"question": "a"}), "line 1: it has no prompt, messages or conversations"),
    ("an empty prompt", lines({"prompt": " "}), "line 1: it has no prompt"),
    ("no messages", lines({"messages": []}), "line 1: it has messages that are no list of objects"),
    ("no role", lines({"messages": [{"content": "a"}]}), "line 1: it has a message without a role"),
    ("no user", lines({"messages": [HELLO[0]]}), "line 1: it has messages, but none of a user"),
    ("a bad length", GOOD + lines({"prompt": "a", "output_tokens": 0}), "line 2: it has output_tokens 0, which is no"),
    ("a bad limit", lines({"prompt": "a", "max_tokens": "9"}), "line 1: it has max_tokens '9', which is no whole"),
    ("bad conversations", lines({"conversations": ["a"]}), "line 1: it has conversations that are no list"),
    ("nothing", "\n", "data.jsonl: it holds no request"),
    ("a broken array", '[\n{"prompt": "a"},\n{"prompt": nope}]', "line 3: it is no JSON array of records"),
    ("a broken element", '[\n{"prompt": "a"},\n\n{"x": 1}]', "line 4: it has no prompt"),
    ("an array's end missing", '[{"prompt": "a"}', "it is no JSON array of records"),
]


@pytest.mark.parametrize(("text", "says"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_broken_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DatasetError) as refused:
        Dataset(write(tmp_path, text))
    assert says in str(refused.value)


def test_bytes_that_are_no_text_and_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(DatasetError, match=r"a\.txt, line 2: it is not UTF-8 text"):
        Dataset(str(path))
    with pytest.raises(DatasetError, match=r"none\.jsonl: No such file"):
        Dataset(str(tmp_path / "none.jsonl"))


def test_a_big_file_stays_on_disk_and_lets_others_run(tmp_path: Path) -> None:
    """12 MB: 16 bytes of memory a record, and a breath every 4 MB."""
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(12_000):
            file.write(json.dumps({"prompt": f"{number} " + "word " * 200}) + "\n")
    breaths: list[int] = []
    data = Dataset(str(path), breathe=lambda: breaths.append(1))
    assert len(data) == 12_000
    assert len(breaths) >= 2
    assert [data[number].prompt.split()[0] for number in (0, 11_999, 77)] == ["0", "11999", "77"]
    assert len(data._places) * data._places.itemsize + len(data._lengths) * data._lengths.itemsize == 16 * 12_000
