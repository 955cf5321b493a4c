"""Findings: each is found at its threshold and not below it."""

from __future__ import annotations

import pytest

from locust_llm.measure.findings import FINDINGS, RunFacts, Severity, findings
from locust_llm.measure.record import Outcome, RequestRecord, TokenSource, Transit
from locust_llm.measure.stats import RunStats
from locust_llm.measure.tokens import count_words
from tests.measure.build import OFFSET, SECOND, T0, fed, ns, record, usage
from tests.measure.play import Play, Script, stream

REUSED = Transit(reused=True)
NOTHING = RunFacts()


def good(**more: object) -> RequestRecord:
    """A request that nothing can be said against."""
    given: dict[str, object] = {"n": 40, "transit": REUSED, "usage": usage(40, 100), **more}
    return record(tuple(range(100, 900, 20)), **given)  # type: ignore[arg-type]


def good_but(count: int, **more: object) -> RunStats:
    """A hundred requests, `count` of them different."""
    return fed(*(good(**more) for _ in range(count)), *(good() for _ in range(400 - count)))


def failed(count: int, total: int = 400) -> RunStats:
    bad = (record((), outcome=Outcome.FAILED, error="HTTP 503") for _ in range(count))
    return fed(*bad, *(good() for _ in range(total - count)))


def buffered(count: int) -> RunStats:
    bursts = (record(tuple(1000 + i / 20 for i in range(40)), n=40, transit=REUSED) for _ in range(count))
    return fed(*bursts, *(good() for _ in range(400 - count)))


def tokens_an_event(events: int, tokens: int) -> RunStats:
    return fed(*(record(tuple(range(100, 100 + 20 * events, 20)), n=tokens, transit=REUSED) for _ in range(400)))


def coalesced(count: int) -> RunStats:
    doubled = (*range(100, 880, 20), 860)
    return fed(*(record(doubled, n=40, transit=REUSED) for _ in range(count)), *(good() for _ in range(400 - count)))


def short_lived(count: int) -> RunStats:
    return fed(*(record((100, 120), n=2, transit=REUSED) for _ in range(count)), *(good() for _ in range(400 - count)))


def asked_for_more(count: int) -> RunStats:
    return fed(*(good(max_tokens=41) for _ in range(count)), *(good(max_tokens=40) for _ in range(400 - count)))


def billed(tokens: int) -> RunStats:
    """Answers of forty words that are billed as so many tokens."""
    stats = RunStats(OFFSET, counter=count_words)
    answer = good(n=tokens, text="word " * 40, usage=usage(tokens, 100))
    for _ in range(400):
        stats.started("chat", answer.started_ns)
        stats.add(answer)
    return stats


def unreused(count: int) -> RunStats:
    return good_but(count, transit=Transit())


def ticked(stats: RunStats) -> RunStats:
    stats.tick(T0 + 10 * SECOND, (), users=4)
    return stats


def started_in(waves: bool) -> RunStats:
    """32 users for 40 s, answers of 4 s each: all at once, or spread."""
    stats = RunStats(OFFSET)
    stats.mark_all_users_running(ns(4000))
    scripts = [
        stream(turn * 4000.0 + (0 if waves else user * 125.0), first=100, gap=500, events=7)
        for turn in range(11)
        for user in range(32)
    ]
    Play(stats, scripts).until(40)
    return stats


def stopped(steady: bool) -> RunStats:
    stats = fed(*(good() for _ in range(400)))
    if steady:
        stats.mark_all_users_running(ns(100))
    stats.mark_stop(ns(5000))
    return stats


def streams(number: int) -> RunStats:
    stats = RunStats(OFFSET)
    Play(stats, [Script(10.0) for _ in range(number)]).until(5)
    return stats


FOUND = [
    pytest.param("simulated", good_but(0), RunFacts(simulated=True), id="simulated"),
    pytest.param("worker_lost", good_but(0), RunFacts(lost_workers=("host_1",)), id="D73-worker-lost"),
    pytest.param("nothing_succeeded", failed(5, 5), NOTHING, id="nothing-succeeded"),
    pytest.param("client_busy", good_but(0), RunFacts(cpu_share=0.91), id="D21-cpu"),
    pytest.param("client_busy", good_but(0), RunFacts(hub_lag_p99_ms=20.5), id="D21-hub"),
    pytest.param("lagged", good_but(5, transit=Transit(max_lag_ns=6_000_000, reused=True)), NOTHING, id="lagged"),
    pytest.param("too_many_streams", streams(21), RunFacts(safe_streams=10, processes=2), id="too-many-streams"),
    pytest.param("clock_faults", fed(record((100, 50), n=2)), NOTHING, id="D81"),
    pytest.param("buffered", buffered(1), NOTHING, id="D24"),
    pytest.param("not_streamed", good_but(1, streamed=False), NOTHING, id="D59"),
    pytest.param("not_streamed", good_but(400, streamed=False), NOTHING, id="D59-all"),
    pytest.param("coalesced", coalesced(200), NOTHING, id="coalesced"),
    pytest.param("censored", failed(5), NOTHING, id="D22"),
    pytest.param("many_cancelled", good_but(41, outcome=Outcome.CANCELLED), NOTHING, id="D15"),
    pytest.param("usage_absent", good_but(1, source=TokenSource.CHUNKS), NOTHING, id="D34"),
    pytest.param("billing", billed(42), NOTHING, id="billed-too-much"),
    pytest.param("billing", billed(38), NOTHING, id="billed-too-little"),
    pytest.param(
        "impossible_usage", good_but(1, usage=usage(40, 100, cached_tokens=101)), NOTHING, id="more-cached-than-input"
    ),
    pytest.param("other_model", good_but(1, model="typo", model_answered="gemma"), NOTHING, id="D65"),
    pytest.param("cached_prompts", good_but(25, usage=usage(40, 100, cached_tokens=99)), NOTHING, id="D13-not-told"),
    pytest.param("schedule_delay", good_but(5, scheduled=-200), NOTHING, id="D08"),
    pytest.param("clumped_starts", started_in(waves=True), NOTHING, id="waves"),
    pytest.param("no_steady_window", stopped(steady=False), NOTHING, id="D28"),
    pytest.param("few_samples", fed(*(good() for _ in range(367))), NOTHING, id="few"),
    pytest.param("chunk_not_token", tokens_an_event(10, 11), NOTHING, id="D05-more"),
    pytest.param("chunk_not_token", tokens_an_event(10, 9), NOTHING, id="D05-less"),
    pytest.param("short_answers", asked_for_more(41), NOTHING, id="D60"),
    pytest.param("left_out", short_lived(21), NOTHING, id="left-out"),
    pytest.param("little_reuse", ticked(unreused(201)), NOTHING, id="reuse"),
]

