"""The tables and the picture of README.md, made again from the raw results in data/.

    python benchmarks/truth.py --ahead --json benchmarks/data/truth.json     # measure (three minutes)
    python benchmarks/tables.py [--check]                                    # write README.md and truth.svg, or compare

A table stands between `<!-- NAME -->` and `<!-- end -->`. With --check nothing is written, and the exit code is 1 when
the README is not that of its data.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import chart

HERE = Path(__file__).parent
README, PICTURE, DATA = HERE / "README.md", HERE / "truth.svg", HERE / "data" / "truth.json"
HEAD = (
    "streams", "stack", "tokens/s", "CPU µs/token", "of plain", "of aiohttp", "µs/token with a time of its own",
    "stamp error µs, p50 / p99", "coalesced", "TTFT ms, p50 / p99", "true TTFT",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing: does the README show its data?")
    check = parser.parse_args().check
    told = json.loads(DATA.read_text())
    text, picture = README.read_text(), chart.svg(told["rows"])
    made = text
    for name, lines in tables(told).items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end -->", re.DOTALL)
        if not pattern.search(made):
            raise SystemExit(f"{README.name} has no <!-- {name} --> … <!-- end -->")
        whole = "\n".join([f"<!-- {name} -->", *lines, "<!-- end -->"])
        made = pattern.sub(lambda _, whole=whole: whole, made)
    if not check:
        README.write_text(made)
        PICTURE.write_text(picture)
    elif made != text or PICTURE.read_text() != picture:
        sys.exit("README.md or truth.svg is not that of data/truth.json: run python benchmarks/tables.py")


def tables(told: dict[str, Any]) -> dict[str, list[str]]:
    """Marker → lines."""
    machine = told["machine"]
    where = f"Measured {machine['date']}: {machine['cpu']}, {machine['cores']} CPUs, Linux {machine['kernel']}, Python"
    return {
        "truth machine": [f"{where} {machine['python']}."],
        **{f"truth {mode}": table([r for r in told["rows"] if r["server"] == mode]) for mode in ("even", "bursts")},
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows of one mode as Markdown."""
    aiohttp = {row["streams"]: row["cpu_us_per_token"] for row in rows if row["stack"] == "aiohttp"}
    lines = [f"| {' | '.join(HEAD)} |", "|---:|---|" + "---:|" * (len(HEAD) - 2)]
    for row in rows:
        cost, share = row["cpu_us_per_token"], row.get("coalesced_share")
        base = aiohttp.get(row["streams"])
        cells = (
            f"{row['streams']:,}",
            f"**{row['stack']}**" if row["stack"] == "ours" else row["stack"],
            f"{row['tokens_per_s']:,.0f}",
            f"{cost:.1f}",
            number(row.get("cpu_us_per_token_ratio"), 2),
            number(cost / base if base else None, 2),
            number(row.get("cpu_us_per_own"), 1),
            pair(row["stamp_error_us"], 0),
            "" if share is None else f"{share * 100:.2f} %",
            pair(row.get("ttft_ms"), 2),
            pair(row["truth"]["ttft_ms"], 2),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def number(value: float | None, digits: int) -> str:
    """Nothing where there is no number."""
    return "" if value is None else f"{value:.{digits}f}"


def pair(spread: dict[str, float] | None, digits: int) -> str:
    """p50 and p99."""
    return "" if not spread else f"{spread['p50']:,.{digits}f} / {spread['p99']:,.{digits}f}"


if __name__ == "__main__":
    main()
