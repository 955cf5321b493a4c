"""Every example runs as it stands, against the embedded engine; and is short enough to be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.locust_process import start_locust
from tests.side_by_side import side_by_side

PROJECT = Path(__file__).parents[2]
EXAMPLES = {path.stem: path for path in sorted((PROJECT / "locustfiles").glob("*.py"))}
CONFIGS = sorted((PROJECT / "configs").glob("*.conf"))

ROWS = {
    "chat": {"chat"},
    "completions": {"completion"},
    "conversation": {"chat turn 1", "chat turn 2"},
    "embeddings": {"embedding"},
    "messages": {"message"},
    "mixed": {"chat", "document", "embedding"},
    "open_loop": {"chat"},
    "rag": {"rag"},
}
"""The request names that an example must show, where this test knows it."""

ENGINE = "--decode-ms 2 --decode-slope-ms 0 --prefill-tps 1000000 --slots 64 --prefix-cache-tokens 1000000"
MORE = {"open_loop": ["--llm-rate", "20"]}


def test_the_examples_are_all_there() -> None:
    assert set(ROWS) <= set(EXAMPLES)


@side_by_side
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(folder: Path, name: str) -> None:
    args = ["-f", str(EXAMPLES[name]), "--host", "sim", "--llm-sim", ENGINE, "--headless", "--users", "12"]
    args += ["--spawn-rate", "12", "--run-time", "3s", "--stop-timeout", "10", "--llm-max-tokens", "8"]
    args += ["--llm-json", "run.json", *MORE.get(name, [])]
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output
    names = {each["name"]: each["counts"] for each in json.loads((folder / "run.json").read_text())["names"]}
    assert names.keys() >= ROWS.get(name, set()), names
    assert len(names) > 1
    for counts in names.values():
        assert counts["succeeded"] > 0
        assert counts.get("failed", 0) == 0
    if name == "mixed":
        assert int(result.csv_row("stats", Type="GET", Name="/health")["Request Count"]) > 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short(name: str) -> None:
    assert len(EXAMPLES[name].read_text().splitlines()) <= 40


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_names_an_example_and_options_that_are_there(config: Path) -> None:
    from locust_llm.plugin.options import OPTIONS

    ours = {option.flag.removeprefix("--") for option in OPTIONS}
    lines = [line for line in config.read_text().splitlines() if line and not line.startswith("#")]
    given = dict(map(str.strip, line.split("=", 1)) for line in lines)
    assert (PROJECT / given["locustfile"]).exists()
    assert {name for name in given if name.startswith("llm-")} <= ours
