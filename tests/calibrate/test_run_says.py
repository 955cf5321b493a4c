"""What a run says of its own client: how late it read, and whether it went past what calibration found safe."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from locust_llm.measure.findings import RunFacts, Severity, findings
from locust_llm.measure.record import Clock
from locust_llm.measure.stats import RunStats
from locust_llm.plugin import read_delays, view
from locust_llm.plugin.listener import Health
from locust_llm.report.calibration_store import Safe
from locust_llm.report.client_delay import client_delay_text
from locust_llm.report.columns import headline
from locust_llm.report.run import ProcessLag
from tests.measure.build import OFFSET, record
from tests.measure.play import Play, stream
from tests.report.runs import view_of

HERE, SAFE = socket.gethostname(), Safe(400, 600, 50.0, "2026-12-01")


def running(streams: int) -> RunStats:
    """So many streams of 50 tokens a second side by side for some seconds."""
    stats = RunStats(OFFSET)
    Play(stats, [stream(10.0, first=50, gap=20, events=400) for _ in range(streams)]).until(6)
    return stats


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        (RunFacts(safe_streams=10, safe_stream_tps=50.0), Severity.WARNING),
        (RunFacts(safe_streams=10, safe_stream_tps=200.0), Severity.NOTE),
        (RunFacts(safe_streams=10), Severity.WARNING),
    ],
    ids=["as-fast", "slower-streams", "unknown"],
)
def test_slow_streams_past_the_safe_number_are_only_a_note(facts: RunFacts, severity: Severity) -> None:
    (found,) = [finding for finding in findings(running(21), facts) if finding.key == "too_many_streams"]
    assert found.severity is severity
    assert "Up to 21 streams ran in one process, with up to 1,050 tokens/s" in found.sentence
    assert "right up to 10 streams" in found.sentence


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        (["local"], SAFE),
        ([f"{HERE}_1", f"{HERE}_2"], SAFE),
        ([f"{HERE}_1", "elsewhere_2"], None),
        (["elsewhere_1"], None),
    ],
    ids=["local", "workers-here", "one-elsewhere", "elsewhere"],
)
def test_a_calibration_counts_for_its_own_machine(
    processes: list[str], expected: Safe | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "saved", lambda: SAFE)
    assert view._calibrated([ProcessLag(process, 1) for process in processes]) == expected


def test_delays_of_reads_are_told_once_each_as_upper_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    lags = [0] * 64
    monkeypatch.setattr(read_delays, "collector", lambda: SimpleNamespace(lags=lags))
    delays = read_delays.ReadDelays()
    assert delays.take().count == 0
    lags[20] += 99  # below 2^20 ns
    lags[25] += 1
    taken = delays.take()
    assert (taken.count, taken.max) == (100, 2**25 / 1e6)
    assert taken.percentile(0.5) == pytest.approx(2**20 / 1e6, rel=0.001)
    assert delays.take().count == 0


def test_health_travels_whole() -> None:
    health = Health()
    for histogram, value in ((health.lag_ms, 1.0), (health.cpu_percent, 50.0), (health.read_ms, 2.0)):
        histogram.add(value)
    came = Health.unpack(health.pack())
    assert [h.max for h in (came.lag_ms, came.cpu_percent, came.read_ms)] == [1.0, 50.0, 2.0]


READ = ProcessLag("local", 9, reads=100, read_p50_ms=1.05, read_p99_ms=4.19, read_max_ms=8.39)
WORSE = ProcessLag("w_2", 9, reads=100, read_p50_ms=2.1, read_p99_ms=16.8, read_max_ms=33.6)


@pytest.mark.parametrize(
    ("lag", "words"),
    [
        ((), None),
        ((ProcessLag("local", 9),), None),
        ((READ,), "read packets within 1.1 ms (p50), 4.2 ms (p99), 8.4 ms (max) of their arrival"),
        ((READ, WORSE), "17 ms (p99), 34 ms (max) of their arrival (w_2)"),
    ],
    ids=["nothing", "no-kernel-stamps", "one", "the-worst-of-two"],
)
def test_the_console_says_how_late_packets_were_read(lag: tuple[ProcessLag, ...], words: str | None) -> None:
    text = client_delay_text(view_of([], lag=lag))
    assert text is None if words is None else words in (text or "")


def test_the_page_shows_it_on_top() -> None:
    told = {figure["key"]: figure for figure in headline(view_of([], lag=(READ, WORSE)))}
    assert (told["read_delay_p99"]["value"], told["read_delay_p99"]["unit"]) == (16.8, "ms")
    assert "read_delay_p99" not in {figure["key"] for figure in headline(view_of([]))}


def test_only_stamps_of_the_kernel_are_called_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = view_of([], lag=(READ,))
    assert "touches no kernel stamp" not in (client_delay_text(shown) or "")
    monkeypatch.setattr(type(shown), "clock", property(lambda _: Clock.KERNEL.value))
    assert "touches no kernel stamp" in (client_delay_text(shown) or "")
    together = view_of([record((100, 100, 120), n=3)], lag=(READ,))
    assert "the last packet of each read" in (client_delay_text(together) or "")
