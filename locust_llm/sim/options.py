"""The options of the embedded engine's command line; `locust-llm sim` takes the same ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

from locust_llm.sim.answers import AnswerLength, parse_answer_length
from locust_llm.sim.faults import parse_fault
from locust_llm.sim.profiles import PROFILES
from locust_llm.sim.settings import EngineSettings, ServerSettings

_T = TypeVar("_T")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage text, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message.rstrip('.')}.\n")
        raise SystemExit(2)


def _spelled(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Lets argparse show a parser's own sentence instead of "invalid value"."""

    def convert(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _profile(name: str) -> dict[str, Any]:
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}: use one of {', '.join(sorted(PROFILES))}")
    return PROFILES[name]


def _eos_rate(text: str) -> AnswerLength:
    try:
        return parse_answer_length(f"geometric:{float(text)}")
    except ValueError:
        raise ValueError(f"the rate lies above 0 and is at most 1, not {text}") from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds every option to a parser. Engine options default to None, so that a profile's values stand behind them."""
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    server.add_argument("--port", type=int, default=0, help="port; 0 takes a free one (default 0)")
    server.add_argument("--model", default="sim", help="the model's name (default sim)")
    server.add_argument("--any-model", action="store_true", help="answer to every model's name")
    server.add_argument("--api-key", metavar="KEY", help="ask for this key on /v1/, as a Bearer token or x-api-key")
    server.add_argument("--tokens-per-chunk", type=int, default=1, metavar="N", help="tokens in one event (default 1)")
    server.add_argument(
        "--emit-send-time",
        action="store_true",
        help="each token's text is the CLOCK_MONOTONIC ns it is sent at; ids end in the ns the request came at (hex)",
    )
    server.add_argument(
        "--spread", action="store_true", help="send the tokens of a step apart, within --decode-ms, not in one burst"
    )
    server.add_argument("--overreport", type=float, default=0.0, metavar="SHARE", help="add this share to usage")
    server.add_argument("--end-with-stdin", action="store_true", help="end when standard input ends")
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--profile",
        type=_spelled(_profile),
        metavar="NAME",
        help=f"start from a named engine, which other options change: {', '.join(sorted(PROFILES))}",
    )
    _add_engine_options(engine)


def _add_engine_options(group: argparse._ArgumentGroup) -> None:
    def add(flag: str, kind: Callable[[str], Any], metavar: str, text: str) -> None:
        group.add_argument(flag, type=kind, metavar=metavar, help=text)

    add("--slots", int, "N", "requests that run at once (default 16)")
    add("--prefill-tps", float, "RATE", "prompt tokens prefilled a second (default 8000)")
    add("--decode-ms", float, "MS", "time of a decode step (default 15)")
    add("--decode-slope-ms", float, "MS", "more time per decoding stream (default 0.1)")
    group.add_argument(
        "--decode-law",
        choices=("linear", "roofline"),
        help="linear: base + slope * streams (default); roofline: the larger of base and slope * streams",
    )
    add("--decode-context-ms", float, "MS", "more time per 1,000 tokens of context (default 0)")
    add("--step-jitter", float, "SHARE", "each step takes its time ± up to this share (default 0)")
    add("--entry-ms", float, "MS", "fixed delay before a request joins the queue (default 0)")
    add("--step-tokens", int, "N", "token budget of a step, which cuts prompts into chunks (default 2048)")
    add("--context-tokens", int, "N", "refuse prompt + max_tokens beyond this with 400")
    add("--kv-tokens", int, "N", "KV capacity; beyond it the youngest request is preempted")
    add("--prefix-cache-tokens", int, "N", "keep a prefix cache of this size")
    add("--max-queue", int, "N", "refuse requests when this many wait")
    add("--queue-status", int, "STATUS", "status of such a refusal, 429 or 503 (default 503)")
    add("--rate-limit-rps", float, "RATE", "refuse requests beyond this rate with 429 and Retry-After")
    add("--rate-limit-burst", int, "N", "requests the rate limit lets through at once (default 1)")
    add("--default-max-tokens", int, "N", "answer limit of a request that names none (default 256)")
    add("--answer-tokens", _spelled(parse_answer_length), "LENGTH", "natural answer length: N, uniform:LOW:HIGH, "
        "normal:MEAN:SD, lognormal:MEDIAN:SIGMA or geometric:RATE (default: up to max_tokens)")  # fmt: skip
    add("--eos-rate", _spelled(_eos_rate), "RATE", "short for --answer-tokens geometric:RATE")
    group.add_argument(
        "--fault",
        type=_spelled(parse_fault),
        action="append",
        metavar="KIND:SHARE[:SECONDS]",
        help="a share of requests meets reset, error, truncate, stall or slow (repeatable)",
    )
    add("--seed", int, "N", "seed of everything drawn (default 0)")


def settings_of(options: argparse.Namespace) -> tuple[EngineSettings, ServerSettings]:
    """Makes settings of parsed options; raises ValueError with one sentence when they make no sense."""
    values: dict[str, Any] = dict(options.profile) if options.profile is not None else {}
    for field in fields(EngineSettings):
        value = getattr(options, field.name, None)
        if value is not None:
            values[field.name] = value
    if options.eos_rate is not None and options.answer_tokens is not None:
        raise ValueError("--eos-rate and --answer-tokens exclude each other.")
    answers = options.eos_rate if options.eos_rate is not None else options.answer_tokens
    if answers is not None:
        values["answers"] = answers
    if options.fault is not None:
        values["faults"] = tuple(options.fault)
    engine = EngineSettings(**values)
    server = ServerSettings(**{field.name: getattr(options, field.name) for field in fields(ServerSettings)})
    problem = engine.problem() or server.problem()
    if problem is not None:
        raise ValueError(problem)
    return engine, server


def parse(arguments: Sequence[str], prog: str = "locust-llm sim") -> tuple[EngineSettings, ServerSettings]:
    """Settings of a command line; on a mistake prints one sentence and exits with 2."""
    parser = _Parser(
        prog=prog, description="The embedded engine: a simulated inference server that speaks the usual APIs."
    )
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        return settings_of(options)
    except ValueError as error:
        parser.error(str(error))
