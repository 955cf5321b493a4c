"""What a token costs the client, and how true its stamps are: LLMUser beside the plain httpx stack, in one run.

    python benchmarks/client.py [--streams 50 200 500 1000] [--server sim|even|bursts] [--seconds 3] [--json FILE]

Each stack runs in a real headless `locust` process on one core, its server on another. All costs are in: requests,
reading, parsing, statistics, Locust itself. Tokens carry the time they were sent, so the error of each stamp is known.
`sim` is the embedded engine (its streams step together); `even` and `bursts` are benchmarks/truth_server.c, which
carries more than a Python server can. Above 500 streams `sim` gives way to `bursts` where a C compiler is found.

CPU per token is the client process's user and system time over the tokens it stamped in the window. An overloaded
stack reads several tokens at once, which is cheap, and stamps them all with one time, which is wrong; `us/own` is the
CPU time over the tokens that have a time of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import runs
import servers

SIM_STREAMS = 500
COLUMNS = (
    ("streams", 7), ("server", 7), ("stack", 8), ("tok/s", 7), ("us/tok", 7), ("ratio", 6), ("us/own", 7), ("ratio", 6),
    ("core", 5), ("err us p50", 10), ("p99", 9), ("max", 9), ("coalesced", 9), ("TTFT ms p50", 11), ("p99", 8),
    ("failed", 6),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 200, 500, 1000])
    parser.add_argument("--server", choices=("sim", "even", "bursts"), default="sim")
    parser.add_argument("--stacks", nargs="+", choices=("ours", "plain"), default=["ours", "plain"])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the measured window")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds over which users start; 0: all at once")
    parser.add_argument("--repeat", type=int, default=1, help="runs of everything")
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    print(header(COLUMNS))
    rows: list[dict[str, Any]] = []
    for _ in range(options.repeat):
        for streams in options.streams:
            server = choose_server(options.server, streams)
            group = [
                runs.run(stack, streams, server, tokens=options.tokens, ramp_s=options.ramp, window_s=options.seconds)
                for stack in options.stacks
            ]
            compare(group)
            rows += group
            print(*map(line, group), sep="\n", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": runs.machine(), "rows": rows}, indent=1))


def choose_server(wanted: str, streams: int) -> str:
    """The server for so many streams."""
    if wanted != "sim" or streams <= SIM_STREAMS:
        return wanted
    try:
        with tempfile.TemporaryDirectory() as folder:
            servers.build("truth_server", Path(folder))
    except servers.NoCompiler as error:
        print(f"# {error}: {streams} streams on the embedded engine, whose own limit may show", file=sys.stderr)
        return wanted
    return "bursts"


def compare(group: list[dict[str, Any]]) -> None:
    """Give each row its costs as parts of the plain stack's in the same group."""
    plain = next((row for row in group if row["stack"] == "plain"), {})
    for row in group:
        for cost in ("cpu_us_per_token", "cpu_us_per_own"):
            mine, theirs = row.get(cost), plain.get(cost)
            row[f"{cost}_ratio"] = round(mine / theirs, 3) if mine is not None and theirs else None


def header(columns: tuple[tuple[str, int], ...]) -> str:
    """The titles of a table."""
    return " ".join(f"{title:>{width}}" for title, width in columns)


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    error, ttft = row["stamp_error_us"] or {}, row.get("ttft_ms") or {}
    coalesced = row.get("coalesced_share")
    cells = (
        row["streams"], row["server"], row["stack"], f"{row['tokens_per_s']:.0f}", number(row["cpu_us_per_token"], 1),
        number(row.get("cpu_us_per_token_ratio"), 2), number(row.get("cpu_us_per_own"), 1),
        number(row.get("cpu_us_per_own_ratio"), 2), f"{row['core_share'] * 100:.0f}%", number(error.get("p50"), 0),
        number(error.get("p99"), 0), number(error.get("max"), 0),
        "" if coalesced is None else f"{coalesced * 100:.2f}%", number(ttft.get("p50"), 2), number(ttft.get("p99"), 2),
        row.get("failed", ""),
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def number(value: float | None, digits: int) -> str:
    """A number for a table; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
