"""What a client's figures are worth, told from tokens whose send times are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from locust_llm.analysis.calibration import Level, delay_us, level_of
from locust_llm.analysis.calibration_safe import first_unsafe, safe_streams, stop_reason
from tests.calibrate.levels import answer, level, window


def found(answers: list[Any], **told: Any) -> Level:
    made = level_of(answers, window(**told))
    assert made is not None
    return made


def stream(**how: Any) -> list[Any]:
    """One stream, whose answers follow each other every 900 ms."""
    return [answer(200 + 900 * n, **how) for n in range(4)]


def test_stamps_right_after_the_send_are_right() -> None:
    made = found(stream(), arrived_tokens=85.0)
    assert made.stamp_us == {"p50": 5.0, "p99": 5.0, "max": 5.0}
    assert made.coalesced == 0.0
    assert made.pace == pytest.approx(1.0)
    assert made.error < 0.0011  # of the histogram
    assert made.ttft_ms["p50"].true == 100.0
    assert made.ttft_ms["p50"].reported == pytest.approx(100.005, rel=0.001)


@pytest.mark.parametrize(
    ("how", "told", "worst"),
    [
        pytest.param({"late_us": 2_000}, {}, "stamps p99, of a gap", id="late"),
        pytest.param({"pairs": True}, {}, "ITL p50", id="pairs"),
        pytest.param({}, {"arrived_tokens": 50.0}, "output rate", id="rate"),
    ],
)
def test_the_worst_figure_is_named(how: dict[str, Any], told: dict[str, Any], worst: str) -> None:
    made = found(stream(**how), **({"arrived_tokens": 85.0} | told))
    assert made.worst == worst
    assert made.error > 0.05
    assert worst in (stop_reason(made) or "")


def test_tokens_read_with_the_one_before_are_counted() -> None:
    assert found(stream(pairs=True)).coalesced == pytest.approx(0.5, abs=0.02)


def test_cost_is_of_the_tokens_stamped_in_the_window() -> None:
    made = found(stream(), cpu_s=0.085)
    assert made.tokens_per_s.true == 42.5
    assert made.cpu_us_per_token == pytest.approx(1000.0)
    assert made.core_share == pytest.approx(0.0425)


def test_a_stream_that_waits_between_answers_is_not_kept_busy() -> None:
    assert found(stream()).kept_busy == pytest.approx(0.97, abs=0.03)
    assert found(stream(tokens=20)).kept_busy < 0.6


@pytest.mark.parametrize("answers", [[], [answer(9_000)], [answer(200, tokens=1)]], ids=["none", "later", "no-gap"])
def test_nothing_in_the_window_is_no_level(answers: list[Any]) -> None:
    assert level_of(answers, window()) is None


def test_an_answer_whose_tokens_do_not_match_its_text_is_left_out() -> None:
    odd = answer(200)
    assert level_of([type(odd)(odd.sent_ns, odd.arrivals_ns[:-1], odd.ended_ns, odd.text)], window()) is None


def test_a_level_survives_json() -> None:
    made = found(stream(), delays=[0, 0, 5], engine_ttfts_ms=[99.0, 101.0], waited_s=0.1)
    assert Level.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0] * 64, None),
        ([0] * 10 + [100], {"p50": 1.024, "p99": 1.024}),
        ([0] * 10 + [98, 0, 2], {"p50": 1.024, "p99": 4.096}),
    ],
    ids=["none", "one-bin", "two-bins"],
)
def test_delays_are_upper_ends_of_their_bins(counts: list[int], expected: dict[str, float] | None) -> None:
    assert delay_us(counts) == expected


SAFE = [
    pytest.param([level(50), level(200)], 200, id="all"),
    pytest.param([level(50), level(200, error=0.02), level(400)], 50, id="only-up-to-the-first-bad-one"),
    pytest.param([level(50), level(200), level(50, "bursts"), level(200, "bursts", error=0.02)], 50, id="worse-mode"),
    pytest.param([level(50), level(200), level(50, "bursts")], 50, id="mode-that-got-less-far"),
    pytest.param([level(50, error=0.02)], None, id="none"),
    pytest.param([level(50), level(50, "bursts", error=0.02)], None, id="none-in-a-mode"),
    pytest.param([], None, id="nothing"),
    pytest.param([level(50), level(200, core_share=0.91)], 50, id="full-core"),
    pytest.param([level(50), level(200, kept_busy=0.94)], 50, id="idle-streams"),
    pytest.param([level(50), level(200, failed=1)], 50, id="failures"),
    pytest.param([level(50), level(200, pace=1.2)], 200, id="a-slow-engine-is-no-fault-of-the-client"),
]


@pytest.mark.parametrize(("levels", "expected"), SAFE)
def test_the_safe_number(levels: list[Level], expected: int | None) -> None:
    assert safe_streams(levels, 0.01) == expected


def test_a_wider_limit_lets_more_streams_pass() -> None:
    levels = [level(50), level(200, error=0.02), level(400, error=0.06)]
    assert (safe_streams(levels, 0.01), safe_streams(levels, 0.05)) == (50, 200)
    unsafe = first_unsafe(levels, 0.05)
    assert unsafe is not None
    assert unsafe.streams == 400


STOPS = [
    pytest.param(level(), None, id="goes-on"),
    pytest.param(level(error=0.04), None, id="not-yet"),
    pytest.param(level(error=0.06), "largest error was 6.0 % (output rate)", id="error"),
    pytest.param(level(core_share=0.95), "used 95 % of a core", id="cpu"),
    pytest.param(level(kept_busy=0.8), "busy for 80 % of the time", id="idle"),
    pytest.param(level(failed=3), "3 of 100 requests failed", id="failures"),
    pytest.param(level(error=0.9, pace=1.1), "the engine itself could not hold its pace", id="engine-first"),
]


@pytest.mark.parametrize(("made", "words"), STOPS)
def test_why_more_streams_are_not_tried(made: Level, words: str | None) -> None:
    reason = stop_reason(made)
    assert reason is None if words is None else words in (reason or "")
