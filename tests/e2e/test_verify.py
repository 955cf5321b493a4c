"""Real runs: the document says what the records say, on one process and on workers, with failures too."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from locust_llm.cli import main
from tests.locust_process import start_locust
from tests.plugin.endings import running_engine
from tests.side_by_side import side_by_side

CHAT = (Path(__file__).parents[2] / "locustfiles" / "chat.py").read_text()


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes"])
def test_a_run_agrees_and_a_changed_one_does_not(folder: Path, stack: ExitStack, mode: str) -> None:
    (folder / "locustfile.py").write_text(CHAT)
    engine = stack.enter_context(running_engine(folder, "--slots", "4", "--fault", "error:0.3", "--decode-ms", "10"))
    args = ["-f", "locustfile.py", "--headless", "--users", "6", "--spawn-rate", "6", "--run-time", "4s"]
    args += ["--host", engine.url, "--llm-max-tokens", "40", "--llm-json", "run.json", "--llm-records", "run.jsonl"]
    args += ["--llm-slo", "ttft<200ms", "--llm-tokenizer", "words", "--llm-stall", "50ms"]
    args += ["--processes", "2"] if mode == "processes" else []
    with start_locust(args, cwd=folder) as locust:
        result = locust.wait()
    document = folder / "run.json"
    assert document.exists(), result.output
    files = sorted(str(path) for path in folder.glob("run.jsonl*"))
    assert len(files) == (2 if mode == "processes" else 1)
    assert main(["verify", str(document), "--records", *files]) == 0
    content = json.loads(document.read_text())
    assert content["names"][-1]["counts"]["failed"] > 0
    content["names"][-1]["figures"]["output_throughput"] *= 1.1
    document.write_text(json.dumps(content))
    assert main(["verify", str(document), "--records", *files]) == 1
