"""Workloads end to end: what is really sent, and what the server says it was."""

from __future__ import annotations

import itertools
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from locust_llm.measure.record import RequestRecord
from locust_llm.report.records import read_records
from tests.engine.llama import Llama
from tests.locust_process import LocustResult, start_locust
from tests.plugin.endings import running_engine
from tests.replay import DONE, ROLE, STOP, C, Exchange, Replay, Script, U, answer, stream
from tests.side_by_side import side_by_side

EXAMPLES = Path(__file__).parents[2] / "locustfiles"
GOOD = stream((0, ROLE + C("Hi")), (20, C("!") + STOP + U(9, 2) + DONE))
FAST = ["--slots", "64", "--prefill-tps", "inf", "--decode-ms", "2", "--decode-slope-ms", "0"]


def run(folder: Path, example: str, url: str, *args: str, workers: int = 0, time_s: int = 3) -> LocustResult:
    given = ["-f", str(EXAMPLES / f"{example}.py"), "--headless", "--host", url, "--users", "2", "--spawn-rate", "20"]
    given += ["--run-time", f"{time_s}s", "--stop-timeout", "10", "--llm-records", "r.jsonl", "--llm-json", "run.json"]
    if workers:
        given += ["--processes", str(workers)]
    with start_locust([*given, *args], cwd=folder) as locust:
        return locust.wait()


def records(folder: Path) -> list[RequestRecord]:
    return [record for path in sorted(folder.glob("r*.jsonl")) for record in read_records(path)]


def posted(server: Replay) -> list[str]:
    asked = [exchange.json["messages"][-1]["content"] for exchange in server.exchanges if exchange.method == "POST"]
    return [text for text in asked if text != "Say hello."]


# -- data sets -----------------------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.parametrize("workers", [0, 2])
def test_no_request_of_a_file_repeats_before_all_were_sent(folder: Path, stack: ExitStack, workers: int) -> None:
    lines = [json.dumps({"prompt": f"Question {number}", "max_tokens": 3}) for number in range(3000)]
    (folder / "data.jsonl").write_text("\n".join(lines))
    server = stack.enter_context(Replay(GOOD))
    result = run(folder, "chat", server.url, "--llm-dataset", "data.jsonl", "--llm-warmup", "3", workers=workers)
    assert result.exit_code == 0, result.output
    said = posted(server)
    assert len(said) == len(set(said)) > 20
    assert {exchange.json["max_tokens"] for exchange in server.exchanges if exchange.method == "POST"} <= {3, 4, 256}
    told = json.loads((folder / "run.json").read_text())["configuration"]["workload"]["dataset"]
    assert (told["requests"], told["format"], len(told["sha256"])) == (3000, "jsonl", 64)


@side_by_side
def test_a_small_file_goes_round(folder: Path, stack: ExitStack) -> None:
    (folder / "data.txt").write_text("".join(f"Question {number}\n" for number in range(7)))
    server = stack.enter_context(Replay(GOOD))
    run(folder, "chat", server.url, "--llm-dataset", "data.txt", "--users", "1")
    said = posted(server)
    assert len(said) > 14
    assert len(set(said[:7])) == len(set(said[7:14])) == 7


