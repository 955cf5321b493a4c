"""The LLM tab of Locust's web UI, our own page with the charts, and the downloads.

Theory of operation. Locust's own UI stays as it is. By its supported means it gets a tab with a table
(`extended_tabs`, `extended_tables`, and `extended_stats` in each reply of its poll) and the downloads
(`extended_csv_files`); what other plugins put there is kept, and ours is put back whenever the index page is asked
for. The charts are a page of our own, `llm`; a short script (`tab.js`), which the index page is given, shows it in a
frame above the table. Where that script does not find its place, the tab still has its table, and Download Data links
the page.

All routes hang under Locust's base path, ask for its login when there is one, and link relatively. Nothing is computed
while nobody looks; the table's rows, the dear part, are computed at most every two seconds for all who look.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final
from weakref import WeakSet

import gevent
from flask import Blueprint, Response, request

from locust_llm.plugin.events import SIMULATED
from locust_llm.report import csv
from locust_llm.report.columns import live, table_columns, table_row
from locust_llm.report.document import document
from locust_llm.report.html import SCRIPT, STYLE, asset, html_of
from locust_llm.report.run import RunView

KEY: Final = "llm"
TITLE: Final = "LLM"
ROWS_FOR_S: Final = 2.0

PERCENTILES: Final = ("p50", "p95", "p99")
"""Of each metric, those that the tab's table shows beside the number of samples."""

DOWNLOADS: Final = (
    ("./llm", "LLM charts"),
    ("./llm/stats.csv", "Download LLM statistics CSV"),
    ("./llm/history.csv", "Download LLM history CSV"),
    ("./llm/errors.csv", "Download LLM errors CSV"),
    ("./llm/run.json", "Download LLM run document (JSON)"),
    ("./llm/report?download=1", "Download LLM report (HTML)"),
)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'self'"
)
_TAB_SCRIPT: Final = '<script src="./llm/tab.js" defer></script>'

View = Callable[[], RunView]


def install(environment: Any, view: View) -> None:
    """Add tab, page and downloads to the web UI of an Environment, if it has one. Before its first request."""
    ui = environment.web_ui
    if ui is not None:
        rows = Rows(view)
        _extend(ui.template_args)
        ui.app.register_blueprint(_blueprint(ui, view, rows))
        _hook_into(ui, view, rows)


