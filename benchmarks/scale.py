"""What several processes bring, and what the master costs: tokens a second from one and two workers.

    python benchmarks/scale.py [--processes 0 1 2] [--streams 300] [--mode even|bursts] [--seconds 6] [--json FILE]

Real headless `locust` processes with `--streams` LLMUsers for each process that generates load; `alone` is one without
a master. The server is benchmarks/truth_server.c (a token each 20 ms). Where there are few cores all processes share
them: read the CPU of a token before tokens a second. Printed are the CPU of the server, of each worker and of the
master in the measured window, and where the master's went: merging our figures and Locust's own from the workers'
reports, unpacking messages, the second hand, and the rest (Locust's greenlets, heartbeats, the hub).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import runs
import servers
from client import header, number
from plan import Plan

DEADLINE_S = 120.0
COLUMNS = (
    ("processes", 9), ("streams", 8), ("tok/s", 8), ("us/tok", 7), ("workers' CPU %", 16), ("master %", 9),
    ("server %", 9), ("us/tok of master", 17),
)  # fmt: skip
PARTS = {
    "ours": "merging our figures",
    "locust": "merging Locust's figures",
    "unpack": "receiving and unpacking messages",
    "tick": "the second hand: rates, percentiles, a line each 10 s",
    "rest": "the rest: Locust's greenlets, heartbeats, the hub",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--processes", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    parser.add_argument("--streams", type=int, default=300, help="for each process that generates load")
    parser.add_argument("--mode", choices=("even", "bursts"), default="even")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of the measured window")
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    print(header(COLUMNS))
    rows = []
    for processes in options.processes:
        rows.append(measure(processes, options))
        print(line(rows[-1]), flush=True)
    for row in rows:
        if row["processes"]:
            print(*parts(row), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": runs.machine(), "rows": rows}, indent=1))


def measure(processes: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run; all figures are of its window."""
    streams = options.streams * max(processes, 1)
    with servers.truth_server(0, bursts=options.mode == "bursts") as url, tempfile.TemporaryDirectory() as folder:
        plan = Plan("scale", url, str(Path(folder) / "out.json"), streams, options.tokens, 1.0, options.seconds, 3.0)
        command = [sys.executable, *runs.locust_command(plan), "--llm-model", "m", "--llm-no-preflight"]
        if processes:
            command += ["--processes", str(processes)]
        done = subprocess.run(
            command, env=plan.environment(), cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S
        )
        out = Path(plan.out)
        if not out.exists():
            raise SystemExit(f"{processes} processes gave no result:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
        result: dict[str, Any] = json.loads(out.read_text())
    tokens = result["tokens_per_s"]
    load = sum(result["workers"]) if processes else result["master"]
    result["cpu_us_per_token"] = load * 1e6 / tokens if tokens else None
    result["master_us_per_token"] = result["master"] * 1e6 / tokens if tokens and processes else None
    return {"processes": processes, "streams": streams, "mode": options.mode, **result}


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    workers = " + ".join(f"{100 * share:.0f}" for share in row["workers"]) or f"{100 * row['master']:.0f}"
    cells = (
        row["processes"] or "alone", row["streams"], f"{row['tokens_per_s']:,.0f}", number(row["cpu_us_per_token"], 1),
        workers, number(100 * row["master"], 1) if row["processes"] else "", number(100 * row["server"], 0),
        number(row["master_us_per_token"], 2),
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def parts(row: dict[str, Any]) -> list[str]:
    """Where the master's time went, in percent of a core."""
    known = row["master_parts"]
    known["rest"] = max(row["master"] - sum(known.values()), 0.0)
    lines = [f"master of {row['processes']}: {100 * row['master']:.1f} % of a core"]
    return lines + [f"    {100 * known[name]:5.2f} %  {text}" for name, text in PARTS.items()]


if __name__ == "__main__":
    main()
