"""Rebuild: the RunStats that a run document tells, made again, so that every output and comparison works from a file.

Counts, histograms and the series come back as they were; only sums of floating-point numbers may differ in their last
digits. What was still running is told by its unweighed events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from locust_llm.measure.blocks import Blocks
from locust_llm.measure.catalogue import E2E, ITL, TTFT
from locust_llm.measure.histogram import Histogram
from locust_llm.measure.series import THIN_AFTER_S, THIN_SPAN_S
from locust_llm.measure.smoothness import STALL_MS
from locust_llm.measure.stats import RunStats

SUMS: Final = ("output_tokens", "input_tokens", "started", "succeeded", "failed", "cancelled")
"""The columns of a document's series that are sums over each span."""


def stats_of(content: Mapping[str, Any]) -> RunStats:
    """The statistics that a document tells; raises KeyError, TypeError or ValueError when parts are missing."""
    marks = content["marks"]
    stats = RunStats(0, min_tokens=marks["min_tokens"], lag_s=0, stall_ms=marks.get("stall_ms", STALL_MS))
    for each in content["names"]:
        if each["name"] is not None:
            stats.add_name(each["name"], each["counts"], _packed(each["histograms"], each["untouched"]))
        if each.get("blocks") is not None:  # documents of older versions have none
            stats.add_blocks(each["name"], Blocks.from_dict(each["blocks"]))
    stats.by_length.merge_dict(content.get("lengths", []))
    if content.get("probe") is not None:
        stats.probe.merge_packed((content["probe"]["left_out"], content["probe"]["requests"]))
    for mark in ("first_sent_s", "stopped_s", "all_running_s", "reset_s"):
        setattr(stats, mark, marks[mark])
    stats.now_s = marks["complete_s"]
    _fill_series(stats, content["series"])
    return stats


def _packed(every: Mapping[str, Any], untouched: Mapping[str, Any]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """(histograms of untouched requests, of touched ones) by key; the touched are what is left of all."""
    sound = {key: untouched.get(key, data) for key, data in every.items()}
    touched = {key: _less(every[key], data) for key, data in untouched.items()}
    return _pack(sound), _pack(touched)


def _pack(histograms: Mapping[str, Any]) -> dict[str, bytes]:
    return {key: Histogram.from_dict(data).pack() for key, data in histograms.items() if data["count"]}


def _less(every: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The samples of `every` that are not in `part`. Its smallest and largest are only known to be within those."""
    taken = dict(zip(part["index"], part["counts"], strict=True))
    left = [(i, n - taken.get(i, 0)) for i, n in zip(every["index"], every["counts"], strict=True)]
    return {
        **every,
        "count": every["count"] - part["count"],
        "sum": every["sum"] - part["sum"],
        "index": [i for i, n in left if n],
        "counts": [n for _, n in left if n],
    }


def _fill_series(stats: RunStats, columns: Mapping[str, Any]) -> None:
    series = stats.series
    seconds, spans = columns["second"], columns["span_s"]
    thin = [second + span for second, span in zip(seconds, spans, strict=True) if span == THIN_SPAN_S]
    if thin:
        series.thin(max(thin) + THIN_AFTER_S, stats.tokens_per_event)
    changes = [columns[name][:1] for name in ("in_flight", "succeeded", "failed", "cancelled")]
    series.carried = sum(map(sum, changes)) - sum(columns["started"][:1])  # in flight before the first point
    for i, second in enumerate(seconds):
        row = series.at(second)
        row.output_tokens = columns["told_tokens"][i]
        for name in SUMS[1:]:
            setattr(row, name, columns[name][i])
        row.gauge(columns["oldest_age_s"][i], columns["users"][i])
        row.peak = columns["peak_tokens"][i]
        for name, events in columns["open_events"].items():
            if events[i]:
                row.add_open(name, events[i])
        for label, counts in columns["errors"].items():
            if counts[i]:
                row.add_error(label, counts[i])
        ttft, itl, e2e = (
            (columns[f"{key}_p50"][i], columns[f"{key}_p95"][i], columns[f"{key}_p99"][i]) for key in (TTFT, ITL, E2E)
        )
        row.percentiles = (ttft, itl, e2e)
