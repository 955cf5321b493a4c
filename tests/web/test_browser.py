"""The LLM tab in a real browser, during real runs against the embedded engine."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from locust_llm.report.html import html_of
from locust_llm.report.run import RunView
from tests.web.browser import chromium, colours, context_of, figure, llm_frame, locust_ui, span, until, values
from tests.web.login_locustfile import PASSWORD, USER
from tests.web.made_up import made_up
from tests.web.runs import hostile_view, stats_of, view_of

LOGIN = Path(__file__).with_name("login_locustfile.py")
ALWAYS = ("ttft", "itl", "tokens", "load", "e2e")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def open_tab(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("tab", name="LLM").click()


def test_the_tab_during_a_run(browser: Browser, tmp_path: Path) -> None:
    with locust_ui(tmp_path, "--autostart") as (url, _), context_of(browser, url) as (context, _):
        page = context.new_page()
        open_tab(page, url)
        _figures_move(page)
        _reload_keeps_the_points(page)
        _locusts_table_stands_below(page)
        _theme_is_followed(page)
        _nothing_is_cut_off(page)
        _downloads_have_the_rows(page, tmp_path)
        _a_stopped_test_is_final(page)
        _the_next_is_numbered(page, url)
        _reset_clears(page)


def _figures_move(page: Page) -> None:
    frame = llm_frame(page)
    until("all charts draw", lambda: all(values(frame)[chart] > 3 for chart in ALWAYS), page)
    until("the lines are seen", lambda: all(colours(frame)[chart] > 50 for chart in ALWAYS), page)
    assert "No request has failed" in frame.locator("#chart-errors").inner_text()
    before, shown = span(frame), figure(frame, "ttft_p50")
    assert shown.endswith("ms")
    assert float(figure(frame, "output_throughput").split()[0].replace(",", "")) > 0
    tile = frame.locator('.headline [data-key="ttft_p50"]')
    tile.focus()  # by the keyboard, as one sentence
    assert tile.get_attribute("aria-label").startswith("TTFT p50: ")
    n = tile.locator(".note").inner_text()
    until("seconds are added", lambda: span(frame)[1] >= before[1] + 2, page)
    until("samples are added", lambda: tile.locator(".note").inner_text() != n, page)
    assert tile.evaluate("tile => tile === document.activeElement"), "the focus is lost at an update"
    marks = frame.locator(".marks").inner_text()
    assert "SIMULATED" in marks
    assert "PROVISIONAL" in marks
    assert frame.locator("h1").inner_text() == "Test 1 · running"


def _reload_keeps_the_points(page: Page) -> None:
    before, drawn = span(llm_frame(page)), values(llm_frame(page))
    page.reload()
    frame = llm_frame(page)
    after = span(frame)
    assert after[0] == before[0]
    assert after[1] >= before[1]
    assert all(values(frame)[chart] >= drawn[chart] for chart in ALWAYS)
    assert frame.evaluate("() => window.frameElement.clientHeight >= document.querySelector('main').clientHeight")


def _locusts_table_stands_below(page: Page) -> None:
    row = page.locator("table tr", has_text="chat (SIMULATED)")
    until("the table has our row", lambda: row.count() == 1, page)
    head = page.locator("table th").all_inner_texts()
    cells = dict(zip(head, row.locator("td").all_inner_texts(), strict=True))
    assert float(cells["TTFT p50 (ms)"]) > 0
    assert int(cells["TTFT n"]) > 0
    page.get_by_role("tab", name="Charts").click()
    page.wait_for_selector("#llm-charts", state="detached")
    page.get_by_role("tab", name="LLM").click()
    llm_frame(page)


def _theme_is_followed(page: Page) -> None:
    frame = llm_frame(page)

    def theme() -> str:
        return str(frame.evaluate("() => document.documentElement.dataset.theme"))

    first = theme()
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = frame.evaluate(background)
    page.locator("header button").last.click()
    until("the frame follows Locust's theme", lambda: theme() != first, page)
    assert (first, theme()) == ("light", "dark")
    assert frame.evaluate(background) != light
    assert frame.evaluate(background) == page.evaluate(background)
    page.reload()
    frame = llm_frame(page)
    assert theme() == "dark"
    until("the lines are seen", lambda: all(colours(frame)[chart] > 50 for chart in ALWAYS), page)


def _nothing_is_cut_off(page: Page) -> None:
    for width in (600, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        frame = llm_frame(page)
        until(
            f"the page fits {width} px",
            lambda frame=frame: frame.evaluate(
                "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
                " && document.documentElement.scrollHeight <= window.innerHeight"
            ),
            page,
        )


def _downloads_have_the_rows(page: Page, folder: Path) -> None:
    page.get_by_role("tab", name="Download Data").click()
    rows = {}
    for title, kind in (("statistics", "stats"), ("history", "history"), ("errors", "errors")):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"LLM {title} CSV").click()
        path = folder / f"{kind}.csv"
        download.value.save_as(path)
        with path.open(newline="") as lines:
            rows[kind] = list(csv.DictReader(lines))
    assert [row["Name"] for row in rows["stats"]] == ["chat", "Aggregated"]
    assert len(rows["history"]) > 3
    assert rows["errors"] == []
    with page.expect_download() as download:
        page.get_by_role("link", name="LLM report").click()
    assert "llm-run" in download.value.path().read_text()


def _a_stopped_test_is_final(page: Page) -> None:
    page.get_by_role("tab", name="LLM").click()
    frame = llm_frame(page)
    before, drawn = span(frame), values(frame)
    page.get_by_role("button", name="Stop").click()
    until("the test is over", lambda: frame.locator("h1").inner_text() == "Test 1 · stopped", page)
    assert "PROVISIONAL" not in frame.locator(".marks").inner_text()
    assert span(frame)[0] == before[0]
    assert all(values(frame)[chart] >= drawn[chart] for chart in ALWAYS)


def _the_next_is_numbered(page: Page, url: str) -> None:
    frame = llm_frame(page)
    last = span(frame)[1]
    assert page.request.post(f"{url}swarm", form={"user_count": "2", "spawn_rate": "2", "host": "sim"}).ok
    until("the next test shows", lambda: frame.locator("h1").inner_text() == "Test 2 · running", page)
    until("it has points of its own", lambda: (now := span(frame)) is not None and now[0] >= last, page)


def _reset_clears(page: Page) -> None:
    page.reload()  # Locust shows its buttons for the running test
    frame = llm_frame(page)
    before = span(frame)
    page.get_by_role("button", name="Reset").click()
    until("the charts begin anew", lambda: (now := span(frame)) is None or now[0] > before[0], page)
    until("new points come", lambda: span(frame) is not None, page)
    assert span(frame)[0] >= before[1] - 1


def test_started_from_the_form_on_workers(browser: Browser, tmp_path: Path) -> None:
    with (
        locust_ui(tmp_path, "--processes", "2", ready="Starting web interface") as (url, _),
        context_of(browser, url) as (context, _),
    ):
        page = context.new_page()
        page.goto(f"{url}llm")
        page.locator("h1", has_text="No test has run yet").wait_for()
        assert page.locator(".chart").first.is_hidden()
        page.goto(f"{url}?tab=llm")
        start = page.get_by_role("button", name="Start")
        start.wait_for()
        assert page.locator("#llm-charts").count() == 0  # before a test there are no tabs
        start.click()
        frame = llm_frame(page)
        until("all charts draw", lambda: all(values(frame)[chart] > 0 for chart in ALWAYS), page)
        assert frame.locator("h1").inner_text() == "Test 1 · running"
        until("the users of both workers show", lambda: 4 in frame.evaluate(USERS), page)


def test_the_end_of_a_test_brings_all_its_points(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running test is asked for its last seconds only; points of long requests may have changed before these."""
    monkeypatch.setattr("sys.argv", ["locust"])
    with (
        made_up(view_of(stats_of(seconds=60), state="running")) as site,
        context_of(browser, site.url) as (context, _),
    ):
        page = context.new_page()
        page.goto(f"{site.url}llm")
        until("the page has points", lambda: span(page) is not None, page)
        assert "PROVISIONAL" in page.locator(".marks").inner_text()
        first, last = span(page)
        drawn = values(page)
        site.change(stats=stats_of(seconds=64, quiet=range(20, 40)), state="stopped")
        until("the test is over", lambda: page.locator("h1").inner_text() == "Test 1 · stopped", page)
        assert "PROVISIONAL" not in page.locator(".marks").inner_text()
        assert span(page) == (first, last + 4)
        assert values(page)["itl"] < drawn["itl"]  # the silence of half a minute ago is seen
        assert values(page)["load"] > drawn["load"]


