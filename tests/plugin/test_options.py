"""Our options: how they are registered, read from flags, variables and the web form, and what they refuse."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from typing import Any

import pytest
from locust import argument_parser

from locust_llm.plugin import options
from locust_llm.plugin.options import OPTIONS
from locust_llm.plugin.settings import Settings
from locust_llm.wire.target import ConfigurationError


def locust_parser() -> Any:
    """Locust's parser as it is before any plugin comes."""
    parser = argument_parser.get_empty_argument_parser()
    argument_parser.setup_parser_arguments(parser)
    return parser


def parse(*args: str) -> Namespace:
    parser = locust_parser()
    options.add_to(parser)
    return parser.parse_args(list(args))


def test_they_are_registered_once() -> None:
    """The parser listener fires on every page load."""
    parser = locust_parser()
    before = len(parser._actions)
    options.add_to(parser)
    options.add_to(parser)
    assert len(parser._actions) - before == len(OPTIONS)


def test_the_web_form_has_at_most_eight() -> None:
    parser = locust_parser()
    options.add_to(parser)
    shown = [
        action.dest
        for action in parser._actions
        if action.dest.startswith("llm_") and action.dest in parser.args_included_in_web_ui
    ]
    assert shown == [option.dest for option in OPTIONS if option.in_form]
    assert 0 < len(shown) <= 8
    assert not set(shown) & set(parser.secret_args_included_in_web_ui)


def test_each_has_a_setting_and_each_setting_an_option() -> None:
    assert {field.name for field in fields(Settings)} == {option.dest.removeprefix("llm_") for option in OPTIONS}


def test_values_are_plain() -> None:
    """Anything else does not reach the workers."""
    parsed = parse("--llm-header", "A: b", "--llm-header", "C: d", "--llm-max-tokens", "7", "--llm-ignore-eos")
    for option in OPTIONS:
        value = getattr(parsed, option.dest)
        assert value is None or type(value) in (str, int, float, bool, list), option.flag
    assert parsed.llm_header == ["A: b", "C: d"]


def test_no_option_is_for_a_key() -> None:
    assert not [option.flag for option in OPTIONS if "key" in option.flag and option.flag != "--llm-api-key-env"]


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCUST_LLM_MODEL", "from the variable")
    monkeypatch.setenv("LOCUST_LLM_IGNORE_EOS", "true")
    monkeypatch.setenv("LOCUST_LLM_MAX_TOKENS", "9")
    settings = Settings.parse(parse("--llm-max-tokens", "8"))
    assert (settings.model, settings.ignore_eos, settings.max_tokens) == ("from the variable", True, 8)


def test_defaults_are_those_of_a_program_without_options() -> None:
    assert Settings.parse(None) == Settings.parse(parse())


FORM = [
    ("llm_max_tokens", "12", 12),
    ("llm_max_tokens", 12, 12),
    ("llm_max_tokens", "", 256),
    ("llm_seed", "5", 5),
    ("llm_seed", "", None),
    ("llm_ignore_eos", "true", True),
    ("llm_ignore_eos", "false", False),
    ("llm_ignore_eos", True, True),
    ("llm_temperature", "0.7", 0.7),
    ("llm_model", "", ""),
    ("llm_header", None, ()),
]


@pytest.mark.parametrize(("dest", "raw", "value"), FORM)
def test_values_of_the_web_form_are_read_again(dest: str, raw: Any, value: Any) -> None:
    parsed = parse()
    setattr(parsed, dest, raw)
    assert getattr(Settings.parse(parsed), dest.removeprefix("llm_")) == value


REFUSED = [
    ("llm_max_tokens", "many", "--llm-max-tokens takes a whole number, not 'many'"),
    ("llm_max_tokens", 0, "--llm-max-tokens must be at least 1, not 0"),
    ("llm_temperature", "nan", "--llm-temperature takes a finite number"),
    ("llm_timeout", "inf", "--llm-timeout takes a finite number"),
    ("llm_warmup", -1, "--llm-warmup must be at least 0, not -1"),
    ("llm_extra_body", ["{no"], "--llm-extra-body is not JSON"),
    ("llm_extra_body", ["[1]"], "--llm-extra-body takes a JSON object"),
]


@pytest.mark.parametrize(("dest", "raw", "sentence"), REFUSED)
def test_what_is_refused(dest: str, raw: Any, sentence: str) -> None:
    parsed = parse()
    setattr(parsed, dest, raw)
    with pytest.raises(ConfigurationError) as refused:
        Settings.parse(parsed)
    assert str(refused.value).startswith(sentence)


def test_the_command_line_refuses_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--llm-max-tokens", "0")
    assert ended.value.code == 2
    assert "argument --llm-max-tokens: must be at least 1" in capsys.readouterr().err


def test_extra_bodies_are_merged() -> None:
    settings = Settings.parse(parse("--llm-extra-body", '{"a": 1, "b": 2}', "--llm-extra-body", '{"b": {"c": 3}}'))
    assert settings.extra_body == {"a": 1, "b": {"c": 3}}


def test_the_description_has_them_all() -> None:
    text = options.describe()
    for option in OPTIONS:
        assert f"  {option.flag}" in text
        assert option.variable in text
    assert "OPENAI_API_KEY" in text
