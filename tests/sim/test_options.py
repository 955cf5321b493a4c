"""The command line of the embedded engine: what it makes of options, and one sentence for each mistake."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from locust_llm.sim.answers import AnswerLength
from locust_llm.sim.engine import Engine
from locust_llm.sim.faults import Fault
from locust_llm.sim.options import add_options, parse, settings_of
from locust_llm.sim.profiles import PROFILES
from locust_llm.sim.settings import EngineSettings, ServerSettings

ENGINE = [
    ([], EngineSettings()),
    (["--slots", "4", "--prefill-tps", "inf"], EngineSettings(slots=4, prefill_tps=float("inf"))),
    (["--profile", "slots"], EngineSettings(slots=8, decode_ms=20.0, decode_slope_ms=0.0)),
    (["--profile", "slots", "--slots", "3"], EngineSettings(slots=3, decode_ms=20.0, decode_slope_ms=0.0)),
    (["--decode-slope-ms", "0"], EngineSettings(decode_slope_ms=0.0)),
    (["--eos-rate", "0.01"], EngineSettings(answers=AnswerLength("geometric", 0.01))),
    (["--answer-tokens", "uniform:5:9"], EngineSettings(answers=AnswerLength("uniform", 5, 9))),
    (
        ["--fault", "reset:0.1", "--fault", "stall:0.2:0.5", "--seed", "3"],
        EngineSettings(faults=(Fault("reset", 0.1), Fault("stall", 0.2, 0.5)), seed=3),
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), ENGINE, ids=[" ".join(row[0]) or "none" for row in ENGINE])
def test_engine_options(arguments: list[str], expected: EngineSettings) -> None:
    assert parse(arguments) == (expected, ServerSettings())


def test_server_options() -> None:
    arguments = (
        "--host ::1 --port 8000 --model m --any-model --api-key k --tokens-per-chunk 3 --emit-send-time --spread"
    )
    _, server = parse([*arguments.split(), "--overreport", "0.05", "--end-with-stdin"])
    assert server == ServerSettings("::1", 8000, "m", True, "k", 3, True, True, 0.05, True)


MISTAKES = [
    ("--slots 0", "--slots must be greater than 0, not 0."),
    ("--slots many", "argument --slots: invalid int value: 'many'."),
    ("--prefill-tps -1", "--prefill-tps must be greater than 0, not -1.0."),
    ("--prefill-tps nan", "--prefill-tps must be greater than 0, not nan."),
    ("--decode-ms inf", "--decode-ms must be 0 or more, not inf."),
    ("--decode-ms 0 --decode-slope-ms 0", "--decode-ms and --decode-slope-ms cannot both be 0: "
     "decoding would take no time at all."),
    ("--step-jitter 1", "--step-jitter must be at least 0 and less than 1, not 1.0."),
    ("--step-tokens 8", "--step-tokens (8) must be at least --slots (16), one token a stream."),
    ("--queue-status 500", "--queue-status must be 429 or 503, not 500."),
    ("--fault reset:0.6 --fault error:0.6", "the shares of all --fault options together must not exceed 1."),
    ("--fault bang:0.1", "argument --fault: unknown fault 'bang': use one of reset, error, truncate, stall, slow."),
    ("--fault reset", "argument --fault: 'reset' is not KIND:SHARE[:SECONDS], as in stall:0.05:2."),
    ("--fault reset:2", "argument --fault: the share of a fault lies between 0 and 1, not 2."),
    ("--fault reset:0.1:5", "argument --fault: reset takes no seconds; write reset:SHARE."),
    ("--fault stall:0.1:-5", "argument --fault: the seconds of a fault must be 0 or more, not -5."),
    ("--answer-tokens lots", "argument --answer-tokens: 'lots' holds something that is not a number."),
    ("--answer-tokens 0", "argument --answer-tokens: '0' needs finite numbers, the first greater than 0."),
    ("--answer-tokens zipf:3", "argument --answer-tokens: unknown distribution 'zipf': use a number or one of "
     "constant, uniform, normal, lognormal, geometric."),
    ("--answer-tokens normal:3", "argument --answer-tokens: normal takes 2 numbers, as in normal:100:100."),
    ("--answer-tokens uniform:9:3", "argument --answer-tokens: 'uniform:9:3' has its low end above its high end."),
    ("--answer-tokens geometric:2", "argument --answer-tokens: the rate of a geometric answer length must be "
     "at most 1."),
    ("--eos-rate 0.1 --answer-tokens 9", "--eos-rate and --answer-tokens exclude each other."),
    ("--eos-rate 0", "argument --eos-rate: the rate lies above 0 and is at most 1, not 0."),
    ("--eos-rate x", "argument --eos-rate: the rate lies above 0 and is at most 1, not x."),
    ("--port 70000", "--port must lie between 0 and 65535, not 70000."),
    ("--tokens-per-chunk 0", "--tokens-per-chunk must be at least 1, not 0."),
    ("--overreport -0.1", "--overreport must be 0 or more, not -0.1."),
    ("--profile fast", "argument --profile: unknown profile 'fast': use one of bounded, chat, kv, limited, linear, "
     "prefill, roofline, slots, steady."),
    ("--sluts 3", "unrecognized arguments: --sluts 3."),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_told_in_one_sentence(line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        parse(line.split(), prog="sim")
    assert ending.value.code == 2
    assert capsys.readouterr() == ("", f"sim: {sentence}\n")


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_makes_an_engine(name: str) -> None:
    engine, _ = parse(["--profile", name])
    assert Engine(engine).settings == engine


def test_another_command_line_can_take_the_same_options() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    engine, server = settings_of(parser.parse_args(["--slots", "2", "--model", "m"]))
    assert (engine.slots, server.model) == (2, "m")


def test_an_engine_that_makes_no_sense_is_not_built() -> None:
    with pytest.raises(ValueError, match="--kv-tokens must be greater than 0"):
        Engine(EngineSettings(kv_tokens=0))


def test_help_names_every_option_and_its_default() -> None:
    command = [sys.executable, "-m", "locust_llm.sim", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    for setting in EngineSettings.__dataclass_fields__:
        flag = {"answers": "answer-tokens", "faults": "fault"}.get(setting, setting).replace("_", "-")
        assert f"--{flag} " in text
    assert "(default 8000)" in text
