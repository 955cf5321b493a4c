"""HTML: a run as one self-contained page, to keep, mail and print: headline, charts, tables, set-up, definitions.

The page is the same script and style as the live page's (`webui/`), and the run as JSON beside it; nothing is loaded
from anywhere, which a content policy in the page enforces. Texts of the run (names, labels, model ids) are hostile:
they stand in the JSON only, in which no `<` and nothing but ASCII is left, and the script makes text nodes of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from locust_llm.measure.billing import cost, prices_of
from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.figures import FIGURES, Figure, Kind
from locust_llm.report.by_length import by_length_html
from locust_llm.report.client_delay import read_delay_text
from locust_llm.report.columns import live
from locust_llm.report.console import audit_text, cost_text
from locust_llm.report.digits import Number, short
from locust_llm.report.document import PERCENTILE_RULE, view_of
from locust_llm.report.phases import phases_html, phases_of
from locust_llm.report.run import ProcessLag, RunView
from locust_llm.report.ttft_split import HELP, TITLE, split_text

SCRIPT: Final = "built/app.js"
STYLE: Final = "style.css"

_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

Pairs = list[tuple[str, str]]


@cache
def asset(name: str) -> str:
    """The text of a file of `locust_llm/webui`."""
    return files("locust_llm").joinpath("webui", name).read_text(encoding="utf-8")


def html_report(content: Mapping[str, Any]) -> str:
    """The page of a run document; raises DocumentError when the document is damaged."""
    return html_of(view_of(content))


def html_of(view: RunView) -> str:
    """The page of a run."""
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
            f'<title>{" ".join(("LLM load test", *view.marks))}</title>\n<link rel="icon" href="data:,">\n',
            f"<style>\n{asset(STYLE)}</style>\n</head>\n<body>\n",
            "<noscript>This report draws itself with the script that it holds: allow it to run.</noscript>\n",
            f'<script type="application/json" id="llm-run">{_embedded(report(view))}</script>\n',
            *_below(view),
            f"<script>{asset(SCRIPT)}</script>\n</body>\n</html>\n",
        )
    )


def _below(view: RunView) -> Iterator[str]:
    """Sections that are written here, not drawn by the script, which puts them below all that it draws."""
    yield by_length_html(view.stats)
    phases = phases_of(view.stats)
    if phases is not None:
        yield phases_html(phases)


def report(view: RunView) -> dict[str, Any]:
    """What the page holds: the live page's reply, with all points, and what stands below it."""
    return live(view, limit=None) | {
        "about": about(view),
        "figures": [*((_title(f), _figure(view, f), f.help) for f in FIGURES), *_bill(view), *_split(view)],
        "configuration": [(title, _pairs(entries)) for title, entries in _configuration(view)],
        "definitions": [{"title": d.title, "unit": d.unit, "help": d.help} for d in DISTRIBUTIONS],
        "definitions_version": view.definitions,
        "percentile_rule": PERCENTILE_RULE,
    }


def about(view: RunView) -> Pairs:
    """What was tested, when, and by which run."""
    return _pairs(
        {
            "Target": view.target,
            "Model": view.models,
            "Started": _utc(view.started_wall_s),
            "Stopped": _utc(view.stopped_wall_s),
            "Run": view.run,
            "Test of its session": view.test,
            "Lost workers": view.lost_workers,
            "Clock of the stamps": view.clock,
        }
    )


def _embedded(content: Any) -> str:
    """JSON that may stand in a script element, whatever its texts are."""
    text = json.dumps(content, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _utc(wall_s: float | None) -> str | None:
    return None if wall_s is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall_s))


def _title(figure: Figure) -> str:
    # a share and a count may have the same title
    return f"{figure.title} (share)" if figure.kind is Kind.SHARE else figure.title


def _figure(view: RunView, figure: Figure) -> str:
    value = view.figure(figure.key)
    if value is None:
        return ""
    if figure.kind is Kind.SHARE:
        return f"{value:.2%}"
    return f"{_grouped(short(value) if figure.kind is Kind.RATE else value)} {figure.unit}".rstrip()


def _bill(view: RunView) -> Iterator[tuple[str, str, str]]:
    """The cost and the billing audit among the figures."""
    counts, prices = view.stats.counts(), prices_of(view.options)
    if prices is not None:
        yield "Cost", cost_text(cost(counts, prices)), "Told tokens by the price list, in its currency."
    if counts.audited:
        yield "Billing audit", audit_text(counts), "Output tokens that usage names, and those counted on our side."


def _split(view: RunView) -> Iterator[tuple[str, str, str]]:
    text = split_text(view)
    if text is not None:
        yield TITLE, text, HELP


def _grouped(value: Number | None) -> str:
    return "" if value is None else f"{value:,}"


def _configuration(view: RunView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "Load", view.locust_options
    yield "Options", {f"--{name.replace('_', '-')}": value for name, value in view.options.items()}
    yield "Embedded engine", {"command": " ".join(view.engine_command)}
    yield "Versions", view.versions
    yield "Machine", view.machine
    yield "How late the client ran", {lag.process: _lag(lag) for lag in view.lag}


def _lag(lag: ProcessLag) -> str:
    told = (("p50", lag.p50_ms, " ms"), ("p99", lag.p99_ms, " ms"), ("max", lag.max_ms, " ms"))
    parts = [f"{name} {value:.3g}{unit}" for name, value, unit in told if value is not None]
    share = [f"{lag.cpu_share:.0%} of a CPU"] if lag.cpu_share is not None else []
    late = [f"packets read within {read_delay_text(lag)}"] if lag.reads else []
    return ", ".join((*parts, *share, f"n {lag.samples:,}", *late))


def _pairs(entries: Mapping[str, Any]) -> Pairs:
    """Names and values as text, without those that are not set."""
    return [(name, text) for name, value in entries.items() if (text := _text(value))]


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return json.dumps(value, default=str) if value else ""
    return ", ".join(map(_text, value)) if isinstance(value, Iterable) else str(value)