NOT_FOUND = [
    pytest.param("client_busy", good_but(0), RunFacts(cpu_share=0.9, hub_lag_p99_ms=20.0), id="client"),
    pytest.param("lagged", good_but(4, transit=Transit(max_lag_ns=6_000_000, reused=True)), NOTHING, id="lagged"),
    pytest.param("lagged", good_but(40, transit=Transit(max_lag_ns=5_000_000, reused=True)), NOTHING, id="little-lag"),
    pytest.param("too_many_streams", streams(20), RunFacts(safe_streams=10, processes=2), id="streams"),
    pytest.param("coalesced", coalesced(100), NOTHING, id="coalesced"),
    pytest.param("censored", failed(4), NOTHING, id="p99-is-known"),
    pytest.param("many_cancelled", good_but(40, outcome=Outcome.CANCELLED), NOTHING, id="cancelled"),
    pytest.param("billing", billed(40), NOTHING, id="billed-as-counted"),
    pytest.param("other_model", good_but(9, model="m", model_answered="m"), NOTHING, id="same-model"),
    pytest.param("cached_prompts", good_but(400, usage=usage(40, 100, cached_tokens=5)), NOTHING, id="cached"),
    pytest.param("schedule_delay", good_but(4, scheduled=-200), NOTHING, id="on-time"),
    pytest.param("clumped_starts", started_in(waves=False), NOTHING, id="spread"),
    pytest.param("no_steady_window", stopped(steady=True), NOTHING, id="steady"),
    pytest.param("no_steady_window", good_but(0), NOTHING, id="not-stopped-yet"),
    pytest.param("chunk_not_token", tokens_an_event(50, 51), NOTHING, id="two-percent"),
    pytest.param("short_answers", asked_for_more(40), NOTHING, id="long-enough"),
    pytest.param("left_out", short_lived(20), NOTHING, id="few-left-out"),
    pytest.param("little_reuse", ticked(unreused(200)), NOTHING, id="reused"),
    pytest.param("not_streamed", good_but(400, streamed=False, stream_asked=False), NOTHING, id="never-asked-to"),
    pytest.param("usage_absent", good_but(9, api="embeddings", source=None, n=None), NOTHING, id="embeddings"),
]


@pytest.mark.parametrize(("key", "stats", "facts"), FOUND)
def test_found(key: str, stats: RunStats, facts: RunFacts) -> None:
    sentences = {finding.key: finding.sentence for finding in findings(stats, facts)}
    assert key in sentences
    assert sentences[key].endswith(".")
    assert "None" not in sentences[key].replace("None of", "")
    assert "nan" not in sentences[key]


@pytest.mark.parametrize(("key", "stats", "facts"), NOT_FOUND)
def test_not_found(key: str, stats: RunStats, facts: RunFacts) -> None:
    assert key not in {finding.key for finding in findings(stats, facts)}


def test_a_good_run_and_an_empty_one_have_none() -> None:
    assert findings(good_but(0), NOTHING) == []
    assert findings(RunStats(OFFSET), NOTHING) == []


def test_the_gravest_comes_first() -> None:
    found = findings(buffered(3), RunFacts(simulated=True, lost_workers=("a", "b")))
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING, Severity.NOTE]
    assert found[0].sentence.startswith("Incomplete: 2 workers lost (a, b)")


def test_every_finding_has_a_test() -> None:
    assert len({param.values[0] for param in FOUND}) == len(FINDINGS)


@pytest.mark.parametrize(
    ("key", "stats", "facts", "part"),
    [
        ("censored", failed(5), RunFacts(timeout_s=60), "above 60 s"),
        ("many_cancelled", good_but(41, outcome=Outcome.CANCELLED), RunFacts(stop_timeout_s=5), "(now 5 s)"),
        ("lagged", good_but(5, transit=Transit(max_lag_ns=6_000_000)), NOTHING, "1.25 %"),
        ("few_samples", fed(*(good() for _ in range(40))), NOTHING, "40 samples of TTFT are too few for p95 (72)"),
        ("chunk_not_token", tokens_an_event(10, 40), NOTHING, "holds 4 tokens"),
        ("nothing_succeeded", failed(5, 5), NOTHING, "most often: HTTP 503"),
    ],
)
def test_sentences_tell_their_numbers(key: str, stats: RunStats, facts: RunFacts, part: str) -> None:
    assert part in {finding.key: finding.sentence for finding in findings(stats, facts)}[key]