class Rows:
    """The table's rows, kept for ROWS_FOR_S: they are the same for Locust's poll and all pages."""

    def __init__(self, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._clock = clock
        self._until = 0.0
        self._of: tuple[Any, ...] = ()
        self._rows: list[dict[str, Any]] = []

    def __call__(self) -> list[dict[str, Any]]:
        """One row for each request name, then the one of all."""
        view = self._view()
        of = (id(view.stats), view.stats.reset_s, view.provisional)
        if self._clock() >= self._until or of != self._of:
            rows = []
            for name in [*view.stats.names, None]:
                rows.append(table_row(view, name))
                gevent.sleep(0)  # a row of many samples takes milliseconds: let the streams be read in between
            self._rows, self._of, self._until = rows, of, self._clock() + ROWS_FOR_S
        return self._rows


# -- Locust's page -------------------------------------------------------------------------------------------------


def tab_columns() -> list[dict[str, str]]:
    """The columns of the tab's table: name, counts, and of each metric the percentiles and the number of samples."""
    shown = [
        c for c in table_columns() if not c["group"] or c["key"].startswith("n_") or c["key"].endswith(PERCENTILES)
    ]
    return [{"key": c["key"], "title": f"{c['title']} ({c['unit']})" if c["unit"] else c["title"]} for c in shown]


def _tab_rows(view: RunView, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = [column["key"] for column in tab_columns()]
    mark = SIMULATED if view.simulated else ""
    return [{key: row[key] for key in keys} | {"name": row["name"] + mark} for row in rows]


def _extend(template_args: dict[str, Any]) -> None:
    """Put what is ours beside what others put there, once however often it is called."""
    ours: dict[str, list[dict[str, Any]]] = {
        "extended_tabs": [{"title": TITLE, "key": KEY}],
        "extended_tables": [{"key": KEY, "structure": tab_columns()}],
        "extended_csv_files": [{"href": href, "title": title} for href, title in DOWNLOADS],
    }
    for name, entries in ours.items():
        kept = list(template_args.get(name) or ())
        template_args[name] = kept + [entry for entry in entries if entry not in kept]


def _hook_into(ui: Any, view: View, rows: Rows) -> None:
    """Extend the index page and the reply of Locust's poll."""
    done: WeakSet[Response] = WeakSet()  # Locust hands out one reply for two seconds

    @ui.app.before_request  # type: ignore[untyped-decorator]
    def extend() -> None:
        if request.endpoint == "locust.index":
            _extend(ui.template_args)

    @ui.app.after_request  # type: ignore[untyped-decorator]
    def add(response: Response) -> Response:
        if response.status_code == 200 and response not in done:
            if request.endpoint == "locust.index" and response.mimetype == "text/html":
                page = response.get_data(as_text=True)
                response.set_data(page.replace("</body>", f"{_TAB_SCRIPT}</body>"))
            elif request.endpoint == "locust.request_stats" and response.is_json:
                done.add(response)
                _add_rows(response, _tab_rows(view(), rows()))
        return response


def _add_rows(response: Response, rows: list[dict[str, Any]]) -> None:
    reply = response.get_json(silent=True)
    if isinstance(reply, dict):
        others = [entry for entry in reply.get("extended_stats") or () if entry.get("key") != KEY]
        reply["extended_stats"] = [*others, {"key": KEY, "data": rows}]
        response.set_data(json.dumps(reply))


# -- our routes ----------------------------------------------------------------------------------------------------


def _blueprint(ui: Any, view: View, rows: Rows) -> Blueprint:
    routes: dict[str, Callable[[], Response]] = {
        "/llm": _page,
        "/llm/tab.js": lambda: _script("tab.js"),
        "/llm/app.js": lambda: _script(SCRIPT),
        "/llm/series": lambda: _series(view(), rows),
        "/llm/report": lambda: _report(view()),
        "/llm/run.json": lambda: _download(view(), "run.json", [json.dumps(document(view()), allow_nan=False)]),
        "/llm/stats.csv": lambda: _download(view(), "stats.csv", csv.stats_lines(view())),
        "/llm/errors.csv": lambda: _download(view(), "errors.csv", csv.errors_lines(view())),
        "/llm/history.csv": lambda: _download(view(), "history.csv", _history(view())),
    }
    blueprint = Blueprint("locust_llm", __name__, url_prefix=ui.app.blueprints["locust"].url_prefix)
    for rule, answer in routes.items():
        blueprint.add_url_rule(
            rule, endpoint=rule.strip("/").replace(".", "_"), view_func=ui.auth_required_if_enabled(answer)
        )
    return blueprint


def _page() -> Response:
    response = Response(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>Locust {TITLE}</title>\n<link rel="icon" href="./assets/favicon-light.png">\n'
        f"<style>\n{asset(STYLE)}</style>\n</head>\n<body>\n"
        '<script src="./llm/app.js"></script>\n</body>\n</html>\n',
        mimetype="text/html",
    )
    response.headers["Content-Security-Policy"] = _POLICY
    return response


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(asset(name).encode(), mtime=0)


def _script(name: str) -> Response:
    zipped = request.accept_encodings["gzip"] > 0
    response = Response(_zipped(name) if zipped else asset(name), mimetype="text/javascript")
    if zipped:
        response.content_encoding = "gzip"
    response.vary.add("Accept-Encoding")
    response.cache_control.no_cache = True
    response.add_etag()
    response.make_conditional(request)
    return response


def _series(view: RunView, rows: Rows) -> Response:
    reply = live(view, request.args.get("since", type=int), rows=rows() if "table" in request.args else [])
    response = Response(json.dumps(reply, allow_nan=False, separators=(",", ":")), mimetype="application/json")
    response.cache_control.no_store = True
    return response


def _report(view: RunView) -> Response:
    if "download" in request.args:
        return _download(view, "report.html", [html_of(view)])
    return Response(html_of(view), mimetype="text/html")


def _history(view: RunView) -> Iterable[str]:
    return (csv.line(csv.HISTORY_COLUMNS), *csv.history_lines(view, view.stats.points()))


def _download(view: RunView, name: str, text: Iterable[str]) -> Response:
    # Lone surrogates of a server's text cannot be encoded; they are written as \udc00.
    response = Response("".join(text).encode(errors="backslashreplace"), content_type=_TYPES[name.rsplit(".", 1)[1]])
    mark = "_simulated" if view.simulated else ""
    response.headers["Content-Disposition"] = f"attachment; filename=llm_test{view.test}{mark}_{name}"
    response.cache_control.no_store = True
    return response


_TYPES: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8"}
