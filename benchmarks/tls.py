"""What TLS costs and does to the stamps: LLMUser against the same server in the clear and through TLS, in one run.

    python benchmarks/tls.py [--streams 200 500 1000] [--modes even bursts] [--seconds 3] [--json FILE]

benchmarks/truth_server.c with OpenSSL, one TLS record a token, as servers send their streams; certificates are made
for the run (needs trustme). Columns as in client.py; the ratio is TLS / clear.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import runs
import servers
from client import header, number
from plan import Plan

COLUMNS = (
    ("streams", 7), ("mode", 7), ("path", 6), ("tok/s", 7), ("us/tok", 7), ("ratio", 6), ("core", 5),
    ("err us p50", 10), ("p99", 8), ("coalesced", 9), ("TTFT ms p50", 11), ("p99", 8), ("true TTFT", 15), ("failed", 6),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--modes", nargs="+", choices=("even", "bursts"), default=["even", "bursts"])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the measured window")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds over which users start; 0: all at once")
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    rows: list[dict[str, Any]] = []
    print(header(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        certificates = servers.make_certificates(Path(folder))
        for mode in options.modes:
            for streams in options.streams:
                clear, secret = (measure(mode, streams, options, used) for used in (None, certificates))
                rows += [clear, secret | {"ratio": secret["cpu_us_per_token"] / clear["cpu_us_per_token"]}]
                print(*map(line, rows[-2:]), sep="\n", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": runs.machine(), "rows": rows}, indent=1))


def measure(
    mode: str, streams: int, options: argparse.Namespace, certificates: tuple[Path, Path] | None
) -> dict[str, Any]:
    """Ours at one number of streams; through TLS with `certificates` (to trust, of the server)."""
    trusted, own = certificates if certificates is not None else (None, None)
    with (
        servers.truth_server(runs.SERVER_CORE, bursts=mode == "bursts", certificate=own) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        out = str(Path(folder) / "result.json")
        plan = Plan(
            "ours", url, out, streams, options.tokens, options.ramp, options.seconds, trusted=str(trusted or "")
        )
        result = runs.run_python(plan)
        truth = servers.truth_stats(url)
    path = "clear" if certificates is None else "TLS"
    return {"streams": streams, "mode": mode, "path": path, **result, "truth": truth}


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    error, ttft, true = row["stamp_error_us"] or {}, row["ttft_ms"] or {}, row["truth"]["ttft_ms"]
    cells = (
        row["streams"], row["mode"], row["path"], f"{row['tokens_per_s']:.0f}", number(row["cpu_us_per_token"], 1),
        number(row.get("ratio"), 2), f"{100 * row['core_share']:.0f}%", number(error.get("p50"), 0),
        number(error.get("p99"), 0), f"{100 * row['coalesced_share']:.2f}%", number(ttft.get("p50"), 2),
        number(ttft.get("p99"), 2), f"{true['p50']:.2f}/{true['p99']:.2f}", row["failed"],
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


if __name__ == "__main__":
    main()
