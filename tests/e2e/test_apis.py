"""Every API end to end: real Locust runs against the embedded engine and the real llama.cpp server."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.engine.llama import ALIAS, Llama
from tests.engine.tiny_text import said
from tests.locust_process import LocustResult, start_locust
from tests.side_by_side import side_by_side

LOCUSTFILE = r"""
import json
from locust import constant, task
from locust_llm import LLMUser

WHAT = ("name", "api", "error", "text", "model_answered", "finish_reason", "output_tokens", "input_tokens", "ttft_ms",
        "tpot_ms", "e2e_ms", "streamed", "token_source")

def note(record):
    with open("seen.jsonl", "a") as lines:
        lines.write(json.dumps({each: getattr(record, each) for each in WHAT}) + "\n")

class Asker(LLMUser):
    abstract = True
    wait_time = constant(0.05)
    fixed_count = 1

    @task
    def streamed(self):
        note(self.client.chat(self.prompt(), name=self.llm_api))

    @task
    def whole(self):
        note(self.client.chat(self.prompt(), name=f"{self.llm_api} whole", stream=False))

for api in APIS:
    globals()[api] = type(api, (Asker,), {"llm_api": api})

class Embedder(LLMUser):
    llm_api = "embeddings"
    wait_time = constant(0.05)
    fixed_count = 1

    @task
    def embed(self):
        note(self.client.embed([self.prompt(), self.prompt()], name="embeddings"))
