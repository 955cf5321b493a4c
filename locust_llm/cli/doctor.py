"""`locust-llm doctor --host URL`: what works between here and an endpoint, and what does not, stage by stage.

The stages are those of `wire.checks`; the preflight of a test goes through some of them, this command through all, with
the options that a test would have. It asks for two answers of a few tokens, and twice for the list of models.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from locust_llm.plugin.asking import call_like, client_config, named_model
from locust_llm.plugin.engine import EmbeddedEngine
from locust_llm.plugin.option import TRUTHS, Option, argparse_type
from locust_llm.plugin.options import OPTIONS
from locust_llm.plugin.settings import Settings
from locust_llm.wire.api import APIS
from locust_llm.wire.checks.examination import HELLO, Examination, small_call
from locust_llm.wire.checks.stage import StageResult, Status, Told, go_through
from locust_llm.wire.checks.stages import STAGES
from locust_llm.wire.checks.tap import Tap
from locust_llm.wire.client import LLMClient, Quirks
from locust_llm.wire.curl import curl_line
from locust_llm.wire.target import SIM, ConfigurationError, environment_value

SCHEMA: Final = "locust_llm.doctor/1"
DEFAULTS: Final[dict[str, int | float]] = {"--llm-max-tokens": 16, "--llm-timeout": 120.0}
"""Where a test's defaults do not suit: every event of the stream is printed, and nobody waits for ten minutes."""

FLAGS: Final = (
    *("--llm-api", "--llm-model", "--llm-api-key-env", "--llm-header", "--llm-extra-body", "--llm-max-tokens"),
    *("--llm-temperature", "--llm-seed", "--llm-ignore-eos", "--llm-proxy", "--llm-ca-cert", "--llm-insecure"),
    *("--llm-connect-timeout", "--llm-stall-timeout", "--llm-timeout", "--llm-sim"),
)

SETTINGS: Final = "settings"


def run(arguments: Sequence[str]) -> int:
    """Examine and print; 0 when nothing failed, else 1."""
    given = _parser().parse_args(arguments)
    with ExitStack() as opened:
        exam: Examination | None = None
        try:
            exam = _examination(given, opened)
        except ConfigurationError as error:
            results = _none_but(StageResult(SETTINGS, Status.FAILED, Told(str(error))))
        else:
            results = go_through(STAGES, exam)
        return _tell_json(results, exam, given) if given.json else _tell(results, exam, given)


def _examination(given: argparse.Namespace, opened: ExitStack) -> Examination:
    """What the options say is to be examined; raises ConfigurationError."""
    settings = Settings.parse(given)
    api = settings.api
    url = given.host or environment_value(APIS[api].access.base_url) or ""
    if url == SIM:
        url = _engine(settings, opened)
    config = client_config(settings, api, url, Quirks())
    client = LLMClient(replace(config, api=Tap(config.api)))
    opened.callback(client.close)
    like = call_like(settings, api, named_model(settings, api))
    exam = Examination(client, like, tokens=settings.max_tokens)
    opened.callback(exam.close)
    return exam


def _engine(settings: Settings, opened: ExitStack) -> str:
    """The URL of an embedded engine, started for this."""
    try:
        engine = EmbeddedEngine(tuple(shlex.split(settings.sim)))
    except ValueError as error:
        raise ConfigurationError(f"--llm-sim cannot be read as options: {error}") from None
    opened.callback(engine.stop)
    return engine.url


def _none_but(failed: StageResult) -> Iterator[StageResult]:
    yield failed
    for stage in STAGES:
        yield StageResult(stage.name, Status.SKIPPED, Told(f"not looked at, since '{failed.name}' failed"))


# -- telling -------------------------------------------------------------------------------------------------------

_WIDTH = max(len(stage.name) for stage in STAGES)
_INDENT = " " * (_WIDTH + 11)


def _tell(results: Iterable[StageResult], exam: Examination | None, given: argparse.Namespace) -> int:
    """Print each stage as it ends."""
    if exam is not None:
        print(f"{exam.report.url} ({exam.client.config.api.name})\n")
    failed: dict[str, str] = {}
    skipped: dict[str, list[str]] = {}
    for result in results:
        if result.status is Status.SKIPPED:
            skipped.setdefault(result.told.sentence, []).append(result.name)
            continue
        sentence = result.told.sentence
        if result.status is Status.FAILED:
            sentence = f"the same as '{failed[sentence]}'" if sentence in failed else sentence
            failed.setdefault(sentence, result.name)
        print(f"{result.status:<8} {result.name:<{_WIDTH}}  {sentence}")
        print("".join(f"{_INDENT}{line}\n" for line in result.told.lines), end="")
        print("".join(f"{_INDENT}warning: {warning}\n" for warning in result.told.warnings), end="", flush=True)
    for sentence, names in skipped.items():
        print(f"{Status.SKIPPED:<8} {', '.join(names)}: {sentence}")
    if exam is not None:
        print(f"\nThe same with curl:\n{_curl(exam, given)}")
    print("\nSomething failed: see above." if failed else "\nNothing failed.")
    return 1 if failed else 0


def _tell_json(results: Iterable[StageResult], exam: Examination | None, given: argparse.Namespace) -> int:
    """Print one JSON object and nothing else."""
    ended = list(results)
    healthy = all(result.status is not Status.FAILED for result in ended)
    content = {
        "schema": SCHEMA,
        "healthy": healthy,
        "url": exam.report.url if exam is not None else None,
        "api": given.llm_api,
        "model": exam.report.model or None if exam is not None else None,
        "stages": [_plain(result) for result in ended],
        "curl": _curl(exam, given) if exam is not None else None,
    }
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    return 0 if healthy else 1


def _plain(result: StageResult) -> dict[str, Any]:
    told = result.told
    return {
        "stage": result.name,
        "status": result.status.value,
        "sentence": told.sentence,
        "warnings": list(told.warnings),
        "facts": told.facts,
    }


def _curl(exam: Examination, given: argparse.Namespace) -> str:
    like = replace(exam.like, model=exam.report.model, max_tokens=exam.tokens, stream=True)
    return curl_line(exam.client, small_call(exam.client, like, HELLO), ca_cert=given.llm_ca_cert)


# -- options -------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="locust-llm doctor",
        description="What works between here and an LLM endpoint, and what does not, stage by stage."
        " Exit code 0: nothing failed, 1: something did.",
        epilog="The other options are those of a test (locust-llm options); their variables are read too.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-H",
        "--host",
        default=os.environ.get("LOCUST_HOST", ""),
        metavar="URL",
        help="base URL, as for locust; 'sim' starts the embedded engine (else LOCUST_HOST, OPENAI_BASE_URL …)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    for option in OPTIONS:
        if option.flag in FLAGS:
            _add(parser, option)
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    """One option of a test, with its variable as the default."""
    variable = os.environ.get(option.variable, "")
    text = option.help.replace("%", "%%")
    if option.kind is bool:
        parser.add_argument(option.flag, action="store_true", default=variable.strip().lower() in TRUTHS, help=text)
        return
    default = DEFAULTS.get(option.flag, option.default)
    parser.add_argument(
        option.flag,
        type=argparse_type(option),
        action="append" if option.many else "store",
        default=(variable or default) if not option.many else ([variable] if variable else None),
        choices=option.choices,
        metavar=option.metavar,
        help=text,
    )
