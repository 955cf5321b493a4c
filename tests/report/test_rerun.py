"""rerun: the command on the output, and beside it what has to be seen to before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locust_llm.cli import main
from locust_llm.report.document import document, write_document
from locust_llm.report.files import sha256_of
from locust_llm.report.origin import InputFile, Origin, origin_dict, origin_of
from locust_llm.report.run import ProcessLag
from tests.report.runs import small_run, view_of

COMMAND = ("--locustfile", "a b.py", "--users", "2", "--llm-header", "X-Key: ***", "--llm-json", "run.json")


def written(folder: Path, origin: Origin | None, **more: Any) -> str:
    path = folder / "run.json"
    write_document(path, document(view_of(small_run(), origin=origin, **more)))
    return str(path)


def test_an_origin_comes_back_from_a_document() -> None:
    origin = Origin(COMMAND, ("User",), (InputFile("--locustfile", "a", None),), "KEY", "a note", {"tcp": 0.5})
    assert origin_of(json.loads(json.dumps(origin_dict(origin)))) == origin


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.py").write_text("pass\n")
    file = InputFile("--locustfile", "a b.py", sha256_of("a b.py"))
    path = written(tmp_path, Origin(COMMAND, files=(file,), key="MY_KEY"), options={"llm_seed": 7})
    assert main(["rerun", path]) == 0
    printed = capsys.readouterr()
    assert (
        printed.out == "locust --locustfile 'a b.py' --users 2 --llm-header \"X-Key: ${X_KEY}\" --llm-json run.json\n"
    )
    assert printed.err.splitlines() == [
        "note: set X_KEY: the secret given to --llm-header, which no document holds.",
        "note: set MY_KEY: the API key, which no document holds.",
        "note: it writes the files of --llm-json again: name others to keep those.",
    ]


REMARKS = [
    ("a file that changed", Origin(("--users", "1"), files=(InputFile("--llm-prompt-file", "p.txt", "0" * 64),)),
     {"llm_prompt_file": "p.txt"}, ["p.txt (--llm-prompt-file) has changed since"]),
    ("a file that is gone", Origin(("--users", "1"), files=(InputFile("--llm-dataset", "gone", "0" * 64),)),
     {"llm_dataset": "gone"}, ["gone (--llm-dataset) is not here: go where it is"]),
    ("no seed", Origin(("--users", "1")), {},
     ["it had no --llm-seed, so the prompts will be others of the same lengths"]),
    ("a key in a header", Origin(("--users", "1"), key="--llm-header Authorization"), {"llm_seed": 0}, []),
    ("workers of their own", Origin(("--master",)), {"llm_seed": 0},
     ["it had 2 workers of their own: start as many with `locust --worker`, each with its locustfile"]),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "options", "notes"), [row[1:] for row in REMARKS], ids=[row[0] for row in REMARKS])
def test_what_to_see_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    origin: Origin,
    options: dict[str, Any],
    notes: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.txt").write_text("a prompt")
    lag = tuple(ProcessLag(process, 0) for process in ("master", "w1", "w2"))
    assert main(["rerun", written(tmp_path, origin, options=options, lag=lag)]) == 0
    assert capsys.readouterr().err.splitlines() == [f"note: {note}." for note in notes]


@pytest.mark.parametrize(
    ("origin", "says"),
    [(None, "does not tell its command"), (Origin(), "a program used Locust as a library")],
    ids=["an older document", "no command"],
)
def test_what_cannot_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], origin: Origin | None, says: str
) -> None:
    assert main(["rerun", written(tmp_path, origin)]) == 2
    assert says in capsys.readouterr().err


def test_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rerun", str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file" in capsys.readouterr().err
