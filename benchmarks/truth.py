"""How near each stack's figures are to the truth, at rising load: ours, the plain httpx stack, aiohttp, and C.

    python benchmarks/truth.py [--streams 200 500 1000] [--modes even bursts] [--json FILE] [--plot FILE.svg]

One server whose send times are known (benchmarks/truth_server.c: 100 ms to the first token, one each 20 ms), one core
for each process, the same requests from each stack. `even`: streams send whenever their own schedule says; `bursts`:
all at the same instants, as the steps of a real engine make them do. Printed are the costs (see client.py) as parts of
the plain stack's and of aiohttp's, the error of the stamps, and TTFT and ITL beside what the server really did.
`aiohttp` needs aiohttp and uvloop; the servers need a C compiler.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

import chart
import runs
import servers
from client import compare, header, number

COLUMNS = (
    ("streams", 7), ("mode", 6), ("stack", 7), ("tok/s", 6), ("us/tok", 7), ("/plain", 6), ("/aiohttp", 8),
    ("us/own", 7), ("core", 5), ("err us p50", 10), ("p99", 8), ("coalesced", 9), ("TTFT ms p50", 11), ("p99", 7),
    ("ITL ms p50", 10), ("p99", 7), ("true TTFT", 13), ("true ITL", 13),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--modes", nargs="+", choices=("even", "bursts"), default=["even", "bursts"])
    parser.add_argument("--stacks", nargs="+", choices=tuple(runs.STACKS), default=list(runs.STACKS))
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the measured window")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds over which users start; 0: all at once")
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    stacks = [stack for stack in options.stacks if available(stack)]
    print(header(COLUMNS))
    rows: list[dict[str, Any]] = []
    for mode in options.modes:
        for streams in options.streams:
            group = [
                runs.run(stack, streams, mode, tokens=options.tokens, ramp_s=options.ramp, window_s=options.seconds)
                for stack in stacks
            ]
            compare(group)
            rows += group
            print(*(line(row, group) for row in group), sep="\n", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": runs.machine(), "rows": rows}, indent=1))
    if options.plot is not None:
        options.plot.write_text(chart.svg(rows))


def available(stack: str) -> bool:
    """Whether this stack can run here; says so if not."""
    if stack == "aiohttp" and importlib.util.find_spec("aiohttp") is None:
        print("# aiohttp is not installed: left out")
        return False
    return True


def line(row: dict[str, Any], group: list[dict[str, Any]]) -> str:
    """One line of the table."""
    error, truth = row["stamp_error_us"] or {}, row["truth"]
    ttft, itl = row.get("ttft_ms") or {}, row.get("itl_ms") or {}
    aiohttp = next((other["cpu_us_per_token"] for other in group if other["stack"] == "aiohttp"), None)
    coalesced = row.get("coalesced_share")
    cells = (
        row["streams"], row["server"], row["stack"], f"{row['tokens_per_s']:.0f}", number(row["cpu_us_per_token"], 1),
        number(row.get("cpu_us_per_token_ratio"), 2), number(row["cpu_us_per_token"] / aiohttp if aiohttp else None, 2),
        number(row.get("cpu_us_per_own"), 1), f"{row['core_share'] * 100:.0f}%", number(error.get("p50"), 0),
        number(error.get("p99"), 0), "" if coalesced is None else f"{coalesced * 100:.2f}%",
        number(ttft.get("p50"), 2), number(ttft.get("p99"), 2), number(itl.get("p50"), 2), number(itl.get("p99"), 2),
        both(truth["ttft_ms"]), both(truth["itl_ms"]),
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def both(spread: dict[str, float]) -> str:
    """p50 and p99."""
    return f"{spread['p50']:.2f}/{spread['p99']:.2f}"


if __name__ == "__main__":
    main()
