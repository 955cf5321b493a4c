"""The Knee panel and the gates in a real browser, over made-up runs: live page and report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from locust_llm.analysis.judgement import Circumstances, judge
from locust_llm.analysis.knee import read_steps
from locust_llm.analysis.overload import OpenTotals
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.server_sample import ServerSample, ServerSeries
from locust_llm.report.html import html_of
from locust_llm.report.run import RunView
from tests.report.stepped import LOADS, rate_view, sweep, user_step
from tests.web.browser import chromium, colours, context_of, until, values
from tests.web.made_up import made_up
from tests.web.runs import BEGAN_S, HOSTILE, stats_of, view_of

GATES = tuple(map(parse_gate, ("ttft:p50<1s", "ttft:p50<1ms", "nobody/ttft:p95<1s")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def cells(page: Page, box: str) -> list[list[str]]:
    """The texts of a table's body."""
    rows = page.locator(f"{box} tbody tr")
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def test_points_fill_in_as_steps_end(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["locust"])
    steps = sweep()
    running = view_of(stats_of(), state="running", step_now="step of 1 users: measuring", gates=GATES)
    with made_up(running) as site, context_of(browser, site.url) as (context, _):
        page = context.new_page()
        page.goto(f"{site.url}llm")
        panel = page.locator(".knee")
        panel.get_by_text("step of 1 users: measuring").wait_for()
        assert "knee" not in values(page)  # no step, no chart
        _gates_stand_provisional(page)
        site.change(steps=steps[:3], step_now="step of 8 users: too few outcomes")
        until("three points", lambda: values(page).get("knee") == 3, page)
        assert "when all steps have ended" in panel.locator(".verdict").inner_text()
        site.change(steps=steps, verdict=read_steps(steps, 64, complete=True), step_now=None, state="stopped")
        until("all points", lambda: values(page)["knee"] == len(LOADS), page)
        assert panel.locator(".sentence").inner_text().startswith("Knee at 14 users (between 8 and 23)")
        assert "server" not in values(page)  # nobody asked for its metrics
        assert page.locator(".gates").is_hidden()  # a test that is over without a judgement
        _the_panel_tells_all(page)


def _gates_stand_provisional(page: Page) -> None:
    box = page.locator(".gates")
    assert "1 breached so far, 1 met so far, 1 too early to tell" in box.locator("p.outcome").inner_text()
    found = cells(page, ".gates")
    assert [row[-1].split("\n")[0] for row in found] == ["✓ met so far", "✗ breached so far", "? too early to tell"]
    assert "none: the test runs" in found[0][2]


def _the_panel_tells_all(page: Page) -> None:
    chart = page.locator("#chart-knee")
    legend = chart.locator(".legend").inner_text()
    for told in ("output tok/s", "TTFT p95 (right)", "knee 14", "bracket 8 to 23", "zone 11.1 to 17.6"):
        assert told in legend
    assert "not steady" not in legend
    assert chart.locator(".plot").get_attribute("data-bars") == str(len(LOADS) - 1)  # one step has no interval
    assert "against running users" in chart.locator("h3").inner_text()
    assert "16: 499 tok/s, TTFT p95 144 ms" in (chart.locator(".plot").get_attribute("aria-label") or "")
    until("the lines are seen", lambda: colours(page)["knee"] > 500, page)
    facts = page.locator(".verdict dl").inner_text()
    for told in ("slots or KV capacity", "Streams decoding\n14 → 14, growth 0.00", "Requests in flight\n23 → 64"):
        assert told in facts
    rows = cells(page, ".knee")
    assert len(rows) == len(LOADS)
    assert [row[0] for row in rows if "best" in row[0]] == ["16 best"]


