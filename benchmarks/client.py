"""What a token costs the client, and how true its stamps are: LLMUser beside the plain httpx stack, in one run.

    python benchmarks/client.py [--streams 50 200 500 1000] [--server sim|even|bursts] [--seconds 3] [--json FILE]

Each stack runs in a real headless `locust` process on one core, its server on another. All costs are in: requests,
reading, parsing, statistics, Locust itself. Tokens carry the time they were sent, so the error of each stamp is known.
`sim` is the embedded engine (its streams step together); `even` and `bursts` are benchmarks/truth_server.c, which
carries more than a Python server can. Above 500 streams `sim` gives way to `bursts` where a C compiler is found.

CPU per token is the client process's user and system time over the tokens it stamped in the window. An overloaded
stack stamps fewer tokens than were sent; its cost per token then looks better than it is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import servers

SERVER_CORE, CLIENT_CORE = 0, 1
SIM_STREAMS = 500
STACKS = ("ours", "plain")
DEADLINE_S = 60.0
COLUMNS = (
    ("streams", 7), ("server", 7), ("stack", 6), ("tok/s", 7), ("CPU us/tok", 10), ("vs plain", 8), ("core", 5),
    ("err us p50", 10), ("p99", 9), ("max", 9), ("coalesced", 9), ("TTFT ms p50", 11), ("p99", 8), ("failed", 6),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 200, 500, 1000])
    parser.add_argument("--server", choices=("sim", "even", "bursts"), default="sim")
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the measured window")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds over which users start; 0: all at once")
    parser.add_argument("--repeat", type=int, default=1, help="runs of everything")
    parser.add_argument("--realtime", action="store_true", help="ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.realtime:
        servers.ahead_of_others()
    print(" ".join(f"{title:>{width}}" for title, width in COLUMNS))
    rows: list[dict[str, Any]] = []
    for _ in range(options.repeat):
        for streams in options.streams:
            group = [measure(stack, streams, options) for stack in options.stacks]
            plain = next((row["cpu_us_per_token"] for row in group if row["stack"] == "plain"), None)
            for row in group:
                row["cpu_vs_plain"] = None if plain is None else round(row["cpu_us_per_token"] / plain, 3)
                print(line(row), flush=True)
            rows += group
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def choose_server(wanted: str, streams: int) -> tuple[str, AbstractContextManager[str]]:
    """The server for so many streams, and its name."""
    if wanted == "sim" and streams > SIM_STREAMS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                servers.build_truth_server(Path(folder))
            wanted = "bursts"
        except servers.NoCompiler as error:
            print(f"# {error}: {streams} streams on the embedded engine, whose own limit may show", file=sys.stderr)
    if wanted == "sim":
        return wanted, servers.embedded_engine(SERVER_CORE)
    return wanted, servers.truth_server(SERVER_CORE, bursts=wanted == "bursts")


def measure(stack: str, streams: int, options: argparse.Namespace) -> dict[str, Any]:
    """One stack at one number of streams, against a fresh server."""
    name, server = choose_server(options.server, streams)
    with server as url, tempfile.TemporaryDirectory() as folder:
        result = run_locust(stack, streams, url, Path(folder) / "result.json", options)
        truth = servers.truth_stats(url) if name != "sim" else None
    return {"stack": stack, "streams": streams, "server": name, **result, "truth": truth}


def run_locust(stack: str, streams: int, url: str, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run `locust` headless with the users of one stack; its figures."""
    plan = {
        "stack": stack, "url": url, "out": str(out), "tokens": options.tokens, "ramp_s": options.ramp,
        "warm_s": 1.0, "window_s": options.seconds,
    }  # fmt: skip
    command = [
        sys.executable, "-m", "locust", "-f", str(Path(__file__).parent / "measured_users.py"), "--headless",
        "--host", url, "-u", str(streams), "-r", str(streams), "--stop-timeout", "10", "--only-summary",
        "--loglevel", "WARNING", "--llm-model", "m", "--exit-code-on-error", "0",
    ]  # fmt: skip
    environment = {**os.environ, "BENCH_PLAN": json.dumps(plan)}
    done = subprocess.run(
        servers.pinned(CLIENT_CORE, command), env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    if not out.exists():
        raise SystemExit(
            f"{stack} with {streams} streams gave no result:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    error = row["stamp_error_us"] or dict.fromkeys(("p50", "p99", "max"), float("nan"))
    ttft = row["ttft_ms"] or dict.fromkeys(("p50", "p99"), float("nan"))
    ratio = "" if row["cpu_vs_plain"] is None else f"{row['cpu_vs_plain']:.2f}"
    cells = (
        row["streams"], row["server"], row["stack"], row["tokens_per_s"], f"{row['cpu_us_per_token']:.1f}", ratio,
        f"{row['core_share'] * 100:.0f}%", f"{error['p50']:.0f}", f"{error['p99']:.0f}", f"{error['max']:.0f}",
        f"{row['coalesced_share'] * 100:.2f}%", f"{ttft['p50']:.2f}", f"{ttft['p99']:.2f}", row["failed"],
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    return {"python": sys.version.split()[0], "cores": os.cpu_count(), "kernel": os.uname().release}


if __name__ == "__main__":
    main()
