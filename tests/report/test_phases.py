"""Phases as they are told: on the console, in the document and again from it, and in the report."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from locust_llm.measure.stats import RunStats
from locust_llm.report.console import WIDTH, summary_text
from locust_llm.report.document import document, view_of
from locust_llm.report.html import html_of
from locust_llm.report.phases import phases_of
from locust_llm.report.run import RunView
from locust_llm.sim.settings import EngineSettings
from tests.analysis.probing import probe
from tests.measure.build import OFFSET, fed, record, usage

ENGINE = EngineSettings(entry_ms=40, prefill_tps=8000, decode_ms=15, decode_slope_ms=0.4, decode_context_ms=0.5)


def _view(max_tokens: int, users: tuple[int, ...] = (1,)) -> RunView:
    stats = RunStats(0)
    stats.probe.extend(probe(ENGINE, (128, 1024, 4096), max_tokens, users=users, seconds=150))
    return RunView(stats, run="r1", state="stopped")


def test_the_console_tells_each_phase_with_its_fit() -> None:
    text = summary_text(_view(128, (1, 4)))
    told = text[text.index("\nPhases\n") :]
    for label in ("entry", "prefill", "decode", "scheduling", "verdict"):
        assert f"\n{label} " in told
    assert told.count("R² ") == 2
    assert "input tok/s [" in told
    assert max(map(len, told.splitlines())) <= WIDTH


def test_a_run_that_is_no_probe_has_no_phases() -> None:
    stats = fed(*(record((100, 120), n=2, usage=usage(2, 50)) for _ in range(50)))
    view = RunView(stats, state="stopped")
    assert phases_of(stats) is None
    assert "Phases" not in summary_text(view)
    assert document(view)["probe"] is None
    assert "<section>" not in html_of(view)


def test_the_document_holds_them_and_gives_them_again() -> None:
    view = _view(128, (1, 4))
    content = json.loads(json.dumps(document(view), allow_nan=False))
    phases = content["probe"]["phases"]
    assert 38 < phases["prefill"]["entry_ms"]["value"] < 42
    assert len(content["probe"]["requests"]) == len(view.stats.probe)
    again = view_of(content)
    assert phases_of(again.stats) == phases_of(view.stats)


def test_the_report_has_a_chart_for_each_fit() -> None:
    page = html_of(_view(128, (1, 4)))
    section = page[page.index("<section>") : page.index("</section>") + len("</section>")]
    charts = ET.fromstring(section).findall(".//svg")
    assert [chart.get("aria-label") for chart in charts] == [
        "TTFT on prefilled input tokens: measured and fitted, residuals below",
        "TPOT on context: measured and fitted, residuals below",
    ]
    dots = len(charts[0].findall(".//circle"))
    assert dots >= 2 * 12  # each request above and its residual below
    assert charts[0].find("polyline") is not None
    assert charts[1].find("polyline") is None  # with several regressors the fit is no line: crosses


def test_the_log_travels_and_forgets() -> None:
    worker, master = RunStats(OFFSET, lag_s=None, probing=True), RunStats(OFFSET)
    answered = record((100, 120, 140), n=3, usage=usage(3, 50, cached_tokens=7))
    worker.started("chat", answered.started_ns)
    worker.add(answered)
    master.merge_delta(worker.take_delta())
    assert len(worker.probe) == 0
    (point,) = master.probe
    assert (point.input_tokens, point.cached_tokens, point.decode_tokens) == (50, 7, 2)
    assert point.ttft_ms is not None
    assert point.tpot_ms is not None
    assert abs(point.ttft_ms - 100) < 0.01
    assert abs(point.tpot_ms - 20) < 0.01
    master.reset(answered.ended_ns)
    assert len(master.probe) == 0
