"""Comparison end to end: real Locust against the embedded engine, sides in turns, the command on their documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from locust_llm.cli import main
from tests.locust_process import start_locust

CHAT = Path(__file__).parents[2] / "locustfiles" / "chat.py"


def run(folder: Path, name: str, decode_ms: int) -> str:
    """One run of some seconds; its document."""
    load = "--headless --host sim --users 4 --spawn-rate 20 --run-time 5s --stop-timeout 5 --only-summary".split()
    engine = f"--decode-ms {decode_ms} --step-jitter 0.1"
    args = ["-f", str(CHAT), *load, "--llm-max-tokens", "16", "--llm-min-tokens", "1", "--llm-input-tokens", "50"]
    with start_locust([*args, "--llm-sim", engine, "--llm-json", f"{name}.json"], cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    return str(folder / f"{name}.json")


@pytest.mark.long
def test_a_slower_engine_is_worse_and_one_variable_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half as slow again. Where this machine's own load spoils a run, that is what has to be said."""
    made = [run(tmp_path, f"{side}{turn}", ms) for turn in range(3) for side, ms in (("base", 20), ("slow", 30))]
    judged = ["--metric", "tpot:p50", "--metric", "errors", "--fail-on", "worse", "--fail-on", "cannot-say"]
    code = main(["compare", *made[::2], "--", *made[1::2], *judged, "--json", "-"])
    told = json.loads(capsys.readouterr().out)
    assert told["interleaved"]
    assert told["simulated"]
    assert told["changes"]["sentence"] == "one variable changed: engine --decode-ms"
    figures = {figure["figure"]: figure for figure in told["figures"]}
    assert 0.3 < figures["tpot:p50"]["change"] < 0.7
    assert figures["errors"]["verdict"] != "worse"
    if told["unproven"] is None:
        assert (code, told["verdict"], figures["tpot:p50"]["verdict"]) == (1, "worse", "worse")
    else:
        assert (code, told["verdict"]) == (3, "cannot say")
        assert "the bottleneck" in told["unproven"]


@pytest.mark.long
def test_the_same_engine_twice_is_not_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, other = (run(tmp_path, name, 20) for name in ("base", "other"))
    assert main(["compare", base, other, "--fail-on", "worse", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["changes"]["sentence"] == "nothing changed in the configuration"
    assert told["unproven"].startswith("run-to-run noise unknown") or "the bottleneck" in told["unproven"]
