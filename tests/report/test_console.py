"""The console's table and live line, and the Markdown of the same: what stands there, how wide, and what never does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from locust_llm.measure.findings import Finding, Severity
from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.stats import RunStats
from locust_llm.report.console import WIDTH, live_line, summary_text
from locust_llm.report.markdown import summary_markdown
from locust_llm.report.run import RunView
from tests.measure.build import OFFSET, ns, record, running
from tests.report.runs import runs, small_run, view_of

SMALL = """\
LLM figures · SIMULATED · INCOMPLETE · whole run · chat · stamps of the kernel clock
                                  n         p50         p90         p95         p99         max
  TTFT (ms)                       2         100*        200*        200*        200*        200
  TTFT with failures                        200        >200        >200        >200
  ITL (ms)                        6        20.0        30.0*       30.0*       30.0*       30.0
  TPOT (ms)                       2        20.0*       30.0*       30.0*       30.0*       30.0
  E2E (ms)                        2         160*        290*        290*        290*        290
  E2E with failures                         290        >290        >290        >290
------------------------------------------------------------------------------------------------
* too few samples to trust this percentile
with failures: a failed request counts as longer than any other; > is the longest success
output      4.50 tok/s · 5.00 at peak · 40.0 tok/s per stream
tokens      8 out (from usage) · 30 in
requests    2 succeeded · 1 failed (33.3 %) · 1 cancelled · 1.00 succeeded/s
failures    1 × http_500
smoothness  largest gap p50 20.0 p99 30.0 ms · 0 stalls over 250 ms per 1,000 tok · 100 % keep a 20 tok/s reader busy
warning     Something is wrong."""


def test_table_of_the_small_run() -> None:
    view = view_of(small_run(), simulated=True, lost_workers=("w1",))
    view = replace(view, findings=(Finding("wrong", Severity.WARNING, "Something is wrong."),))
    assert summary_text(view) == SMALL


def test_several_names_stand_below_each_metric() -> None:
    text = summary_text(view_of([*small_run(), record([50, 60], n=2, name="rag")]))
    first = text.split("ITL (ms)")[0].splitlines()[2:]
    assert [" ".join(line.split()[:3]) for line in first] == [
        "TTFT (ms)",
        "chat 2 100*",
        "rag 1 50.0*",
        "Aggregated 3 100*",
        "with failures 100",
    ]


def test_many_names_are_summed() -> None:
    text = summary_text(view_of([record([50, 60], n=2, name=f"name-{i}") for i in range(9)]))
    assert "name-1" not in text
    assert "9 request names" in text
    assert "TTFT (ms)" in text


def test_a_run_without_anything() -> None:
    text = summary_text(RunView(RunStats(OFFSET)))
    assert "No answer that could be timed." in text
    assert "0 succeeded · 0 failed · 0 cancelled" in text


def test_content_after_reasoning_is_shown_where_it_differs() -> None:
    reasoning = record([100, 200, 300], n=3, first_visible_ns=ns(300))
    plain = record([100, 200, 300], n=3, first_visible_ns=ns(100))
    assert "TTFC (ms)" in summary_text(view_of([reasoning]))
    assert "TTFC" not in summary_text(view_of([plain]))


def test_times_from_schedule_are_shown_where_requests_start_late() -> None:
    late = record([300], n=1, sent=200, started=200, scheduled=100)
    text = summary_text(view_of([late]))
    assert re.search(r"TTFT from schedule.* 1 +200\*", text)
    assert re.search(r"E2E from schedule.* 1 +200\*", text)


def test_a_run_that_still_goes_on_says_so() -> None:
    assert "run so far, provisional" in summary_text(view_of(small_run(), state="running"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("x" * 300, "x" * 59 + "…"), ("two\nlines\x1b[31m", "two?lines?[31m"), ("名前", "名前")],
)
def test_hostile_names(name: str, shown: str) -> None:
    text = summary_text(view_of([record([1, 2], n=2, name=name), record([1], n=1, name=name)]))
    assert shown in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_many_kinds_of_failure_are_cut() -> None:
    failures = [record([], outcome=Outcome.FAILED, error=f"error_{i}") for i in range(10)]
    assert "1 × error_5 · 4 other kinds" in summary_text(view_of(failures))


# -- live ----------------------------------------------------------------------------------------------------------


def test_live_line() -> None:
    view = view_of(small_run(), state="running", simulated=True)
    assert live_line(view) == (
        "LLM SIMULATED · 3.00 tok/s · TTFT p50 100 p99 200 ms · ITL p50 20.0 p99 30.0 ms · "
        "1 failed · 0 in flight · 2 ok"
    )


def test_live_line_in_a_stall() -> None:
    """D17: nothing arrives: 0 tok/s, percentiles blank, the oldest request's age."""
    stats = RunStats(OFFSET, lag_s=0)
    hanging = running(started=0)
    stats.started("chat", hanging.started_ns)
    for s in range(30):
        stats.tick(ns(1000 * s), [hanging], 1)
    assert live_line(RunView(stats, state="running")) == (
        "LLM · 0 tok/s · TTFT – · ITL – · 1 in flight · oldest 29.0 s · 0 ok"
    )


