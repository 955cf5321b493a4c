"""Headless runs of locustfiles as people write them: what the figures, the exit code and the files then are."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.locust_process import LocustResult, start_locust
from tests.plugin.endings import LOCUSTFILE, get_json, running_engine, told_by
from tests.replay import DONE, ROLE, STOP, C, Exchange, Replay, Script, U, answer, stream
from tests.side_by_side import side_by_side

GOOD = stream((0, ROLE + C("Hi")), (20, C("!") + STOP + U(9, 2) + DONE))
BROKEN = answer("500 Internal Server Error", b"{}")
QUICK = LOCUSTFILE.replace("constant(0)", "constant(0.05)")


def run(
    folder: Path, locustfile: str, *args: str, workers: int = 0, env: dict[str, str] | None = None
) -> tuple[LocustResult, dict[str, Any]]:
    """Run it headless to its end; its result, and what it told (see endings.LOCUSTFILE)."""
    (folder / "locustfile.py").write_text(locustfile)
    given = ["-f", "locustfile.py", "--headless", "--stop-timeout", "10", *args]
    if workers:
        given += ["--processes", str(workers)]
    with start_locust(given, cwd=folder, env=env) as locust:
        result = locust.wait()
    assert result.orphans == (), result.output
    return result, told_by(folder)


def load(url: str, *, users: int = 2, time_s: int = 2) -> list[str]:
    return ["--host", url, "--llm-model", "m", "--users", str(users), "--spawn-rate", "50", "--run-time", f"{time_s}s"]


def prompts(server: Replay) -> list[str]:
    return [exchange.json["messages"][0]["content"] for exchange in server.exchanges if exchange.method == "POST"]


# -- beside other users --------------------------------------------------------------------------------------------

MIXED = """
import json
from locust import HttpUser, task

class Plain(HttpUser):
    host = PLAIN
    wait_time = constant(0.05)

    @task
    def get(self):
        self.client.get("/plain")

@events.quit.add_listener
def on_quit(**_):
    with open("hosts.json", "w") as file:
        json.dump([environment_kept.host, Plain.host, Asker.host], file)

@events.init.add_listener
def keep(environment, **_):
    global environment_kept
    environment_kept = environment
"""


@side_by_side
@pytest.mark.parametrize(
    "workers", [pytest.param(0, id="local", marks=pytest.mark.long), pytest.param(2, id="processes")]
)
def test_an_httpuser_with_its_own_host_runs_beside(folder: Path, stack: ExitStack, workers: int) -> None:
    plain = stack.enter_context(Replay(answer("200 OK", b"plain")))
    server = stack.enter_context(Replay(GOOD))
    mixed = QUICK + MIXED.replace("PLAIN", repr(plain.url))
    args = ["--users", "4", "--spawn-rate", "50", "--run-time", "2s", "--llm-model", "m"]
    result, told = run(folder, mixed, *args, workers=workers, env={"OPENAI_BASE_URL": server.url})
    assert result.exit_code == 0, result.output
    assert told["rows"]["GET /plain"][0] == len(plain.exchanges) > 0
    assert told["rows"]["E2E ask"][0] == len(prompts(server)) - 1 > 0
    assert told["total"][0] == told["rows"]["GET /plain"][0] + told["rows"]["E2E ask"][0]
    assert {exchange.target for exchange in plain.exchanges} == {"/plain"}
    assert json.loads((folder / "hosts.json").read_text()) == [None, plain.url, None]


@side_by_side
def test_two_classes_with_hosts_and_models_of_their_own(folder: Path, stack: ExitStack) -> None:
    """Each target is checked, and gets the model that it lists."""

    def serving(model: str) -> Callable[[Exchange], Script]:
        listed = answer("200 OK", json.dumps({"data": [{"id": model}]}).encode())
        return lambda exchange: GOOD if exchange.method == "POST" else listed

    first, second = (stack.enter_context(Replay(choose=serving(model))) for model in ("one", "two"))
    classes = f"""
class First(Asker):
    host = {first.url!r}

