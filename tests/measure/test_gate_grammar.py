"""The grammar of gates and SLOs: what is taken, what is refused and where; printing and parsing are inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_llm.measure.expression import REQUESTS, SHARE, TIME, TOKENS, ExpressionError, parse_share
from locust_llm.measure.gate import FIGURES, TIMINGS, Gate, parse_gate
from locust_llm.measure.slo import PRESETS, Slo, parse_slo

VALID = [
    ("ttft:p95<500ms", Gate("ttft", "<", 500, "ms", 95), 500),
    ("tpot:p50<=25ms", Gate("tpot", "<=", 25, "ms", 50), 25),
    ("itl:p99<80ms", Gate("itl", "<", 80, "ms", 99), 80),
    ("e2e:p90<4s", Gate("e2e", "<", 4, "s", 90), 4000),
    ("ttft:p99.9<1500us", Gate("ttft", "<", 1500, "us", 99.9), 1.5),
    ("ttft_from_schedule:p95<2.5s", Gate("ttft_from_schedule", "<", 2.5, "s", 95), 2500),
    ("errors<1%", Gate("errors", "<", 1, "%"), 0.01),
    ("errors<=0%", Gate("errors", "<=", 0, "%"), 0),
    ("errors<7%", Gate("errors", "<", 7, "%"), 7 / 100),
    ("output_throughput>=1200", Gate("output_throughput", ">=", 1200, ""), 1200),
    ("output_throughput>1200tok/s", Gate("output_throughput", ">", 1200, "tok/s"), 1200),
    ("request_throughput>=3.5req/s", Gate("request_throughput", ">=", 3.5, "req/s"), 3.5),
    ("goodput>=95%", Gate("goodput", ">=", 95, "%"), 0.95),
    ("goodput>12req/s", Gate("goodput", ">", 12, "req/s"), 12),
    ("chat/ttft:p95<500ms", Gate("ttft", "<", 500, "ms", 95, "chat"), 500),
    ("GET /v1/x: a<b/errors<1%", Gate("errors", "<", 1, "%", None, "GET /v1/x: a<b"), 0.01),
    ("chat/output_throughput>1e3tok/s", Gate("output_throughput", ">", 1000, "tok/s", None, "chat"), 1000),
    ("  chat / ttft : p95 <= 0.5 s ", Gate("ttft", "<=", 0.5, "s", 95, "chat"), 500),
]


@pytest.mark.parametrize(("text", "gate", "limit"), VALID, ids=[text for text, _, _ in VALID])
def test_a_gate(text: str, gate: Gate, limit: float) -> None:
    assert parse_gate(text) == gate
    assert parse_gate(text).limit == limit


INVALID = [
    # (text, where the caret points, a part of what is said)
    ("", "^", "a comparison is missing"),
    ("ttft", "    ^", "a comparison is missing"),
    ("ttft:p95=500ms", "        ^", "a comparison is missing"),
    ("ttft:p95 500ms", "              ^", "a comparison is missing"),
    ("<500ms", "^", "a metric is missing"),
    ("chat/<500ms", "     ^", "a metric is missing"),
    ("/ttft:p95<500ms", "^", "the request name before the slash is missing"),
    ("tft:p95<500ms", "^", "no metric 'tft'; is it ttft?"),
    ("chat/latency:p95<5ms", "     ^", "no metric 'latency': there are ttft, "),
    ("tps:p95<5ms", "^", "no metric 'tps'"),
    ("ttft<500ms", "    ^", "which percentile? Say ttft:p95"),
    ("ttft:95<500ms", "     ^", "a percentile is expected"),
    ("ttft: mean<5ms", "      ^", "a percentile is expected"),
    ("ttft:p95x<5ms", "        ^", "a percentile is expected"),
    ("ttft:p0<5ms", "      ^", "above 0 and below 100"),
    ("ttft:p100<5ms", "      ^", "above 0 and below 100"),
    ("errors:p50<1%", "        ^", "has no percentiles"),
    ("ttft p95<5ms", "     ^", "unexpected 'p' after the metric"),
    ("ttft:p95>500ms", "        ^", "at most so much: use < or <="),
    ("errors>=1%", "      ^", "at most so much"),
    ("goodput<95%", "       ^", "at least so much: use > or >="),
    ("output_throughput<9", "                 ^", "at least so much"),
    ("ttft:p95<", "         ^", "a number is expected"),
    ("ttft:p95<-5ms", "         ^", "a number is expected"),
    ("ttft:p95< .5ms", "          ^", "a number is expected"),
    ("ttft:p95<1e999ms", "         ^", "too large"),
    ("ttft:p95<500", "            ^", "ttft needs a unit: us or ms or s"),
    ("ttft:p95<500 sec", "             ^", "no unit 'sec'"),
    ("ttft:p95<5e ms", "          ^", "no unit 'e ms'"),
    ("ttft:p95<5%", "          ^", "no unit '%'"),
    ("errors<0.01", "           ^", "errors needs a unit: %"),
    ("goodput>=95", "           ^", "goodput needs a unit: % or req/s"),
    ("output_throughput>=5req/s", "                    ^", "no unit 'req/s'"),
    ("ttft:p95<5ms<6ms", "        ^", "a percentile is expected"),  # the last comparison counts
]


@pytest.mark.parametrize(("text", "caret", "said"), INVALID, ids=[text for text, _, _ in INVALID])
def test_a_text_that_is_no_gate(text: str, caret: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_gate(text)
    sentence, shown, pointer = str(caught.value).split("\n")
    assert (shown, pointer) == (f"    {text}", f"    {caret}")
    assert said in sentence
    assert sentence.endswith(f", at character {len(caret)}:")


def test_the_caret_stays_in_its_column_below_characters_that_do_not_print() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_gate("a\tb\n/tft:p95<5ms")
    assert str(caught.value).split("\n")[1:] == ["    a b /tft:p95<5ms", "         ^"]


VALID_SLOS = [
    ("ttft<500ms", Slo("ttft", "<", 500, "ms"), 500),
    ("tpot<=25ms", Slo("tpot", "<=", 25, "ms"), 25),
    ("itl<0.25s", Slo("itl", "<", 0.25, "s"), 250),
    (" e2e <= 4 s", Slo("e2e", "<=", 4, "s"), 4000),
]


@pytest.mark.parametrize(("text", "slo", "limit_ms"), VALID_SLOS, ids=[text for text, _, _ in VALID_SLOS])
def test_an_slo(text: str, slo: Slo, limit_ms: float) -> None:
    assert parse_slo(text) == slo
    assert parse_slo(text).limit_ms == limit_ms


INVALID_SLOS = [
    ("chat/ttft<500ms", "     ^", "leave out the name"),
    ("ttft:p95<500ms", "      ^", "leave out the percentile"),
    ("ttfc<500ms", "^", "is it ttft?"),
    ("errors<1%", "^", "no metric 'errors': there are ttft, tpot, itl, e2e"),
    ("ttft>500ms", "    ^", "at most so much"),
    ("ttft<500", "        ^", "needs a unit"),
    ("ttft", "    ^", "a comparison is missing"),
]


@pytest.mark.parametrize(("text", "caret", "said"), INVALID_SLOS, ids=[text for text, _, _ in INVALID_SLOS])
def test_a_text_that_is_no_slo(text: str, caret: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_slo(text)
    sentence, _, pointer = str(caught.value).split("\n")
    assert pointer == f"    {caret}"
    assert said in sentence


@pytest.mark.parametrize(("text", "share"), [("20%", 0.2), (" 0.5 % ", 0.005), ("100%", 1.0)])
def test_a_share(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize(
    ("text", "caret"), [("", "^"), ("20", "  ^"), ("20 ms", "   ^"), ("-1%", "^"), ("0%", "^"), ("101%", "^")]
)
def test_a_text_that_is_no_share(text: str, caret: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_share(text)
    assert str(caught.value).split("\n")[2] == f"    {caret}"


numbers = st.floats(0, 1e12, allow_nan=False).map(abs)
names = st.none() | st.text(min_size=1).map(str.strip).filter(bool)
timings = st.builds(
    Gate,
    st.sampled_from(TIMINGS),
    st.sampled_from(("<", "<=")),
    numbers,
    st.sampled_from(TIME),
    st.floats(1e-6, 100, exclude_max=True).filter(lambda p: "e" not in repr(p)),
    names,
)
figures = st.sampled_from([(metric, unit) for metric, units in FIGURES.items() for unit in units]).flatmap(
    lambda pair: st.builds(
        Gate,
        st.just(pair[0]),
        st.sampled_from(("<", "<=") if pair[0] == "errors" else (">", ">=")),
        numbers,
        st.just(pair[1]),
        st.none(),
        names,
    )
)


@given(timings | figures)
def test_printing_and_parsing_a_gate_are_inverse(gate: Gate) -> None:
    text = str(gate)
    assert parse_gate(text) == gate
    assert str(parse_gate(text)) == text


slos = st.builds(
    Slo, st.sampled_from(("ttft", "tpot", "itl", "e2e")), st.sampled_from(("<", "<=")), numbers, st.sampled_from(TIME)
)


@given(slos)
def test_printing_and_parsing_an_slo_are_inverse(slo: Slo) -> None:
    assert parse_slo(str(slo)) == slo


@pytest.mark.parametrize("preset", PRESETS)
def test_the_presets_can_be_written_out(preset: str) -> None:
    assert tuple(parse_slo(str(slo)) for slo in PRESETS[preset]) == PRESETS[preset]


def test_every_unit_belongs_to_one_kind() -> None:
    every = [*TIME, *SHARE, *TOKENS, *REQUESTS]
    assert len(every) == len(set(every))