@side_by_side
def test_a_broken_line_is_named_before_anything_is_sent(folder: Path, stack: ExitStack) -> None:
    (folder / "data.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    server = stack.enter_context(Replay(GOOD))
    result = run(folder, "chat", server.url, "--llm-dataset", "data.jsonl")
    assert result.exit_code == 1
    assert "--llm-dataset data.jsonl, line 2: it is not JSON" in result.output
    assert "Traceback" not in result.output
    assert server.exchanges == []


# -- lengths -------------------------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.parametrize("tokens", [128, pytest.param(512, marks=pytest.mark.long), 2048])
@pytest.mark.parametrize("engine", ["sim", pytest.param("llama", marks=pytest.mark.engine)])
def test_input_lengths_are_hit_in_the_servers_tokens(folder: Path, stack: ExitStack, engine: str, tokens: int) -> None:
    """Within 1 %, after at most six requests; workers are told what was found."""
    if engine == "llama":
        server = Llama.start(folder, slots=1)
        stack.callback(server.stop)
        url = server.url
    else:
        url = stack.enter_context(running_engine(folder, *FAST)).url
    args = ["--llm-input-tokens", str(tokens), "--llm-calibrate-lengths", "--llm-output-tokens", "4"]
    result = run(folder, "chat", url, *args, workers=1)
    assert result.exit_code == 0, result.output
    found = records(folder)
    assert len(found) >= 2
    assert all(abs((record.input_tokens or 0) - tokens) <= 0.01 * tokens for record in found)
    assert {record.output_tokens for record in found} == {4}
    (line,) = (line for line in result.output.splitlines() if "lengths calibrated by" in line)
    assert int(line.split("lengths calibrated by ")[1].split()[0]) <= 6


@side_by_side
def test_output_lengths_are_what_was_asked_though_the_model_would_end_early(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder, *FAST, "--answer-tokens", "2"))
    run(folder, "chat", engine.url, "--llm-output-tokens", "uniform:10-30", "--llm-seed", "1")
    found = records(folder)
    assert {record.output_tokens == record.max_tokens for record in found} == {True}
    assert len({record.output_tokens for record in found}) > 5
    figures = json.loads((folder / "run.json").read_text())["names"][-1]["figures"]
    assert figures["short"] == 0


@side_by_side
@pytest.mark.parametrize(
    ("refused", "sent", "warns"),
    [
        (["min_tokens"], {"ignore_eos"}, False),
        pytest.param(["ignore_eos"], {"min_tokens"}, False, marks=pytest.mark.long),
        (["min_tokens", "ignore_eos"], set(), True),
    ],
    ids=["min_tokens", "ignore_eos", "both"],
)
def test_a_server_that_refuses_the_fields_is_asked_without_them(
    folder: Path, stack: ExitStack, refused: list[str], sent: set[str], warns: bool
) -> None:
    def choose(exchange: Exchange) -> Script:
        bad = exchange.method == "POST" and any(name in exchange.json for name in refused)
        return answer("400 Bad Request", b'{"error":{"message":"Unrecognized request argument"}}') if bad else GOOD

    server = stack.enter_context(Replay(choose=choose))
    result = run(folder, "chat", server.url, "--llm-model", "m", "--llm-output-tokens", "9", time_s=2)
    assert result.exit_code == 0, result.output
    last = server.exchanges[-1].json
    assert last.keys() & {"min_tokens", "ignore_eos"} == sent
    assert last["max_tokens"] == 9
    assert ("takes neither ignore_eos nor min_tokens" in result.output) is warns
    told = json.loads((folder / "run.json").read_text())
    count = told["names"][-1]["counts"]["succeeded"]
    assert told["names"][-1]["figures"]["short"] == count > 0  # it says 2 tokens
    keys = [finding["key"] for finding in told["findings"]]
    assert "ended_early" in keys
    assert "short_answers" not in keys


# -- what a prefix cache sees --------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.long), 2])
def test_shared_prefixes_are_hits(folder: Path, stack: ExitStack, workers: int) -> None:
    """Half of 320 tokens, of two prefixes: 160 cached tokens a request but for the first of each prefix."""
    engine = stack.enter_context(running_engine(folder, *FAST, "--prefix-cache-tokens", "10000000"))
    args = ["--llm-input-tokens", "320", "--llm-shared-prefix", "0.5", "--llm-prefixes", "2", "--llm-max-tokens", "4"]
    result = run(folder, "chat", engine.url, *args, workers=workers)
    assert result.exit_code == 0, result.output
    found = records(folder)
    assert {record.input_tokens for record in found} == {320}
    cached = [record.usage.cached_tokens for record in found]
    assert set(cached) == {0, 160}
    assert cached.count(0) <= 4  # two requests at once may both be the first