class Second(Asker):
    host = {second.url!r}

Asker.abstract = True
First.abstract = Second.abstract = False
"""
    args = ["--users", "2", "--spawn-rate", "50", "--run-time", "2s"]
    result, told = run(folder, QUICK + classes, *args, workers=1)
    assert result.exit_code == 0, result.output
    for server, model in ((first, "one"), (second, "two")):
        asked = [exchange.json["model"] for exchange in server.exchanges if exchange.method == "POST"]
        assert set(asked) == {model}
        assert len(asked) > 1
    assert told["succeeded"] == len(prompts(first)) + len(prompts(second)) - 2


# -- events and rows -----------------------------------------------------------------------------------------------

LISTENER = """
heard = {}

@events.request.add_listener
def hear(request_type, name, response_time, response_length, response, context, exception, start_time, url, **_):
    heard.setdefault(request_type, []).append(response_time)
    assert url.endswith("/v1/chat/completions") and start_time > 1e9 and response.text == "Hi!" and context == {}

@events.quitting.add_listener
def show(environment, **_):
    for kind, times in heard.items():
        print("heard", kind, len(times))
"""


@side_by_side
@pytest.mark.parametrize("listener", ["", LISTENER], ids=["nobody listens", "somebody listens"])
def test_d14_metric_rows_are_no_requests(folder: Path, stack: ExitStack, listener: str) -> None:
    server = stack.enter_context(Replay(GOOD))
    result, told = run(folder, QUICK + listener, *load(server.url), workers=2)
    number = told["succeeded"]
    assert result.exit_code == 0, result.output
    assert number == len(prompts(server)) - 1 > 4
    # An answer whose two events this machine was too busy to read apart has no TPOT.
    tpot = told["rows"]["TPOT ask"][0]
    assert told["rows"] == {f"{kind} ask": [number, 0] for kind in ("TTFT", "ITL", "E2E")} | {"TPOT ask": [tpot, 0]}
    assert told["total"] == [number, 0]
    if listener:
        counted = [line.split() for line in result.stdout.splitlines() if line.startswith("heard")]
        for kind in ("TTFT", "ITL", "TPOT", "E2E"):
            assert sum(int(words[2]) for words in counted if words[1] == kind) == told["rows"][f"{kind} ask"][0]


RAISING = """
@events.request.add_listener
def raises(request_type, **_):
    raise ValueError("a listener's mistake")
"""


@side_by_side
def test_d69_a_listener_that_raises_half_counts_nothing(folder: Path, stack: ExitStack) -> None:
    server = stack.enter_context(Replay(GOOD))
    result, told = run(folder, QUICK + RAISING, *load(server.url))
    number = told["succeeded"]
    assert result.exit_code == 2  # as Locust does it
    assert told["rows"]["TTFT ask"] == told["rows"]["ITL ask"] == told["rows"]["E2E ask"] == [number, 0]
    assert told["total"] == [number, 0]


# -- D75: exit codes -----------------------------------------------------------------------------------------------

NOTHING = """
from locust import User, constant, events, task
from locust_llm import LLMUser
class Idle(LLMUser):
    @task
    def rest(self):
        pass
