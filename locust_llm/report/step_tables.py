"""Step tables: a sweep or search on the console, in its CSV file, and in the experiment log that grows over runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

from locust_llm.analysis.step import StepResult
from locust_llm.report.csv import line
from locust_llm.report.digits import three
from locust_llm.report.run import RunView
from locust_llm.report.steps import COLUMNS, CSV_COLUMNS, Cell, Column, columns_of, error_labels, heading, verdict_lines

# -- console -------------------------------------------------------------------------------------------------------

_WIDTH: Final = 10
_WORDS: Final = 15


def table_head(steps: Sequence[StepResult]) -> list[str]:
    """The two heading lines of the console's table, for these steps."""
    columns = columns_of(COLUMNS, steps)
    titles = "".join(f"{column.title:>{_width(column)}}" for column in columns)
    units = "".join(f"{column.unit:>{_width(column)}}" for column in columns)
    return [titles, units.rstrip()]


def table_line(step: StepResult) -> str:
    """One step as a line of the console's table."""
    probe = f"  probe: answers × {step.output_factor:g}" if step.output_factor != 1 else ""
    return "".join(f"{_shown(column.of(step)):>{_width(column)}}" for column in COLUMNS) + probe


def _width(column: Column) -> int:
    """Words need more room than numbers."""
    return _WORDS if column.key == "status" else _WIDTH


def table_text(view: RunView) -> str:
    """The whole table with the verdict below; '' when no step was run."""
    if not view.steps:
        return ""
    title = " · ".join(("Steps", *view.marks))
    rows = [title, *table_head(view.steps), *(table_line(step) for step in view.steps)]
    if view.verdict is not None:
        rows += ["", *verdict_lines(view.verdict)]
    return "\n".join(rows)


def _shown(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        number = three(value)
        return f"{number:,}" if number is not None else "-"
    return f"{value:,}" if isinstance(value, int) else value


# -- files ---------------------------------------------------------------------------------------------------------


def csv_lines(view: RunView) -> Iterator[str]:
    """`PREFIX_llm_steps.csv`: a row per step, in the order they were run."""
    yield line([*(heading(column) for column in columns_of(CSV_COLUMNS, view.steps)), "Marks"])
    for step in view.steps:
        yield line([*(column.of(step) for column in CSV_COLUMNS), " ".join(view.marks)])


LOG_COLUMNS: Final = (
    "date", "run", "model", "host", "users or rate", "input tokens", "max_tokens", "TTFT p50 (ms)", "TTFT p95 (ms)",
    "TPOT p50 (ms)", "output speed (tok/s)", "throughput (tok/s)", "errors", "notes",
)  # fmt: skip


def append_log(path: str, view: RunView) -> None:
    """Append the steps of a run to the experiment log, a CSV file that grows over runs; raises OSError."""
    fresh = not os.path.exists(path) or os.path.getsize(path) == 0
    with open(path, "a", encoding="utf-8", newline="") as file:
        if fresh:
            file.write(line(LOG_COLUMNS))
        file.writelines(_log_lines(view))


def _log_lines(view: RunView) -> Iterator[str]:
    options = view.options
    for step in view.steps:
        tpot = step.tpot_ms.value if step.tpot_ms is not None else None
        notes = [*view.marks, *([step.status.value] if step.status.value != "steady" else [])]
        notes += [f"probe ×{step.output_factor:g}"] if step.output_factor != 1 else []
        notes += [f"repeat {step.repeat}"] if step.repeat > 1 else []
        yield line(
            [
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(step.begin_s)),
                view.run,
                ", ".join(view.models),
                view.target,
                step.load,
                options.get("llm_input_tokens"),
                options.get("llm_max_tokens"),
                step.ttft.p50,
                step.ttft.p95,
                step.tpot.p50,
                1e3 / tpot if tpot else None,
                step.throughput.value if step.throughput is not None and step.unit == "tok/s" else None,
                error_labels(step) or 0,
                " ".join(notes) or None,
            ]
        )
