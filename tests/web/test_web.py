"""The web UI's routes and hooks, asked as a browser asks; the browser itself is in test_browser."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import jsonify, request
from flask.testing import FlaskClient
from flask_login import UserMixin, login_user
from locust.env import Environment

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.stats import RunStats
from locust_llm.plugin import web
from locust_llm.report.html import SCRIPT, asset
from locust_llm.report.run import RunView
from tests.web.runs import HOSTILE, stats_of, view_of

ROUTES = (
    ("llm", "text/html", "./llm/app.js"),
    ("llm/tab.js", "text/javascript", "MutationObserver"),
    ("llm/app.js", "text/javascript", "ECharts"),
    ("llm/series", "application/json", '"points"'),
    ("llm/report", "text/html", "llm-run"),
    ("llm/run.json", "application/json", "locust_llm.run/"),
    ("llm/stats.csv", "text/csv", "Aggregated"),
    ("llm/history.csv", "text/csv", "Timestamp"),
    ("llm/errors.csv", "text/csv", ""),
)


class Site:
    """A Locust web UI with the tab, asked without a server; `view` may be changed."""

    def __init__(self, *, base_path: str = "", login: bool = False) -> None:
        self.environment = Environment()
        self.environment.create_local_runner()
        self.ui = self.environment.create_web_ui(
            "127.0.0.1", 0, web_base_path=base_path or None, web_login=login, delayed_start=True
        )
        self.view = view_of(stats_of(fails=lambda number: "HTTP 500" if number % 10 == 0 else None))
        self.base_path = base_path
        self.asked = 0

    def install(self) -> None:
        web.install(self.environment, self._view)

    def _view(self) -> RunView:
        self.asked += 1
        return self.view

    def client(self) -> FlaskClient:
        client: FlaskClient = self.ui.app.test_client()
        return client

    def get(self, path: str) -> Any:
        return self.client().get(f"{self.base_path}/{path}")


@contextmanager
def site_of(**how: Any) -> Iterator[Site]:
    site = Site(**how)
    try:
        yield site
    finally:
        site.environment.runner.quit()


@pytest.fixture(autouse=True)
def _no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locust's index page parses the command line of its process."""
    monkeypatch.setattr("sys.argv", ["locust"])


@pytest.fixture
def site() -> Iterator[Site]:
    with site_of() as made:
        made.install()
        yield made


@pytest.mark.parametrize("base_path", ["", "/x"])
@pytest.mark.parametrize(("path", "kind", "part"), ROUTES, ids=[route[0] for route in ROUTES])
def test_routes_answer(path: str, kind: str, part: str, base_path: str) -> None:
    with site_of(base_path=base_path) as site:
        site.install()
        response = site.get(path)
        assert (response.status_code, response.mimetype) == (200, kind)
        assert part in response.text
        if base_path:
            assert site.client().get(f"/{path}").status_code == 404


def test_every_route_is_in_the_table(site: Site) -> None:
    rules = {
        rule.rule.strip("/") for rule in site.ui.app.url_map.iter_rules() if rule.endpoint.startswith("locust_llm.")
    }
    assert rules == {route[0] for route in ROUTES}


@pytest.mark.parametrize("path", [route[0] for route in ROUTES])
def test_login_is_asked_for(path: str) -> None:
    with site_of(login=True) as site:
        app = site.ui.app
        app.secret_key = "a test's"

        class Tester(UserMixin):
            id = "tester"

        site.ui.login_manager.user_loader(lambda _: Tester())
        app.add_url_rule("/let-me-in", view_func=lambda: str(login_user(Tester())))
        site.install()
        refused = site.get(path)
        assert (refused.status_code, refused.location.split("?")[0]) == (302, "/login")
        client = site.client()
        client.get("/let-me-in")
        assert client.get(f"/{path}").status_code == 200
        poll = site.get("stats/requests")  # the hook meets a reply that is no JSON
        assert poll.status_code == 302