"""
TOKENS = 16
CHAT_APIS = ("chat", "completions", "messages", "responses", "ollama")
FINISH = {"chat": "length", "completions": "length", "messages": "max_tokens", "ollama": "length"}
SIM_TEXT = " river stone cloud ember grove lemon piano tiger ocean maple solar night frost cabin honey delta"
Seen = dict[str, list[dict[str, Any]]]


def run(folder: Path, apis: tuple[str, ...], *args: str) -> tuple[LocustResult, Seen]:
    """Three seconds of one user for each API, and one that embeds; the records by request name."""
    (folder / "locustfile.py").write_text(f"APIS = {apis!r}\n{LOCUSTFILE}")
    users = str(len(apis) + 1)
    argv = ["-f", "locustfile.py", "--headless", "--users", users, "--spawn-rate", users, "--run-time", "3s"]
    argv += ["--stop-timeout", "10", "--llm-max-tokens", str(TOKENS), "--llm-input-tokens", "4", *args]
    with start_locust(argv, cwd=folder) as locust:
        result = locust.wait()
    seen: Seen = defaultdict(list)
    for line in (folder / "seen.jsonl").read_text().splitlines():
        record = json.loads(line)
        seen[record["name"]].append(record)
    return result, seen


def check(
    result: LocustResult, seen: Seen, apis: tuple[str, ...], text: str, model: str, finish: dict[str, str]
) -> None:
    """Every request of every API succeeded, said the whole text, and has the figures it can have and no others."""
    assert result.exit_code == 0, result.output
    assert set(seen) == {name for api in apis for name in (api, f"{api} whole")} | {"embeddings"}
    for name, records in seen.items():
        api = name.split()[0]
        assert len(records) >= 2, name
        for record in records:
            assert (record["error"], record["api"], record["model_answered"]) == (None, api, model), record
            assert record["e2e_ms"] > 0
            assert record["input_tokens"] >= 1
            if api == "embeddings":
                assert (record["output_tokens"], record["token_source"], record["ttft_ms"]) == (None, None, None)
                continue
            assert (record["text"], record["finish_reason"]) == (text, finish[api]), record
            assert (record["output_tokens"], record["token_source"]) == (TOKENS, "usage")
            assert record["streamed"] is (name == api)
            if name != api:
                assert (record["ttft_ms"], record["tpot_ms"]) == (None, None)
            else:  # read in one piece on a busy machine, a quick answer has no TTFT
                assert record["ttft_ms"] is None or 0 < record["ttft_ms"] <= record["e2e_ms"]
    rows = {(row["Type"], row["Name"].removesuffix(" (SIMULATED)")) for row in result.csv_rows("stats")}
    assert {("E2E", name) for name in seen} <= rows
    assert not {("TTFT", name) for name in seen if name.endswith("whole") or name == "embeddings"} & rows
    assert result.csv_rows("failures") == []


@side_by_side
def test_the_embedded_engine_answers_all(folder: Path) -> None:
    engine = "--decode-ms 4 --decode-slope-ms 0 --prefill-tps inf"
    result, seen = run(folder, CHAT_APIS, "--host", "sim", "--llm-sim", engine, "--llm-json", "run.json")
    check(result, seen, CHAT_APIS, SIM_TEXT, "sim", FINISH | {"responses": "max_output_tokens"})
    assert any(record["ttft_ms"] is not None for api in CHAT_APIS for record in seen[api])
    document = json.loads((folder / "run.json").read_text())
    assert {finding["key"] for finding in document["findings"]} & {"not_streamed", "usage_absent"} == set()
    figures = {entry["name"]: entry["figures"] for entry in document["names"]}
    assert figures["embeddings"]["input_throughput"] > 0
    for path in ("/v1/messages", "/v1/responses", "/v1/embeddings", "/api/chat"):
        assert f"{path}, model sim, answered in" in result.output


@pytest.mark.engine
@side_by_side
def test_llama_cpp_answers_all_that_it_has(folder: Path, stack: ExitStack) -> None:
    """Every token that the server made is one that a record has: those of the run, and of the preflight."""
    server = Llama.start(folder, embeddings=True)
    stack.callback(server.stop)
    apis = CHAT_APIS[:4]
    (folder / "prompt.txt").write_text("Hello")  # raw text that ends in a word of the model's is continued from there
    result, seen = run(folder, apis, "--host", server.url, "--llm-prompt-file", "prompt.txt")
    check(result, seen, apis, said(TOKENS), ALIAS, FINISH | {"responses": "completed"})
    answers = sum(len(records) for name, records in seen.items() if name != "embeddings")
    preflight_tokens = 3 * 4 + 2  # the raw text "Say hello." is continued by " END", and that is the end
    assert server.metrics()["tokens_predicted_total"] == answers * TOKENS + preflight_tokens


@side_by_side
def test_the_examples_run(folder: Path) -> None:
    """All at once, as `-f` takes several files: each class asks what it is for."""
    examples = Path(__file__).parents[2] / "locustfiles"
    files = ",".join(str(examples / f"{name}.py") for name in ("chat", "messages", "completions", "embeddings"))
    argv = ["-f", files, "--headless", "--users", "4", "--spawn-rate", "4", "--run-time", "3s", "--host", "sim"]
    argv += ["--llm-max-tokens", "8", "--stop-timeout", "10"]
    with start_locust(argv, cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    rows = {(row["Type"], row["Name"].removesuffix(" (SIMULATED)")) for row in result.csv_rows("stats")}
    assert {("E2E", name) for name in ("chat", "message", "completion", "embedding")} <= rows
    assert {name for kind, name in rows if kind == "TTFT"} == {"chat", "message", "completion"}
    assert result.csv_rows("failures") == []


CHAT = Path(__file__).parents[2] / "locustfiles" / "chat.py"
KEYED = ["-f", str(CHAT), "--headless", "--users", "2", "--spawn-rate", "2", "--run-time", "2s", "--host", "sim"]
KEYED += ["--llm-api", "messages", "--llm-sim", "--api-key sk-engine", "--llm-max-tokens", "8", "--stop-timeout", "10"]


@side_by_side
def test_by_option_with_a_key_that_workers_read_themselves(folder: Path) -> None:
    workers = ["--processes", "1"]
    with start_locust([*KEYED, *workers], cwd=folder, env={"ANTHROPIC_API_KEY": "sk-engine"}) as locust:
        result = locust.wait()
    assert result.exit_code == 0, result.output
    assert "/v1/messages, model sim, answered in" in result.output
    assert int(result.csv_row("stats", Type="E2E", Name="chat (SIMULATED)")["Request Count"]) > 0
    assert "sk-engine" not in result.stdout.replace("--api-key sk-engine", "")


@side_by_side
def test_d64_a_key_and_a_token_at_once_stop_the_run_before_it_begins(folder: Path) -> None:
    both = {"ANTHROPIC_API_KEY": "sk-engine", "ANTHROPIC_AUTH_TOKEN": "tok-engine"}
    with start_locust(KEYED, cwd=folder, env=both) as locust:
        result = locust.wait()
    assert result.exit_code == 1
    assert "ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY are both set" in result.output
    assert "Traceback" not in result.output
    assert "tok-engine" not in result.output
