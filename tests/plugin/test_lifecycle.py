"""The end of a run: however it ends, what the engine counted is what the run tells, or the run names what it lost.

The whole matrix is {local, --processes 2, master + 2 workers} x the ways to end x stop-timeout {0, 10}; `QUICK` runs in
every test run, the rest with the long tests.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.plugin.endings import ENDS, USERS, Cell, Ended, run_cell
from tests.side_by_side import side_by_side

ALONE = ("run time", "shape", "sigint", "sigterm", "web stop")
TOGETHER = (*ALONE, "ctrl-c", "sigterm everywhere", "kill -9")
MATRIX = [
    Cell(mode, end, stop_timeout_s)
    for mode, ends in (("local", ALONE), ("processes", TOGETHER), ("cluster", TOGETHER))
    for end in ends
    for stop_timeout_s in (0, 10)
]
QUICK = {
    "local-run time-0", "local-shape-10", "local-sigint-10", "local-sigterm-0",
    "processes-run time-10", "processes-shape-0", "processes-ctrl-c-0", "processes-sigterm-10",
    "processes-web stop-10", "processes-kill -9-0",
    "cluster-run time-0", "cluster-ctrl-c-10", "cluster-sigterm everywhere-0", "cluster-kill -9-10",
}  # fmt: skip


def test_the_quick_ones_are_of_the_matrix() -> None:
    assert {cell.id for cell in MATRIX} >= QUICK
    assert len(MATRIX) == 42
    assert {cell.end for cell in MATRIX} >= set(ENDS)


@side_by_side
@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, id=cell.id, marks=() if cell.id in QUICK else pytest.mark.long) for cell in MATRIX],
)
def test_the_end_of_a_run(folder: Path, cell: Cell) -> None:
    ended = run_cell(cell, folder)
    told, engine = ended.told, ended.engine
    assert [result.orphans for result in (ended.result, *ended.workers)] == [()] * (1 + len(ended.workers))
    assert told, ended.output
    assert told["exit_code"] == ended.result.exit_code
    assert (engine["in_flight"], told["failed"]) == (0, 0)
    assert engine["received"] == engine["finished"] + engine["cancelled"]
    # Locust's own figures are the same, and no metric row is among them.
    assert told["rows"]["E2E ask"] == told["total"] == [told["succeeded"], 0]
    assert told["rows"]["TTFT ask"] == told["rows"]["TPOT ask"] == [told["succeeded"], 0]
    if cell.end == "kill -9":
        check_the_lost(ended, cell)
    else:
        check_the_whole(ended, cell)
    check_the_files(ended)


def check_the_whole(ended: Ended, cell: Cell) -> None:
    """Nothing is missing."""
    told, engine = ended.told, ended.engine
    assert engine["received"] == told["started"] == told["succeeded"] + told["cancelled"]
    assert [ended.result.exit_code, *(worker.exit_code for worker in ended.workers)] == [0] * (1 + len(ended.workers))
    assert told["rows"]["ITL ask"] == [(cell.tokens - 1) * told["succeeded"], 0]
    if cell.stop_timeout_s:
        assert told["cancelled"] == engine["cancelled"] == 0
    else:  # a user may be between two requests, and an answer may end as it is cut off
        assert engine["cancelled"] <= told["cancelled"] <= USERS
        assert told["cancelled"] or cell.end in ("run time", "shape")
    assert told["succeeded"]
    assert "lost" not in ended.output


def check_the_lost(ended: Ended, cell: Cell) -> None:
    """Half of the users were lost; the run says so and fails, and tells all of the other half."""
    told, engine = ended.told, ended.engine
    assert ended.result.exit_code == 1
    assert re.search(r"Worker \S+_[0-9a-f]{32} was lost: the figures of this run are incomplete", ended.output)
    assert re.search(r"Incomplete run: lost \S+_[0-9a-f]{32}\.", ended.output)
    assert engine["received"] >= told["started"] >= told["succeeded"] + told["cancelled"]
    assert told["started"] >= USERS
    assert engine["cancelled"] >= USERS / 2
    if not cell.stop_timeout_s:
        assert told["cancelled"] <= USERS / 2


def check_the_files(ended: Ended) -> None:
    """The files that the run wrote at its end hold what it tells."""
    told, folder = ended.told, ended.result.folder
    document = json.loads((folder / "run.json").read_text())
    total = next(name for name in document["names"] if name["name"] is None)
    for count in ("started", "succeeded", "failed", "cancelled"):
        assert total["counts"].get(count, 0) == told[count]
    assert bool(document["run"]["lost_workers"]) == (ended.lost_workers > 0)
    rows = (folder / "run_llm_stats.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == [str(told["succeeded"])] * 2
    assert (folder / "report.html").exists()
    # Locust's own writer stops up to a second before the end (D68).
    locusts = [int(row["Request Count"]) for row in ended.result.csv_rows("stats") if row["Type"] == "E2E"]
    assert sum(locusts) <= told["succeeded"]