def test_the_index_page_loads_the_tab_script_once(site: Site) -> None:
    for _ in range(2):
        page = site.get("").text
        assert page.count('<script src="./llm/tab.js" defer></script></body>') == 1


def test_all_links_are_relative(site: Site) -> None:
    page = site.get("llm").text
    links = re.findall(r'(?:src|href)="([^"]*)"', page) + [href for href, _ in web.DOWNLOADS]
    assert links
    assert all(link.startswith("./") for link in links)
    assert '"./llm' in asset("tab.js")
    assert "//" not in re.sub(r"^\s*//.*", "", asset("tab.js"), flags=re.M)


def test_what_other_plugins_put_there_is_kept() -> None:
    theirs = {"title": "Theirs", "key": "theirs"}
    with site_of() as site:
        site.ui.template_args["extended_tabs"] = [theirs]
        site.install()
        for _ in range(2):
            site.get("")
        assert site.ui.template_args["extended_tabs"] == [theirs, {"title": "LLM", "key": "llm"}]
        # one that comes later and overwrites loses nothing either
        site.ui.template_args["extended_csv_files"] = [{"href": "./theirs", "title": "Theirs"}]
        page = site.get("").text
        assert "./theirs" in page
        assert page.count("./llm/stats.csv") == 1


def test_polls_are_extended_beside_others() -> None:
    with site_of() as site:
        site.install()

        @site.ui.app.after_request
        def theirs(response: Any) -> Any:
            if request.endpoint == "locust.request_stats":
                response.set_data(json.dumps(response.get_json() | {"extended_stats": [{"key": "theirs", "data": []}]}))
            return response

        reply = site.get("stats/requests").json
        assert [entry["key"] for entry in reply["extended_stats"]] == ["theirs", "llm"]
        assert reply["state"] == "ready"


def test_a_poll_that_locust_kept_is_not_extended_again(site: Site) -> None:
    first = site.get("stats/requests").json
    asked = site.asked
    assert site.get("stats/requests").json == first
    assert site.asked == asked


@pytest.mark.parametrize("reply", ["[1]", "null", "{broken"])
def test_a_strange_poll_is_left_alone(reply: str) -> None:
    with site_of() as site:
        site.install()
        site.ui.app.view_functions["locust.request_stats"] = lambda: site.ui.app.response_class(
            reply, mimetype="application/json"
        )
        assert site.get("stats/requests").text == reply


def test_rows_of_the_tab(site: Site) -> None:
    site.view = view_of(stats_of(names=("a", HOSTILE)), simulated=True)
    (entry,) = site.get("stats/requests").json["extended_stats"]
    rows = entry["data"]
    assert [row["name"] for row in rows] == [f"{name} (SIMULATED)" for name in ("a", HOSTILE, "Aggregated")]
    keys = [column["key"] for column in web.tab_columns()]
    assert all(list(row) == sorted(keys) or set(row) == set(keys) for row in rows)
    for metric in DISTRIBUTIONS:
        assert {f"n_{metric.key}", *(f"{metric.key}_{q}" for q in ("p50", "p95", "p99"))} <= set(keys)
    assert rows[2]["n_ttft"] == rows[0]["n_ttft"] + rows[1]["n_ttft"] == 60
    for row in rows:
        for key in ("ttft_p50", "itl_p99", "e2e_p95"):
            assert row[key] == float(f"{row[key]:.3g}")
        assert row["itl_token_p50"] is None  # nothing was told: no value, not 0


def test_camel_case_of_the_columns_is_unambiguous() -> None:
    """Locust's page turns keys_like_this into keysLikeThis, in columns and rows alike."""
    keys = [column["key"] for column in web.tab_columns()]
    camel = [re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), key) for key in keys]
    assert len(set(camel)) == len(keys)


