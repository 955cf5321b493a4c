"""The server's own metrics as columns, for the run document and charts."""

from __future__ import annotations

from typing import Any

from locust_llm.measure.server_sample import ServerSeries
from locust_llm.report.run import shown_url

COLUMNS = ("running", "waiting", "kv_use", "preemptions", "prompt_tokens", "cached_tokens")


def server_dict(series: ServerSeries) -> dict[str, Any]:
    """`at_s` (wall clock) and a list for each metric beside it; null where the engine does not tell it."""
    return {
        "url": shown_url(series.url),
        "engine": series.samples[-1].engine if series.samples else None,
        "at_s": [round(at_s, 3) for at_s in series.at_s],
        **{name: [getattr(sample, name) for sample in series.samples] for name in COLUMNS},
    }