"""
CODES = [
    ("one failure of many", QUICK, [BROKEN], [], 1),
    ("one failure of many, which is allowed", QUICK, [BROKEN], ["--exit-code-on-error", "0"], 0),
    ("failures of its own code", QUICK, [BROKEN], ["--exit-code-on-error", "3"], 3),
    ("no failure", QUICK, [], [], 0),
    ("nothing sent", NOTHING, [], [], 1),
    ("nothing sent, and failures allowed", NOTHING, [], ["--exit-code-on-error", "0"], 1),
    ("D01: only failures in streams", QUICK, [stream((0, b'data: {"error":{"message":"no"}}\n\n'))] * 99, [], 1),
]

QUICK_CODES = {"one failure of many", "one failure of many, which is allowed", "nothing sent"}


@side_by_side
@pytest.mark.parametrize(
    ("locustfile", "scripts", "args", "code"),
    [pytest.param(*row[1:], id=row[0], marks=() if row[0] in QUICK_CODES else pytest.mark.long) for row in CODES],
)
def test_d75_exit_codes(
    folder: Path, stack: ExitStack, locustfile: str, scripts: list[Script], args: list[str], code: int
) -> None:
    server = stack.enter_context(Replay(GOOD, GOOD, *scripts, GOOD))
    result, _ = run(folder, locustfile, *load(server.url), *args)
    assert result.exit_code == code, result.output


@side_by_side
def test_locusts_own_files_hold_the_last_answers(folder: Path, stack: ExitStack) -> None:
    """Locust writes them now and then, here hardly ever, and not at the end."""
    engine = stack.enter_context(running_engine(folder, "--any-model"))
    seldom = "\nimport locust.stats\nlocust.stats.CSV_STATS_INTERVAL_SEC = 60\n"
    result, told = run(folder, LOCUSTFILE + seldom, *load(engine.url))
    assert result.exit_code == 0, result.output
    row = result.csv_row("stats", Type="", Name="Aggregated")
    assert [int(row["Request Count"]), int(row["Failure Count"])] == told["total"] == [told["succeeded"], 0]
    assert result.csv_row("stats", Type="E2E", Name="ask")["Request Count"] == row["Request Count"]


# -- D13, D82: what is sent ----------------------------------------------------------------------------------------


@pytest.mark.long
@side_by_side
def test_d13_prompts_are_unique_over_workers_and_runs(folder: Path, stack: ExitStack) -> None:
    asking = QUICK.replace('"Hello"', "self.prompt()")
    server = stack.enter_context(Replay(GOOD))
    for _ in range(2):
        args = ["--llm-seed", "7", "--llm-input-tokens", "50", "--llm-no-preflight"]
        result, _ = run(folder, asking, *load(server.url, users=4), *args, workers=2)
        assert result.exit_code == 0, result.output
    said = prompts(server)
    nonces = [prompt.split()[0] for prompt in said]
    assert len(said) == len(set(said)) == len(set(nonces)) > 20
    assert {len(prompt.split()) for prompt in said} == {50}
    assert len({nonce.rsplit("-", 1)[0] for nonce in nonces}) == 4  # two runs of two workers


@side_by_side
def test_a_prompt_file_is_every_prompt(folder: Path, stack: ExitStack) -> None:
    (folder / "prompt.txt").write_text("Explain löve.\n")
    server = stack.enter_context(Replay(GOOD))
    asking = QUICK.replace('"Hello"', "self.prompt()")
    run(folder, asking, *load(server.url, time_s=1), "--llm-prompt-file", "prompt.txt", "--llm-no-preflight", workers=1)
    assert set(prompts(server)) == {"Explain löve."}


@side_by_side
def test_d82_warm_up_is_in_no_figure(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder))
    args = ["--host", engine.url, "--users", "1", "--run-time", "2s", "--llm-warmup", "5", "--llm-max-tokens", "3"]
    result, told = run(folder, QUICK, *args, "--llm-json", "run.json")
    assert result.exit_code == 0
    assert get_json(f"{engine.url}/sim/counts")["received"] == told["started"] + 5 + 1
    assert told["rows"]["E2E ask"] == [told["started"], 0]
    assert "5 warm-up requests, 0 of them failed, are in no figure" in result.output
    document = json.loads((folder / "run.json").read_text())
    assert [name["name"] for name in document["names"]] == ["ask", None]


# -- D15: what is cut off ------------------------------------------------------------------------------------------

SLOW = ["--slots", "64", "--prefill-tps", "inf", "--decode-slope-ms", "0", "--decode-ms"]
RAMP = """
from locust import LoadTestShape

class Ramp(LoadTestShape):
    def tick(self):
        seconds = self.get_run_time()
        return (20, 100) if seconds < 4.9 else (2, 100) if seconds < 7.9 else None