def test_series_since(site: Site) -> None:
    everything = site.get("llm/series").json
    seconds = everything["points"]["second"]
    later = site.get(f"llm/series?since={seconds[-4]}").json
    assert later["points"]["second"] == seconds[-3:]
    assert site.get(f"llm/series?since={seconds[-1]}").json["points"]["second"] == []
    assert site.get("llm/series?since=nonsense").json["points"]["second"] == seconds
    assert len(site.get(f"llm/series?since={seconds[-4]}").data) < 4000


def test_the_table_comes_when_asked_for(site: Site) -> None:
    assert site.get("llm/series").json["table"]["rows"] == []
    table = site.get("llm/series?table=1").json["table"]
    assert [row["name"] for row in table["rows"]] == ["chat", "Aggregated"]
    assert "columns" in table
    assert "columns" not in site.get("llm/series?table=1&since=1").json["table"]


def test_more_points_than_a_reply_holds(site: Site) -> None:
    site.view = view_of(stats_of(seconds=2500, every_s=100))
    first = site.get("llm/series").json
    assert first["more"]
    rest = site.get(f"llm/series?since={first['points']['second'][-1]}").json
    assert not rest["more"]
    seconds = first["points"]["second"] + rest["points"]["second"]
    assert len(seconds) == len(set(seconds)) == len(list(site.view.stats.points()))


def test_no_run_yet(site: Site) -> None:
    site.view = RunView(RunStats(0))
    for path, _, _ in ROUTES:
        assert site.get(path).status_code == 200
    assert site.get("llm/series").json["run"] == ""


def test_script_is_zipped_and_kept_by_the_browser(site: Site) -> None:
    client = site.client()
    plain = client.get("/llm/app.js")
    assert plain.text == asset(SCRIPT)
    zipped = client.get("/llm/app.js", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(zipped.data).decode() == plain.text
    assert len(zipped.data) < 200_000
    again = client.get("/llm/app.js", headers={"Accept-Encoding": "gzip", "If-None-Match": zipped.headers["ETag"]})
    assert again.status_code == 304


def test_downloads_hold_the_run(site: Site) -> None:
    site.view = view_of(stats_of(fails=lambda number: "HTTP 500" if number % 10 == 0 else None), simulated=True, test=2)

    def rows(path: str) -> list[dict[str, str]]:
        response = site.get(path)
        name = f"llm_test2_simulated_{path.removeprefix('llm/')}"
        assert response.headers["Content-Disposition"] == f"attachment; filename={name}"
        return list(csv.DictReader(io.StringIO(response.text)))

    assert [(row["Name"], row["Request Count"], row["Failure Count"]) for row in rows("llm/stats.csv")] == [
        ("chat", "60", "6"),
        ("Aggregated", "60", "6"),
    ]
    assert len(rows("llm/history.csv")) == len(list(site.view.stats.points()))
    assert len(rows("llm/errors.csv")) == 1
    assert site.get("llm/run.json").json["run"]["id"] == "abc123"
    assert "attachment" not in site.get("llm/report").headers.get("Content-Disposition", "")
    assert site.get("llm/report?download=1").headers["Content-Disposition"].endswith("_report.html")


def test_rows_are_computed_every_two_seconds_at_most() -> None:
    now = 100.0
    view = view_of(stats_of(), state="running")
    rows = web.Rows(lambda: view, clock=lambda: now)
    first = rows()
    now += 1.9
    assert rows() is first
    now += 0.2
    second = rows()
    assert second is not first
    view = view_of(view.stats, state="stopped")  # the last figures are not kept back
    third = rows()
    assert third is not second
    view = view_of(stats_of(seconds=20))
    assert rows()[-1]["started"] == 20


def test_without_a_web_ui_nothing_happens() -> None:
    environment = Environment()
    web.install(environment, lambda: pytest.fail("asked for a view"))


def test_errors_of_other_endpoints_are_left_alone(site: Site) -> None:
    site.ui.app.add_url_rule("/theirs", view_func=lambda: jsonify(extended_stats="theirs"))
    assert site.get("theirs").json == {"extended_stats": "theirs"}
