"""Closed and open loops on the virtual clock, against what queueing theory says of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import factorial

import pytest

from locust_llm.sim.answers import parse_answer_length
from locust_llm.sim.engine import Engine
from locust_llm.sim.settings import EngineSettings
from locust_llm.sim.virtual import ClosedLoop, OpenLoop, Served, Work, poisson_arrivals_ns
from tests.sim.playing import MS, S

# One request of 200 tokens: its prefill is free (1 ns) and gives the first; 199 steps of 1 ms follow.
FIXED_SERVICE = EngineSettings(slots=1, prefill_tps=float("inf"), decode_ms=1.0, decode_slope_ms=0.0)
SERVICE_S = 0.199
CHAT = EngineSettings(answers=parse_answer_length("lognormal:100:0.5"), faults=())


def waits_s(rows: list[Served]) -> list[float]:
    return [(row.started_ns - row.arrived_ns) / S for row in rows if row.started_ns is not None]


def md1_wait_s(load: float) -> float:
    """Mean wait before service with Poisson arrivals and constant service (Pollaczek and Khinchine)."""
    return load * SERVICE_S / (2 * (1 - load))


def mdc_wait_s(load: float, servers: int) -> float:
    """Mean wait of M/D/c: M/M/c's halved, with Cosmetatos' correction (good to 1 % or so)."""
    offered = load * servers
    erlang_c = offered**servers / (factorial(servers) * (1 - load))
    erlang_c /= sum(offered**k / factorial(k) for k in range(servers)) + erlang_c
    mmc_s = erlang_c * SERVICE_S / (servers * (1 - load))
    correction = 1 + (1 - load) * (servers - 1) * ((4 + 5 * servers) ** 0.5 - 2) / (16 * load * servers)
    return mmc_s / 2 * correction


@pytest.mark.parametrize(("load", "arrivals"), [(0.5, 8000), (0.7, 20_000)])
def test_one_slot_is_md1(load: float, arrivals: int) -> None:
    run = OpenLoop(Engine(FIXED_SERVICE), poisson_arrivals_ns(load / SERVICE_S, arrivals, seed=5), Work(1, 200))
    run.drain()
    mean_s = sum(waits_s(run.rows)) / len(run.rows)
    assert mean_s == pytest.approx(md1_wait_s(load), rel=0.1)


def test_one_slot_follows_lindley_exactly() -> None:
    """Wait of the next = max(0, wait + service − gap), to the nanosecond."""
    run = OpenLoop(Engine(FIXED_SERVICE), poisson_arrivals_ns(4.0, 2000, seed=9), Work(1, 200))
    run.drain()
    rows = sorted(run.rows)
    service_ns = 199 * MS + 1
    expected_ns = [0]
    for before, after in pairwise(rows):
        expected_ns.append(max(0, expected_ns[-1] + service_ns - (after.arrived_ns - before.arrived_ns)))
    assert [row.started_ns - row.arrived_ns for row in rows if row.started_ns is not None] == expected_ns


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("slots", [1, 4])
def test_half_a_million_arrivals_meet_theory(slots: int, load: float) -> None:
    settings = replace(FIXED_SERVICE, slots=slots)
    rate_rps = load * slots / SERVICE_S
    run = OpenLoop(Engine(settings), poisson_arrivals_ns(rate_rps, 500_000, seed=2), Work(1, 200))
    run.drain()
    mean_s = sum(waits_s(run.rows)) / len(run.rows)
    theory_s = md1_wait_s(load) if slots == 1 else mdc_wait_s(load, slots)
    # With several slots a step is shared, so that whoever comes in its middle waits half of it on average.
    assert mean_s == pytest.approx(theory_s + (0.0005 if slots > 1 else 0.0), rel=0.1)


def test_littles_law_holds_in_a_long_run() -> None:
    """Mean number in the system = throughput × mean residence, the one counted by time, the others by request."""
    run = ClosedLoop(Engine(CHAT), Work(300, 400, spread=0.5), think_s=1.0, spawn_s=2.0, seed=3)
    run.set_users(24)
    run.run_for(60.0)
    start_ns, served_before, area_ns = run.now_ns, len(run.rows), 0
    for _ in range(60_000):  # an hour, looked at every 60 ms
        run.run_for(0.06)
        area_ns += run.engine.tally.in_flight * 60 * MS
    seconds = (run.now_ns - start_ns) / S
    rows = run.rows[served_before:]
    residence_s = sum(row.ended_ns - row.arrived_ns for row in rows) / S / len(rows)
    assert area_ns / S / seconds == pytest.approx(len(rows) / seconds * residence_s, rel=0.005)


def test_closed_loop_keeps_its_users_busy_and_fifo_fair() -> None:
    run = ClosedLoop(Engine(CHAT), Work(300, 200), seed=1)
    run.set_users(40)
    run.run_for(120.0)
    assert run.engine.running == 16
    assert run.engine.waiting == 24
    starts = sorted((row.arrived_ns, row.started_ns) for row in run.rows if row.started_ns is not None)
    started_ns = [start_ns for _, start_ns in starts]
    assert started_ns == sorted(started_ns)
    assert {row.user for row in run.rows} == set(range(40))


def test_users_come_and_go() -> None:
    run = ClosedLoop(Engine(CHAT), Work(100, 50), spawn_s=4.0)
    run.set_users(4)
    run.run_for(10.0)
    first_ns = {row.user: row.arrived_ns for row in reversed(run.rows)}
    assert first_ns == {0: 0, 1: S, 2: 2 * S, 3: 3 * S}
    now_ns = run.now_ns
    run.set_users(6, spawn_s=1.0)  # this time over one second
    run.run_for(10.0)
    first_ns = {row.user: row.arrived_ns for row in reversed(run.rows)}
    assert (first_ns[4], first_ns[5]) == (now_ns, now_ns + S // 2)
    run.set_users(1)
    run.run_for(20.0)
    asked = len(run.rows)
    run.run_for(20.0)
    assert {row.user for row in run.rows[asked:]} == {0}
    run.set_users(0)
    run.drain()
    assert run.engine.tally.in_flight == 0
    assert len(run.rows) == run.engine.tally.received


def test_a_refused_user_waits_before_it_asks_again() -> None:
    settings = replace(CHAT, slots=1, max_queue=0, queue_status=429)
    run = ClosedLoop(Engine(settings), Work(100, 200), retry_s=0.5)
    run.set_users(3)
    run.run_for(30.0)
    refused = [row for row in run.rows if row.outcome == "refused"]
    assert {row.status for row in refused} == {429}
    assert 100 < len(refused) <= 122  # two at the start, then two every half second at most
    assert all(row.ended_ns == row.arrived_ns for row in refused)


def test_tokens_in_a_window_are_counted_as_they_come() -> None:
    run = ClosedLoop(Engine(CHAT), Work(100, 150, spread=0.3), seed=2)
    run.set_users(8)
    run.run_for(30.0)
    edges_ns = [number * S // 3 for number in range(91)]
    parts = [run.tokens_between(start_ns, stop_ns) for start_ns, stop_ns in pairwise(edges_ns)]
    assert sum(parts) == run.tokens_between(0, 30 * S) == run.engine.tally.tokens
    assert run.tokens_between(7 * S, 7 * S) == 0
    # A window that opens and closes within single steps, against the same counted step by step.
    single = ClosedLoop(Engine(CHAT), Work(100, 150, spread=0.3), seed=2)
    single.set_users(8)
    counted = 0
    while single.now_ns < 12 * S:
        before_ns, before = single.now_ns, single.engine.tally.tokens
        single.run_until(before_ns + MS)
        if 5 * S < single.now_ns <= 11 * S:
            counted += single.engine.tally.tokens - before
    assert counted == run.tokens_between(5 * S, 11 * S)


def test_throughput_is_what_the_settings_say() -> None:
    """Sixteen streams at 15 + 16 · 0.1 ms: 964 tokens a second, less what prefill takes."""
    run = ClosedLoop(Engine(EngineSettings()), Work(8, 1000, spread=0.3), seed=6)
    run.set_users(16)
    run.run_for(100.0)
    start_ns = run.now_ns
    run.run_for(1000.0)
    rate = run.tokens_between(start_ns, run.now_ns) / 1000
    assert rate == pytest.approx(16 / 0.0166, rel=0.01)