"""


@side_by_side
@pytest.mark.parametrize(
    ("stop_timeout_s", "succeeded", "cancelled"), [(0, 3, 3), pytest.param(5, 6, 0, marks=pytest.mark.long)]
)
def test_d15_in_flight_at_the_stop(
    folder: Path, stack: ExitStack, stop_timeout_s: int, succeeded: int, cancelled: int
) -> None:
    """3 users, 4 s streams, 6 s: 6 = 3 + 0 + 3."""
    engine = stack.enter_context(running_engine(folder, *SLOW, "100"))
    args = ["--host", engine.url, "--users", "3", "--spawn-rate", "3", "--run-time", "6s", "--llm-max-tokens", "40"]
    args += ["--llm-no-preflight", "--stop-timeout", str(stop_timeout_s)]
    result, told = run(folder, LOCUSTFILE, *args)
    assert result.exit_code == 0
    assert (told["started"], told["succeeded"], told["failed"], told["cancelled"]) == (6, succeeded, 0, cancelled)
    assert told["rows"]["E2E ask"] == told["total"] == [succeeded, 0]


@side_by_side
def test_d15_in_flight_at_a_ramp_down(folder: Path, stack: ExitStack) -> None:
    """20 users, 2 from 5 s on, 8 s in all, 3 s streams: 42 = 22 + 0 + 20."""
    engine = stack.enter_context(running_engine(folder, *SLOW, "100"))
    args = ["--host", engine.url, "--llm-max-tokens", "30", "--llm-no-preflight", "--stop-timeout", "0"]
    _, told = run(folder, LOCUSTFILE + RAMP, *args, "--llm-json", "run.json")
    assert (told["started"], told["succeeded"], told["failed"], told["cancelled"]) == (42, 22, 0, 20)
    counts = get_json(f"{engine.url}/sim/counts")
    assert (counts["received"], counts["finished"], counts["cancelled"]) == (42, 22, 20)
    document = json.loads((folder / "run.json").read_text())
    assert "many_cancelled" in [finding["key"] for finding in document["findings"]]


# -- D07: no queue in the client -----------------------------------------------------------------------------------


@side_by_side
def test_d07_150_users_and_a_first_token_after_a_second(folder: Path, stack: ExitStack) -> None:
    engine = stack.enter_context(running_engine(folder, *SLOW, "20", "--slots", "256", "--entry-ms", "1000"))
    args = ["--host", engine.url, "--users", "150", "--spawn-rate", "75", "--run-time", "7s", "--llm-max-tokens", "5"]
    result, told = run(folder, LOCUSTFILE, *args, "--llm-json", "run.json")
    assert result.exit_code == 0, result.output
    document = json.loads((folder / "run.json").read_text())
    ttft = next(name for name in document["names"] if name["name"] is None)["summary"]["ttft"]
    assert ttft["n"] == told["succeeded"] > 300
    p50, p90 = (ttft["percentiles"][each]["value"] for each in ("p50", "p90"))
    assert 1000 <= p50 <= p90 <= 1300


# -- spawning -----------------------------------------------------------------------------------------------------

STAMPED = """
import json
from locust import constant, events, task
from locust_llm import LLMUser

late_ms, shared = [], []

class Asker(LLMUser):
    wait_time = constant(0)

    @task
    def ask(self):
        answer = self.client.chat("Hello", name="ask", ignore_eos=True)
        if answer.success:
            sent = [int(word) for word in answer.text.split()]
            assert len(sent) == len(answer.event_ns), (len(sent), len(answer.event_ns))
            at = list(answer.event_ns)
            # Where a busy machine let packets be read together, the last of them has its own time.
            apart = [place for place in range(len(at)) if at[place : place + 1] != at[place + 1 : place + 2]]
            late_ms.extend((at[place] - sent[place]) / 1e6 for place in apart)
            shared.append(len(at) - len(apart))

@events.quitting.add_listener
def tell(environment, **_):
    with open("late.json", "w") as file:
        json.dump([sorted(late_ms), sum(shared)], file)