@side_by_side
def test_without_shared_prefixes_nothing_is_cached(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder, *FAST, "--prefix-cache-tokens", "10000000"))
    args = ["--llm-input-tokens", "320", "--llm-max-tokens", "4", "--llm-calibrate-lengths", "--llm-warmup", "3"]
    run(folder, "chat", engine.url, *args, "--llm-seed", "1")
    assert {record.usage.cached_tokens for record in records(folder)} == {0}


TRACE = [
    {"timestamp": 100 * number, "input_length": 1024 + 40 + number, "output_length": 3 + number % 5,
     "hash_ids": [number % 3, 10 + number % 6, 100 + number]}
    for number in range(30)
]  # fmt: skip


def implied_hits() -> list[int]:
    """Cached tokens of each request of TRACE: whole blocks of 512 whose chain has been seen."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for line in TRACE:
        chains = [tuple(line["hash_ids"][:count]) for count in (1, 2)]  # type: ignore[index]
        hits.append(512 * sum(1 for _ in itertools.takewhile(seen.__contains__, chains)))
        seen.update(chains)
    return hits


@side_by_side
@pytest.mark.parametrize("workers", [0, 2])
def test_a_trace_is_replayed(folder: Path, stack: ExitStack, workers: int) -> None:
    """Times, lengths and the prefix cache's hits are those of the trace."""
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TRACE))
    engine = stack.enter_context(
        running_engine(folder, *FAST, "--prefix-cache-tokens", "10000000", "--answer-tokens", "1")
    )
    args = ["--llm-trace", "trace.jsonl", "--users", "20"]
    result = run(folder, "open_loop", engine.url, *args, workers=workers, time_s=7)
    assert result.exit_code == 0, result.output
    found = sorted(records(folder), key=lambda record: record.input_tokens or 0)
    assert [(record.input_tokens, record.output_tokens) for record in found] == [
        (line["input_length"], line["output_length"]) for line in TRACE
    ]
    # A busy machine may change the order, and so which of two requests is the first with a prefix; not how many are.
    cached = [record.usage.cached_tokens for record in found]
    assert set(cached) == set(implied_hits()) == {0, 512, 1024}
    assert sum(tokens or 0 for tokens in cached) == sum(implied_hits())
    assert all(record.started_ns >= record.scheduled_ns for record in found)
    if not workers:
        times = [(record.scheduled_ns - found[0].scheduled_ns) / 1e6 for record in found]
        assert times == pytest.approx([line["timestamp"] for line in TRACE], abs=0.01)
    told = json.loads((folder / "run.json").read_text())["configuration"]["workload"]["trace"]
    assert told == {"path": "trace.jsonl", "requests": 30}


# -- mistakes ------------------------------------------------------------------------------------------------------

MISTAKES = [
    (["--llm-trace", "data.txt"], "--llm-trace needs an OpenLoopUser"),
    (["--llm-dataset", "data.txt", "--llm-prompt-file", "data.txt"], "--llm-prompt-file and --llm-dataset exclude"),
    (["--llm-dataset", "none.jsonl"], "--llm-dataset none.jsonl: No such file or directory"),
    (["--llm-shared-prefix", "1.5"], "--llm-shared-prefix is a share from 0 to 1, not 1.5"),
    (["--llm-input-tokens", "normal:5"], "--llm-input-tokens: 'normal:5' makes no lengths: write normal:MEAN,SD"),
]


@side_by_side
@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(*row, id=" ".join(row[0]), marks=pytest.mark.long if number > 1 else ())
        for number, row in enumerate(MISTAKES)
    ],
)
def test_a_mistake_is_one_sentence(folder: Path, stack: ExitStack, args: list[str], says: str) -> None:
    (folder / "data.txt").write_text("a\n")
    server = stack.enter_context(Replay(GOOD))
    result = run(folder, "chat", server.url, *args)
    assert result.exit_code in (1, 2)
    assert says in result.output
    assert "Traceback" not in result.output
    assert [exchange for exchange in server.exchanges if exchange.method == "POST"] == []