USERS = """async () => (await (await fetch("./llm/series")).json()).points.users"""


def test_login_and_base_path(browser: Browser, tmp_path: Path) -> None:
    args = ("--autostart", "--web-login", "--web-base-path", "/x")
    with (
        locust_ui(tmp_path, *args, locustfile=LOGIN, base_path="/x") as (url, _),
        context_of(browser, url) as (context, _),
    ):
        page = context.new_page()
        for path in ("llm", "llm/series", "llm/stats.csv"):
            assert page.request.get(url + path, max_redirects=0).headers["location"].startswith("/x/login")
        page.goto(url + "llm")
        page.locator('input[name="username"]').fill(USER)
        page.locator('input[name="password"]').fill(PASSWORD)
        page.get_by_role("button", name="Login").click()
        page.get_by_role("tab", name="LLM").click()
        frame = llm_frame(page)
        until("all charts draw", lambda: all(values(frame)[chart] > 0 for chart in ALWAYS), page)
        page.goto(url + "llm")  # on its own, with the tables
        until("the table has our row", lambda: page.locator("tbody th", has_text="chat").count() > 0, page)
        context.clear_cookies()  # the login ends while the page is open
        page.locator(".message", has_text="Your login has ended").wait_for()


REPORTS = [
    ("no run", lambda: RunView(stats_of(seconds=0)), ()),
    ("hostile texts", hostile_view, (*ALWAYS, "errors")),
    ("only failures", lambda: view_of(stats_of(fails=lambda n: f"HTTP {500 + n % 12}")), ("errors", "load")),
    ("long", lambda: view_of(stats_of(seconds=4000, every_s=20)), ALWAYS),
]


@pytest.mark.parametrize(("view", "drawn"), [r[1:] for r in REPORTS], ids=[r[0] for r in REPORTS])
def test_the_report_alone(browser: Browser, tmp_path: Path, view, drawn) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "report.html"
    path.write_text(html_of(view()))
    url = path.as_uri()
    with context_of(browser, url, color_scheme="dark") as (context, _):
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("h1")
        assert page.locator("img").count() == 0
        shown = values(page)
        assert all(shown[chart] > 0 for chart in drawn)
        assert all(value < 3 * 2400 + 1 for value in shown.values())  # three lines, however long the run
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        if view is hostile_view:  # paper takes a browser seconds
            assert page.pdf()[:4] == b"%PDF"
