"""The probes as users run them: entry and prefill of the embedded engine are found; a real engine's fit is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.llama import ALIAS, Llama
from tests.locust_process import run_locust

FILES = Path(__file__).parents[2] / "locustfiles"


def _probe(file: str, folder: Path, seconds: int, *more: str) -> tuple[dict[str, Any], str]:
    """(the phases in the document, what was printed) of a probe run."""
    arguments = f"-f {FILES / file} --headless --users 1 --run-time {seconds}s --stop-timeout 5 --only-summary"
    result = run_locust(
        [*arguments.split(), "--llm-json", "run.json", "--llm-html", "run.html", *more], cwd=folder, timeout_s=60
    )
    assert result.exit_code == 0, result.output
    content = json.loads((folder / "run.json").read_text())
    assert "<svg" in (folder / "run.html").read_text()
    phases: dict[str, Any] = content["probe"]["phases"]
    return phases, result.output


@pytest.mark.long
def test_the_prefill_probe_finds_the_engines_entry_and_speed(tmp_path: Path) -> None:
    """Wall clock, over HTTP: within 5 % of what the engine was told."""
    engine = "--entry-ms 150 --prefill-tps 12000"
    phases, printed = _probe("prefill.py", tmp_path, 8, "--host", "sim", "--llm-sim", engine)
    fit = phases["prefill"]
    assert fit["alone"] is True
    assert fit["entry_ms"]["value"] == pytest.approx(150, rel=0.05)
    assert fit["tokens_per_s"]["value"] == pytest.approx(12_000, rel=0.05)
    assert fit["r2"] > 0.95
    assert "Phases\nentry " in printed.replace("\r", "")


@pytest.mark.long
def test_the_decode_probe_finds_the_engines_step_and_context(tmp_path: Path) -> None:
    engine = "--decode-ms 8 --decode-slope-ms 0 --decode-context-ms 2 --prefill-tps 50000"
    phases, _ = _probe("decode.py", tmp_path, 30, "--host", "sim", "--llm-sim", engine)
    fit = phases["decode"]
    assert fit["step_ms"]["value"] == pytest.approx(8, rel=0.05)
    assert fit["per_context_ms"]["value"] == pytest.approx(2, rel=0.05)


@pytest.mark.long
@pytest.mark.engine
def test_a_real_engine_is_fitted(llama: Llama, tmp_path: Path) -> None:
    """llama.cpp: nobody knows its true numbers, but the fit explains what was seen."""
    short = tmp_path / "short.py"
    source = (FILES / "prefill.py").read_text()
    short.write_text(source.replace("(128, 512, 1024, 2048, 4096)", "(16, 32, 64, 128)"))
    target = ("--host", llama.url, "--llm-model", ALIAS)
    phases, printed = _probe(str(short), tmp_path, 20, *target)
    fit = phases["prefill"]
    assert fit["tokens_per_s"]["value"] > 0
    assert fit["r2"] > 0.5
    assert "R²" in printed
