"""The TTFT split in words and as plain values; nothing without `--llm-server-metrics`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from locust_llm.analysis.ttft_split import NoSplit, TtftSplit, ttft_split
from locust_llm.report.lines import number
from locust_llm.report.run import RunView

TITLE: Final = "TTFT split"
HELP: Final = (
    "Mean TTFT by the server's own histograms, from its first to its last page of this run. Means, because their sums"
    " and counts tell no more. Network and entry is the client's mean less the server's."
)


def split_text(view: RunView) -> str | None:
    """One line; None when the server's metrics were not asked for."""
    if view.server is None:
        return None
    split = ttft_split(view.stats, view.server)
    if isinstance(split, NoSplit):
        return f"none. {split.why}"
    parts = [
        f"{number(round(ms, 3) + 0.0)} {what}"
        for ms, what in (
            (split.network_ms, "network and entry"),
            (split.queue_ms, "server queue"),
            (split.prefill_ms, "prefill"),
            (split.rest_ms, _rest(split)),
        )
        if ms is not None
    ]
    return f"mean {number(split.client_ms)} ms = {' + '.join(parts)}; n {split.n:,} ours, {split.server_n:,} server's"


def _rest(split: TtftSplit) -> str:
    inside = [what for what, ms in (("queue", split.queue_ms), ("prefill", split.prefill_ms)) if ms is None]
    return "rest of the server's TTFT" + (f" ({' and '.join(inside)} in it)" if inside else "")


def split_dict(view: RunView) -> dict[str, Any] | None:
    """For the run document: means in ms, or `none`, why there is no split; None when the metrics were not asked for."""
    if view.server is None:
        return None
    split = ttft_split(view.stats, view.server)
    if isinstance(split, NoSplit):
        return {"none": split.why}
    return {"help": HELP, **asdict(split), "network_ms": split.network_ms, "rest_ms": split.rest_ms}