def test_live_line_before_the_first_second() -> None:
    assert live_line(RunView(RunStats(OFFSET), state="spawning")) == "LLM · no whole second yet · 0 in flight · 0 ok"


def test_live_line_leaves_out_what_does_not_fit() -> None:
    """Numbers as long as they get: the failures stay; what Locust tells as well goes."""
    slow = [record([198_000 + i, 200_000 + i], n=10_000_000, ended=200_100 + i) for i in range(3)]
    failures = [record([], outcome=Outcome.FAILED, error="x", ended=200_000)] * 1000
    view = view_of([*slow, *failures], stop_ms=None, state="running", simulated=True, lost_workers=("w",))
    line = live_line(view)
    assert len(line) <= WIDTH
    assert line.startswith("LLM SIMULATED INCOMPLETE · ")
    assert line.endswith(" ms · 1,000 failed")


# -- any run -------------------------------------------------------------------------------------------------------

NO_NUMBER = re.compile(r"\b(nan|inf|None)\b")  # a name of these runs holds "naïve", not "nan"


@settings(max_examples=40, deadline=None)
@given(runs)
def test_any_run_fits_and_has_no_nan(records: list[RequestRecord]) -> None:
    for state in ("running", "stopped"):
        view = view_of(records, state=state, simulated=True)
        for text in (summary_text(view), live_line(view)):
            assert max(map(len, text.splitlines())) <= WIDTH
            assert not NO_NUMBER.search(text)
            assert "SIMULATED" in text
        markdown = summary_markdown(view)
        assert not NO_NUMBER.search(markdown)
        assert "SIMULATED" in markdown


# -- markdown ------------------------------------------------------------------------------------------------------


def test_markdown_of_the_small_run() -> None:
    view = view_of(small_run(), simulated=True)
    view = replace(view, findings=(Finding("wrong", Severity.ERROR, "A *bad* <thing>."),))
    assert (
        summary_markdown(view)
        == r"""### LLM load test · SIMULATED

**4.50** output tok/s · **40.0** tok/s per stream · **1.00** req/s · 2 succeeded, 1 failed (33.3 %), 1 cancelled

| Name | Metric | n | p50 | p90 | p95 | p99 | max |
| --- | --- | --: | --: | --: | --: | --: | --: |
| chat | TTFT (ms) | 2 | 100\* | 200\* | 200\* | 200\* | 200 |
| chat | TTFT with failures |  | 200 | >200 | >200 | >200 |  |
| chat | ITL (ms) | 6 | 20.0 | 30.0\* | 30.0\* | 30.0\* | 30.0 |
| chat | TPOT (ms) | 2 | 20.0\* | 30.0\* | 30.0\* | 30.0\* | 30.0 |
| chat | E2E (ms) | 2 | 160\* | 290\* | 290\* | 290\* | 290 |
| chat | E2E with failures |  | 290 | >290 | >290 | >290 |  |

- \* too few samples to trust this percentile
- with failures: a failed request counts as longer than any other; \> is the longest success
- **error**: A \*bad\* \<thing\>.
"""
    )


def test_markdown_names_break_no_table() -> None:
    markdown = summary_markdown(view_of([record([1, 2], n=2, name="a|b\n`c`")]))
    assert r"| a\|b \`c\` | TTFT (ms) | 1 |" in markdown
