"""The run document (`--llm-json FILE`): one JSON object that holds all of a run, to read, compare and tell anew.

`schema` names its version. Percentiles stand beside the histograms they come from, figures beside their definitions,
so that a reader needs nothing else; `stats_of` makes the RunStats again, for the outputs and comparisons that come
later. Missing values are null; there is no NaN and no secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from locust_llm.measure.billing import cost, prices_of
from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.figures import FIGURES
from locust_llm.measure.findings import Finding, Severity
from locust_llm.measure.probe_log import ProbePoint
from locust_llm.measure.series import Row
from locust_llm.measure.stats import RunStats
from locust_llm.measure.summary import SummaryRow, summary
from locust_llm.report.by_length import by_length_dict
from locust_llm.report.calibration_store import Safe
from locust_llm.report.columns import findings, points_columns
from locust_llm.report.compare_sides import sides_dict
from locust_llm.report.files import trouble, write_whole
from locust_llm.report.gates import gates_dict, judgement_of
from locust_llm.report.open_load import open_load_dict, open_load_of
from locust_llm.report.origin import origin_dict, origin_of
from locust_llm.report.phases import phases_dict, phases_of
from locust_llm.report.rebuild import SUMS, stats_of
from locust_llm.report.run import ProcessLag, RunView
from locust_llm.report.server import server_dict, server_of
from locust_llm.report.step_results import results_dict, steps_of, verdict_of
from locust_llm.report.steps import steps_dict
from locust_llm.report.ttft_split import split_dict

SCHEMA: Final = "locust_llm.run"
SCHEMA_VERSION: Final = 1

PERCENTILE_RULE: Final = (
    "Nearest rank over the merged histogram: the smallest value v with at least q*n samples <= v; relative error at "
    "most 0.1 %, never above the max or below the min, which are exact."
)
HISTOGRAM_RULE: Final = (
    "Bucket i holds the samples whose IEEE 754 double, read as an integer and shifted right by 43 bits, is i: 512 "
    "buckets to each power of two."
)


class DocumentError(ValueError):
    """A file that is no run document for us; its text is one sentence that names the file."""


# -- writing -------------------------------------------------------------------------------------------------------


def document(view: RunView) -> dict[str, Any]:
    """The whole run as plain values."""
    stats = view.stats
    names = [*stats.names, None]
    return {
        "schema": f"{SCHEMA}/{SCHEMA_VERSION}",
        "run": _run(view),
        "definitions": _definitions(view),
        "configuration": {
            "target": view.target,
            "models": list(view.models),
            "options": dict(view.options),
            "locust": dict(view.locust_options),
            "engine_command": list(view.engine_command),
            "workload": dict(view.workload),
        },
        "versions": dict(view.versions),
        "machine": dict(view.machine),
        "clock": view.clock,
        "lag": [_fields(lag) for lag in view.lag],
        "findings": findings(view),
        "names": [_name(stats, name) for name in names],
        "marks": {mark: getattr(stats, mark) for mark in _MARKS},
        "series": _series(stats),
        "steps": steps_dict(view.steps, view.verdict) if view.steps else None,
        "step_results": results_dict(view.steps, view.verdict) if view.steps else None,
        "by_length": by_length_dict(stats),
        "lengths": stats.by_length.to_dict(),
        "probe": _probe(stats),
        "server_metrics": server_dict(view.server) if view.server is not None else None,
        "ttft_split": split_dict(view),
        "load": _load(view),
        "open_load": open_load_dict(view),
        "origin": origin_dict(view.origin) if view.origin is not None else None,
        "cost": _cost(view),
        "calibration": asdict(view.calibration) if view.calibration is not None else None,
        "slos": list(view.slos),
        "gates": gates_dict(view.judgement) if view.judgement is not None else None,
        "sides": sides_dict(view.sides) if view.sides is not None else None,
    }


def write_document(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a document, whole or not at all; raises OSError, and ValueError for a number that JSON does not have."""
    write_whole(path, [json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")), "\n"])


_MARKS: Final = ("first_sent_s", "all_running_s", "stopped_s", "reset_s", "complete_s", "min_tokens", "stall_ms")


def _run(view: RunView) -> dict[str, Any]:
    return {
        "id": view.run,
        "test": view.test,
        "state": view.state,
        "simulated": view.simulated,
        "incomplete": view.incomplete,
        "provisional": view.provisional,
        "lost_workers": list(view.lost_workers),
        "started_wall_s": view.started_wall_s,
        "stopped_wall_s": view.stopped_wall_s,
    }


def _definitions(view: RunView) -> dict[str, Any]:
    return {
        "version": view.definitions,
        "percentile": PERCENTILE_RULE,
        "histogram": HISTOGRAM_RULE,
        "distributions": [
            {"key": m.key, "title": m.title, "unit": m.unit, "help": m.help, "pooled": m.pooled, "judged": m.judged}
            for m in DISTRIBUTIONS
        ],
        "figures": [
            {"key": f.key, "title": f.title, "unit": f.unit, "kind": f.kind.value, "help": f.help} for f in FIGURES
        ],
    }


def _load(view: RunView) -> dict[str, Any]:
    """How the load was made, what was asked for and what came of it: users, or requests a second."""
    opened, users = view.open_load, view.locust_options
    return {
        "mode": "steps" if view.options.get("llm_shape") else "open" if opened is not None else "closed",
        "users": users.get("num_users"),
        "spawn_rate_per_s": users.get("spawn_rate"),
        "offered_rps": opened.rate_rps if opened is not None else None,
        "achieved_rps": view.figure("request_throughput"),
    }


def _cost(view: RunView) -> dict[str, Any] | None:
    """The cost of the run by its price list; None without one."""
    prices = prices_of(view.options)
    return asdict(cost(view.stats.counts(), prices)) if prices is not None else None


def _probe(stats: RunStats) -> dict[str, Any] | None:
    """The requests of a probe run (see `ProbePoint` for the columns), and the phases fitted to them."""
    phases = phases_of(stats)
    if phases is None:
        return None
    left_out, requests = stats.probe.pack()
    return {
        "columns": list(ProbePoint._fields),
        "requests": requests,
        "left_out": left_out,
        "phases": phases_dict(phases),
    }


def _fields(lag: ProcessLag) -> dict[str, Any]:
    return {name: getattr(lag, name) for name in ProcessLag.__slots__}


def _name(stats: RunStats, name: str | None) -> dict[str, Any]:
    """Figures, percentiles and counts of one request name, or (name null) of all; histograms of single names only."""
    told: dict[str, Any] = {
        "name": name,
        "figures": {figure.key: figure.of(stats, name) for figure in FIGURES},
        "summary": {row.metric.key: _summary(row) for row in summary(stats, name)},
        "counts": stats.counts(name).pack(),
    }
    blocks = stats.blocks(name)  # what ended in each stretch of the run, by column: for intervals and comparisons
    told["blocks"] = blocks.to_dict() if blocks is not None else None
    if name is not None:
        every = {m.key: stats.histogram(m.key, name) for m in DISTRIBUTIONS}
        sound = {m.key: stats.histogram(m.key, name, lagged=False) for m in DISTRIBUTIONS}
        told["histograms"] = {key: each.to_dict() for key, each in every.items() if each.count}
        # of the requests whose stamps the client's own delay did not touch, where these are not all
        told["untouched"] = {key: sound[key].to_dict() for key in every if sound[key].count != every[key].count}
    return told


def _summary(row: SummaryRow) -> dict[str, Any]:
    percentiles = {
        f"p{q.q * 100:.6g}": {
            "value": q.value,
            "with_failures": q.with_failures,
            "beyond": q.beyond,
            "few": q.few,
        }
        for q in row.quantiles
    }
    return {"n": row.n, "mean": row.mean, "min": row.min, "max": row.max, "percentiles": percentiles}


def _series(stats: RunStats) -> dict[str, Any]:
    """The points by column as charts want them, unrounded, and beside them the sums that make the rows again.

    `output_tokens` weighs events whose tokens nobody told with their name's tokens per event; `open_events` are these,
    by name, and `told_tokens` the rest. `peak_tokens` is the fullest second of a ten-second span.
    """
    points = list(stats.points())
    rows = {second: row for second, _, row in stats.series.rows()}
    found = [rows.get(p.second) or Row() for p in points]
    names = dict.fromkeys(name for row in found for name in row.open or ())
    return {
        **points_columns(points, lambda value: value),
        **{name: [getattr(p, name) for p in points] for name in SUMS},
        "told_tokens": [row.output_tokens for row in found],
        "open_events": {name: [(row.open or {}).get(name, 0) for row in found] for name in names},
        "peak_tokens": [row.peak for row in found],
    }


# -- reading -------------------------------------------------------------------------------------------------------


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document in a file; raises DocumentError when it cannot be read, is none, or is newer than this version."""
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise DocumentError(f"{trouble(path, error)}.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise DocumentError(f"{name} is not JSON; give the file that --llm-json wrote.") from None
    schema, _, version = str(content.get("schema") if isinstance(content, dict) else None).partition("/")
    if schema != SCHEMA or not version.isdecimal():
        raise DocumentError(f"{name} is not a run document; give the file that --llm-json wrote.")
    if int(version) > SCHEMA_VERSION:
        raise DocumentError(
            f"{name} is a run document of version {version}, this locust_llm reads up to {SCHEMA_VERSION}: "
            "update locust_llm."
        )
    result: dict[str, Any] = content
    return result


def view_of(content: Mapping[str, Any]) -> RunView:
    """The run as the outputs tell it, made again from a document; raises DocumentError when parts are missing."""
    try:
        run, configuration, steps = content["run"], content["configuration"], content.get("step_results")
        return RunView(
            stats=stats_of(content),
            run=run["id"],
            test=run["test"],
            simulated=run["simulated"],
            state=run["state"],
            target=configuration["target"],
            models=tuple(configuration["models"]),
            options=configuration["options"],
            locust_options=configuration["locust"],
            versions=content["versions"],
            machine=content["machine"],
            started_wall_s=run["started_wall_s"],
            stopped_wall_s=run["stopped_wall_s"],
            lost_workers=tuple(run["lost_workers"]),
            findings=tuple(Finding(f["key"], Severity(f["severity"]), f["sentence"]) for f in content["findings"]),
            definitions=content["definitions"]["version"],
            lag=tuple(ProcessLag(**lag) for lag in content["lag"]),
            engine_command=tuple(configuration["engine_command"]),
            workload=configuration.get("workload", {}),
            steps=steps_of(steps) if steps is not None else (),
            verdict=verdict_of(steps) if steps is not None else None,
            server=server_of(content["server_metrics"]) if content.get("server_metrics") is not None else None,
            open_load=open_load_of(content["open_load"]) if content.get("open_load") is not None else None,
            slos=tuple(content.get("slos", ())),
            calibration=Safe(**content["calibration"]) if content.get("calibration") is not None else None,
            origin=origin_of(content["origin"]) if content.get("origin") is not None else None,
            judgement=judgement_of(content["gates"]) if content.get("gates") is not None else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(f"the run document is damaged: {type(error).__name__} at {error}.") from None