@contextmanager
def report_of(browser: Browser, folder: Path, view: RunView, theme: str) -> Iterator[Page]:
    path = folder / "report.html"
    path.write_text(html_of(view))
    with context_of(browser, path.as_uri(), color_scheme=theme) as (context, _):
        page = context.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        yield page
        assert page.locator("img").count() == 0
        assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_of_a_sweep(browser: Browser, tmp_path: Path, theme: str) -> None:
    steps = sweep()
    view = view_of(stats_of(), steps=steps, verdict=read_steps(steps, 64, complete=True))
    with report_of(browser, tmp_path, view, theme) as page:
        _the_panel_tells_all(page)
        page.emulate_media(media="print")
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        until("it is drawn for paper", lambda: colours(page)["knee"] > 500, page)
        assert page.locator(".verdict").is_visible()


def test_the_report_of_rates(browser: Browser, tmp_path: Path) -> None:
    samples = [ServerSample("vllm", running=second % 8, waiting=3, kv_use=second / 100) for second in range(60)]
    series = ServerSeries("http://host/metrics", [BEGAN_S + 0.5 + second for second in range(60)], samples)
    with report_of(browser, tmp_path, replace(rate_view(), server=series), "dark") as page:
        server = page.locator("#chart-server")
        assert values(page)["server"] == 180
        assert "preemptions" not in server.locator(".legend").inner_text()  # the engine does not tell
        assert "KV in use (right)" in server.locator(".legend").inner_text()
        chart = page.locator("#chart-knee")
        assert page.locator(".knee h2").inner_text() == "Sustained rate"
        assert "against requests/s offered" in chart.locator("h3").inner_text()
        legend = chart.locator(".legend").inner_text()
        assert all(told in legend for told in ("sustained 8", "overloaded 11.31", "hollow: not steady"))
        assert "8 requests/s are sustained" in page.locator(".sentence").inner_text()
        assert page.locator(".knee thead").inner_text().startswith("rate req/s")
        assert values(page)["knee"] == 5


STRANGE = [
    ("hostile texts", (user_step(1, why=HOSTILE, errors={HOSTILE: 3}), user_step(4)), 2),
    ("one step", (user_step(4),), 1),
    ("nothing succeeded", (replace(user_step(1), throughput=None),), 0),
]


@pytest.mark.parametrize(("steps", "drawn"), [s[1:] for s in STRANGE], ids=[s[0] for s in STRANGE])
def test_strange_steps_have_a_panel(browser: Browser, tmp_path: Path, steps, drawn: int) -> None:  # type: ignore[no-untyped-def]
    verdict = replace(read_steps(steps, 64, complete=True), sentence=HOSTILE, notes=(HOSTILE,))
    with report_of(browser, tmp_path, view_of(stats_of(), steps=steps, verdict=verdict), "light") as page:
        assert values(page)["knee"] == drawn
        assert page.locator(".sentence").inner_text() == HOSTILE
        assert len(cells(page, ".knee")) == len(steps)


def test_gates_and_open_load_in_the_report(browser: Browser, tmp_path: Path) -> None:
    stats = stats_of()
    lost = OpenTotals(scheduled=100, sent=60, dropped=40, waiting=0, rate_rps=1.0)
    view = view_of(stats, gates=GATES, judgement=judge(stats, GATES, Circumstances()), open_load=lost)
    with report_of(browser, tmp_path, view, "dark") as page:
        assert page.locator(".gates p.outcome").inner_text() == "✗ breached Breached: ttft:p50<1ms."
        rows = cells(page, ".gates")
        assert [row[-1].split("\n")[0] for row in rows] == ["✓ met", "✗ breached", "? not judged"]
        assert rows[0][1].endswith(" s")
        assert rows[0][3] == "60"
        assert "no request is named 'nobody'" in rows[2][-1]
        colour = "el => getComputedStyle(el).color"
        kinds = ("met", "breached", "unjudged")
        shown = {page.locator(f".gates td.outcome.{kind} b").evaluate(colour) for kind in kinds}
        assert len(shown) == 3
        load = page.locator(".open-load").inner_text()
        assert "✗ Overloaded: of 100 arrivals offered, 40 were dropped" in load
        assert "Scheduled\n100 at 1 requests/s" in load
