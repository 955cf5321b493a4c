"""The command that repeats a run sets the same options, whatever way they came, and holds no secret."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from locust.argument_parser import get_parser

from locust_llm.plugin.options import add_to
from locust_llm.plugin.origin import command_words
from locust_llm.report.origin import Origin
from locust_llm.report.rerun import command_line

LINES = [
    ("nothing", []),
    ("the usual", ["-f", "a.py", "--headless", "-u", "10", "-r", "2.5", "-t", "1m30s", "--host", "http://h/v1"]),
    ("several files", ["-f", "a.py,b c.py"]),
    ("user classes after lists", ["-f", "a.py", "--tags", "x", "y", "-E", "z", "--headless", "--", "One", "Two"]),
    ("processes", ["--processes", "4", "--stop-timeout", "30"]),
    ("a master", ["--master", "--expect-workers", "3", "--master-bind-port", "6000"]),
    ("ours", ["--llm-model", "m", "--llm-seed", "7", "--llm-ignore-eos", "--llm-temperature", "-1"]),
    ("repeated ones", ["--llm-gate", "ttft:p95<500ms", "--llm-gate", "errors<1%", "--llm-slo", "tpot<50ms"]),
    ("quotes", ["--llm-note", """it's "odd" $HOME `ls` \\ ! ünïcode""", "--llm-extra-body", '{"a": "b\'c"}']),
    ("a value that looks like a flag", ["--llm-note=--not-a-flag"]),
    ("an empty line in a value", ["--llm-note", "a\n\nb"]),
    ("an open loop", ["--llm-rate", "5", "--llm-arrivals", "gamma", "--llm-burstiness", "0.5"]),
]


@pytest.fixture
def parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Locust's, with our options, in a folder without configuration files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = get_parser(default_config_files=[])
    add_to(made)
    return made


@pytest.mark.parametrize("given", [row[1] for row in LINES], ids=[row[0] for row in LINES])
def test_parsed_again_it_sets_the_same(parser: Any, given: list[str]) -> None:
    options = vars(parser.parse_args(given))
    line = command_line(Origin(command_words(parser, options)))
    program, *words = shlex.split(line)
    assert program == "locust"
    assert vars(parser.parse_args(words)) == options


def test_options_from_variables_and_files_are_in_it(
    parser: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOCUST_LLM_MODEL", "from-a-variable")
    (tmp_path / "run.conf").write_text("users = 12\nllm-max-tokens = 99\n")
    options = vars(parser.parse_args(["--config", "run.conf"]))
    words = command_words(parser, options)
    assert shlex.join(words) == "--users 12 --llm-model from-a-variable --llm-max-tokens 99"


def test_what_locust_makes_of_processes_is_left_out(parser: Any) -> None:
    options = vars(parser.parse_args(["--processes", "2"])) | {"master": True, "expect_workers": 2}
    assert command_words(parser, options) == ("--processes", "2")


SECRETS = [
    ("a header", ["--llm-header", "Authorization: Bearer sk-SECRET"], '--llm-header "Authorization: ${AUTHORIZATION}"'),
    ("a second one", ["--llm-header", "X-Api-Token: SECRET"], '--llm-header "X-Api-Token: ${X_API_TOKEN}"'),
    ("a proxy's password", ["--llm-proxy", "http://u:SECRET@p:1"], '--llm-proxy "http://${LLM_PROXY}@p:1"'),
    ("a field of the body", ["--llm-extra-body", '{"api_key": "SECRET"}'],
     r'--llm-extra-body "{\"api_key\": \"${LLM_EXTRA_BODY}\"}"'),
    ("a host's query", ["--host", "https://h/d?sig=SECRET"], '--host "https://h/d?sig=${HOST}"'),
    ("an option of the locustfile", ["--db-password", "SECRET"], '--db-password "${DB_PASSWORD}"'),
    ("one that says so", ["--my-thing", "SECRET"], '--my-thing "${MY_THING}"'),
]  # fmt: skip


@pytest.mark.parametrize(("given", "shown"), [row[1:] for row in SECRETS], ids=[row[0] for row in SECRETS])
def test_no_secret_is_in_it(parser: Any, given: list[str], shown: str) -> None:
    parser.add_argument("--db-password")
    parser.add_argument("--my-thing", is_secret=True)
    words = command_words(parser, vars(parser.parse_args(given)))
    assert "SECRET" not in " ".join(words)
    assert command_line(Origin(words)) == f"locust {shown}"
