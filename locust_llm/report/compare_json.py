"""Comparison as one JSON object (`--json FILE`), for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from locust_llm.report.compare import Compared, Told
from locust_llm.report.compare_lines import figure_dict, verdict_text

SCHEMA: Final = "locust_llm.comparison/1"


def comparison_dict(compared: Compared) -> dict[str, Any]:
    """Plain values; shares and changes are fractions (0.05: 5 %), times in ms."""
    comparison, changes = compared.comparison, compared.changes
    return {
        "schema": SCHEMA,
        "verdict": comparison.verdict.value,
        "sentence": verdict_text(comparison),
        "unproven": comparison.unproven,
        "interleaved": comparison.interleaved,
        "min_effect": comparison.rules.min_effect,
        "baseline_spread": comparison.rules.stored,
        "simulated": any(told.simulated for told in (*compared.base, *compared.run)),
        "base": _side(compared.base),
        "run": _side(compared.run),
        "changes": {
            "sentence": changes.sentence,
            "between": [{"variable": c.variable, "base": c.base, "run": c.run} for c in changes.between],
            "within": list(changes.within),
            "untold": list(changes.untold),
        },
        "figures": [figure_dict(row) for row in comparison.rows],
    }


def _side(side: Sequence[Told]) -> list[dict[str, Any]]:
    runs = [(told, told.content["run"]) for told in side]
    return [
        {"file": told.file, "id": run.get("id"), "test": run.get("test"), "started_wall_s": told.run.started_s}
        for told, run in runs
    ]
