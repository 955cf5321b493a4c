"""Locust's own CSV files, written once more at the end.

Locust writes them once a second and not when it ends, so that the answers of the last second are missing: of streams
that end together in the drain, that is many. Replaced, not written into: Locust's own handles still hold older text,
which goes to the file they opened.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from locust import stats

from locust_llm.report.files import write_whole


def rewrite(environment: Any, prefix: str) -> None:
    """Write PREFIX_stats.csv, PREFIX_failures.csv and PREFIX_exceptions.csv as they stand now; raises OSError."""
    told = stats.StatsCSV(environment, stats.PERCENTILES_TO_REPORT)
    for kind, write in (
        ("stats", told.requests_csv),
        ("failures", told.failures_csv),
        ("exceptions", told.exceptions_csv),
    ):
        text = io.StringIO(newline="")
        write(csv.writer(text))
        write_whole(f"{prefix}_{kind}.csv", [text.getvalue()])
