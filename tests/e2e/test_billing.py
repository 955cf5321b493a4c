"""The billing audit as users run it: an engine that bills 5 % too much is found, an honest one is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import run_locust

CHAT = Path(__file__).parents[2] / "locustfiles" / "chat.py"

# id, share that the engine adds to its usage, whether that is found
ENGINES = [("bills too much", "0.05", True), ("honest", "0", False)]


@pytest.mark.parametrize(("share", "found"), [case[1:] for case in ENGINES], ids=[case[0] for case in ENGINES])
def test_the_audit(share: str, found: bool, tmp_path: Path) -> None:
    arguments = f"-f {CHAT} --headless --users 4 --spawn-rate 4 --run-time 3s --stop-timeout 20 --only-summary"
    engine = f"--overreport {share} --decode-ms 4"
    prices = "--llm-tokenizer words --llm-price-in 3 --llm-price-out 15 --llm-json run.json --llm-html run.html"
    result = run_locust(
        [*arguments.split(), "--llm-max-tokens", "100", "--host", "sim", "--llm-sim", engine, *prices.split()],
        cwd=tmp_path,
    )
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads((tmp_path / "run.json").read_text())
    findings = {finding["key"]: finding["sentence"] for finding in content["findings"]}
    assert ("billing" in findings) is found
    counts = content["names"][-1]["counts"]
    assert counts["audited"] == counts["succeeded"] > 0
    assert counts["audit_usage_tokens"] == (105 if found else 100) * counts["audited"]
    if found:
        assert "Usage names 5 % more output tokens" in findings["billing"]
        assert "billed 105, counted 100" in findings["billing"]
    billed = counts["input_tokens"] * 3 + (counts["output_tokens"] + counts.get("partial_tokens", 0)) * 15
    assert content["cost"]["total"] == pytest.approx(billed / 1e6)
    assert "\ncost " in result.output
    assert "Billing audit" in (tmp_path / "run.html").read_text()


# id, arguments, what is said
REFUSED = [
    ("no such tokenizer", ["--llm-tokenizer", "nowhere.json"], "--llm-tokenizer nowhere.json: no such file"),
    ("a stall that is no time", ["--llm-stall", "250"], "a time is expected, such as 250ms"),
    ("a negative price", ["--llm-price-in", "-1"], "argument --llm-price-in: must be at least 0"),
]


@pytest.mark.parametrize(("more", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_makes_no_sense_is_refused_before_any_load(more: list[str], said: str, tmp_path: Path) -> None:
    result = run_locust(["-f", str(CHAT), "--headless", "--run-time", "3s", "--host", "sim", *more], cwd=tmp_path)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output
