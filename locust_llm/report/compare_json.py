"""Comparison as one JSON object (`--json FILE`), for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from locust_llm.analysis.compare import Row
from locust_llm.report.compare import Compared, Told
from locust_llm.report.compare_lines import finite, verdict_text

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
        "figures": [_figure(row) for row in comparison.rows],
    }


def _side(side: Sequence[Told]) -> list[dict[str, Any]]:
    runs = [(told, told.content["run"]) for told in side]
    return [
        {"file": told.file, "id": run.get("id"), "test": run.get("test"), "started_wall_s": told.run.started_s}
        for told, run in runs
    ]


def _figure(row: Row) -> dict[str, Any]:
    subject, found = row.subject, row.difference
    return {
        "figure": str(subject),
        "title": subject.title,
        "unit": "" if subject.is_share else subject.unit,
        "name": subject.name,
        "base": finite(found.base),
        "run": finite(found.run),
        "base_beyond": found.base_beyond,
        "run_beyond": found.run_beyond,
        "base_n": found.base_n,
        "run_n": found.run_n,
        "change": finite(found.change),
        "change_is": "difference" if subject.is_share else "ratio - 1",
        "low": finite(found.low),
        "high": finite(found.high),
        "interval": found.yardstick.value if found.yardstick is not None else None,
        "p": finite(found.p),
        "verdict": row.verdict.value if row.verdict is not None else None,
        "reason": row.reason,
    }