"""


@side_by_side
def test_spawning_50_users_does_not_disturb_running_streams(folder: Path, stack: ExitStack) -> None:
    """The engine says in each token when it sent it: the stamps of those that run meanwhile stay true."""
    engine = stack.enter_context(running_engine(folder, *SLOW, "20", "--emit-send-time"))
    args = ["--host", engine.url, "--users", "60", "--spawn-rate", "20", "--run-time", "5s", "--llm-max-tokens", "40"]
    result, _ = run(folder, STAMPED, *args)
    assert result.exit_code == 0, result.output
    late_ms, shared = json.loads((folder / "late.json").read_text())
    assert len(late_ms) > 2000
    assert shared < len(late_ms)
    assert late_ms[0] >= 0  # nothing arrives before it is sent
    assert late_ms[len(late_ms) // 2] < 0.5
    assert late_ms[len(late_ms) * 99 // 100] < 1


# -- the embedded engine -------------------------------------------------------------------------------------------


@side_by_side
def test_every_output_of_the_embedded_engine_says_simulated(folder: Path) -> None:
    """With nothing but a locustfile; --llm-sim makes some requests fail, so that there are failures to name."""
    args = ["--users", "4", "--run-time", "4s", "--llm-max-tokens", "3", "--llm-no-preflight", "--llm-sim"]
    args += ["--fault error:0.3", "--csv-full-history", "--html", "report.html"]
    args += ["--llm-json", "run.json", "--llm-html", "llm.html", "--llm-records", "records.jsonl"]
    result, _ = run(folder, QUICK, *args)
    assert "No --host and no OPENAI_BASE_URL: using the embedded engine. All figures are SIMULATED." in result.output
    files = ["run_stats.csv", "run_failures.csv", "run_stats_history.csv", "report.html", "run.json"]
    for name in [*files, "llm.html", "run_llm_stats.csv", "run_llm_errors.csv", "run_llm_stats_history.csv"]:
        assert "SIMULATED" in (folder / name).read_text().upper(), name
    assert '"simulated":true' in (folder / "records.jsonl").read_text().replace(" ", "")
    tables = result.output[result.output.index("Shutting down") :]
    assert tables.count("(SIMULATED)") >= 8
    assert "Traceback" not in result.output


@side_by_side
def test_the_examples_are_listed(folder: Path) -> None:
    examples = Path(__file__).parents[2] / "locustfiles"
    with start_locust(["-f", str(examples), "--list"], cwd=folder) as locust:
        result = locust.wait()
    assert result.exit_code == 0
    assert "ChatUser" in result.stdout
    assert "SIMULATED" not in result.output


# -- resets --------------------------------------------------------------------------------------------------------


@side_by_side
@pytest.mark.parametrize(
    "workers", [pytest.param(0, id="local", marks=pytest.mark.long), pytest.param(2, id="processes")]
)
def test_d20_reset_stats_resets_ours_when_it_resets_locusts(folder: Path, stack: ExitStack, workers: int) -> None:
    """Requests in flight at the reset are carried over as started.

    Master and workers reset at different moments, and a report between the two saves what it tells, in Locust's figures
    and ours alike. Reports come often here, so that what ended early on is told, and lost, before that.
    """
    often = "\nimport locust.runners\nlocust.runners.WORKER_REPORT_INTERVAL = 0.25\n"
    engine = stack.enter_context(running_engine(folder, *SLOW, "20"))
    args = ["--host", engine.url, "--users", "6", "--spawn-rate", "2", "--run-time", "6s", "--llm-max-tokens", "40"]
    result, told = run(folder, LOCUSTFILE + often, *args, "--llm-no-preflight", "--reset-stats", workers=workers)
    assert result.exit_code == 0, result.output
    assert told["started"] == told["succeeded"] + told["cancelled"]
    assert told["rows"]["E2E ask"] == told["total"] == [told["succeeded"], 0]
    received = get_json(f"{engine.url}/sim/counts")["received"]
    assert 6 <= told["started"] < received
