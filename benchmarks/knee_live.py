"""Knee searches through real Locust: alone and with workers, on the embedded engine and on the real llama.cpp server.

    python benchmarks/knee_live.py                       # the embedded engine, 5 slots: alone, then 3 workers
    python benchmarks/knee_live.py --engine llama        # llama.cpp with 4 slots (make engine), beside its /metrics
    python benchmarks/knee_live.py --rate                # the highest rate that is sustained, instead

A search takes some two minutes: each step needs 8 batches of at least a second. `knee.py` has the same on the virtual
clock, where the truth of many servers is known. Said of each run: steps, knee and bracket, cause; and in the end
whether the brackets of all runs overlap.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from sys import path as import_path
from typing import Any

import_path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.engine.llama import Llama
from tests.locust_process import run_locust, start_cluster
from tests.service import Service, clean_environment

ROOT = Path(__file__).resolve().parent.parent
SLOTS = 5
SIM = ["--slots", str(SLOTS), "--decode-ms", "5", "--prefill-tps", "100000", "--kv-tokens", "20000"]
COMMON = "--headless --only-summary --stop-timeout 10 --llm-shape knee --llm-step-time 40 --llm-json run.json".split()
USERS = ["--llm-max-users", "32"]
RATE = ["--llm-arrivals", "poisson", "--llm-rate", "20", "--llm-max-rate", "80", "-u", "100"]
OF_SIM = ["--llm-input-tokens", "50", "--llm-max-tokens", "20", "--llm-ignore-eos", "--llm-server-metrics", "/metrics"]
OF_LLAMA = ["--llm-input-tokens", "30", "--llm-max-tokens", "64", "--llm-server-metrics", "/metrics"]
LONGEST_S = 600.0


def search(url: str, args: list[str], locustfile: str, workers: int, folder: Path) -> dict[str, Any]:
    """One search; the part of its run document about steps."""
    file = str(ROOT / "locustfiles" / locustfile)
    if workers:
        with start_cluster(file, [*COMMON, "--host", url, *args], cwd=folder, workers=workers) as cluster:
            result, _ = cluster.wait(LONGEST_S)
    else:
        result = run_locust(["-f", file, *COMMON, "--host", url, *args], cwd=folder, timeout_s=LONGEST_S)
    table = result.output[result.output.index("\nSteps") :] if "\nSteps" in result.output else result.output
    print(table.strip(), flush=True)
    steps: dict[str, Any] = json.loads((folder / "run.json").read_text())["steps"]
    for row in steps["rows"]:
        running, waiting = row["server_running"], row["server_waiting"]
        if running is not None and waiting is not None:
            print(f"load {row['load']:g}: by its own metrics the server ran {running:.2f}, {waiting:.2f} waited")
    return steps


def bracket_of(verdict: dict[str, Any]) -> tuple[float, float] | None:
    """What the answer lies between, open sides as 0 and infinity; None without an answer."""
    if "sustained_rps" in verdict:
        low, high = verdict["sustained_rps"], verdict["overloaded_rps"]
    else:
        low, high = verdict["bracket"]
    if low is None and high is None:
        return None
    return (low if low is not None else 0.0, high if high is not None else float("inf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("sim", "llama"), default="sim")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 3], help="0: alone")
    parser.add_argument("--rate", action="store_true")
    options = parser.parse_args()
    args = [*(RATE if options.rate else USERS), *(OF_SIM if options.engine == "sim" else OF_LLAMA)]
    brackets = []
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if options.engine == "sim":
                argv = [sys.executable, "-m", "locust_llm.sim", "--port", "0", *SIM]
                server: Any = Service.start("sim", argv, folder=folder, environment=clean_environment(folder))
            else:
                server = Llama.start(folder)
            begun = time.monotonic()
            try:
                print(f"\n== {options.engine}, {f'{workers} workers' if workers else 'alone'}", flush=True)
                found = search(server.url, args, "open_loop.py" if options.rate else "chat.py", workers, folder)
            finally:
                server.stop()
            print(f"{len(found['rows'])} steps in {time.monotonic() - begun:.0f} s", flush=True)
            brackets.append(bracket_of(found["verdict"]))
    known = [bracket for bracket in brackets if bracket is not None]
    overlap = len(known) == len(brackets) and max(low for low, _ in known) <= min(high for _, high in known)
    print(f"\nbrackets {brackets}: {'they overlap' if overlap else 'they do NOT overlap'}")


if __name__ == "__main__":
    main()
