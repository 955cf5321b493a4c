"""Phases told: the console's section, the document's part and the report's section of a probe run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import Any, Final

from locust_llm.analysis.phases import Phases, find_phases
from locust_llm.analysis.phases_decode import DecodeFit
from locust_llm.analysis.phases_prefill import PrefillFit
from locust_llm.analysis.regression import Coefficient
from locust_llm.measure.stats import RunStats
from locust_llm.report.lines import number
from locust_llm.report.phases_chart import chart

_LABEL: Final = 12
_WIDTH: Final = 120
SHOWN_SHARE: Final = 0.005
"""Smaller parts are not named in the verdict."""

_MEANS: Final = {
    "entry": "what a request costs before its prompt is read (network, gateway, tokenizer, admission)",
    "prefill": "reading the prompt; shorter or cached prompts and more compute help",
    "scheduling": "waiting for the other requests; more slots, replicas or a fairer batch help",
    "unexplained": "waits of single requests that neither length nor company explains; look for disturbances",
    "decode": "making the tokens one by one; shorter answers, smaller batches or contexts, faster memory help",
}


def phases_of(stats: RunStats) -> Phases | None:
    """The phases of a run; None when it was no probe. Takes up to a second for the longest runs: not for every tick."""
    if not len(stats.probe):
        return None
    return find_phases(stats.probe, stats.probe.left_out, stats.min_tokens)


def phases_dict(phases: Phases) -> dict[str, Any]:
    """Every number of the phases as plain values, and the sentences."""
    told = asdict(phases)
    for name in ("prefill", "decode"):
        if told[name] is not None:
            del told[name]["scatter"]  # the requests themselves stand beside
    return told | {"notes": list(phases.notes), "sentences": [list(pair) for pair in sentences(phases)]}


def phases_lines(phases: Phases) -> Iterator[str]:
    """The console's section, in lines of 120."""
    yield "Phases"
    for label, text in sentences(phases):
        yield from textwrap.wrap(
            text, _WIDTH, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL, break_long_words=False
        )


def sentences(phases: Phases) -> Iterator[tuple[str, str]]:
    """(label, sentence): what each phase costs, on how many requests and with what R² that rests, and the verdict."""
    if phases.prefill is not None:
        yield from _prefill(phases.prefill)
    if phases.decode is not None:
        yield "decode", _decode(phases.decode)
    if phases.wait is not None:
        wait = phases.wait
        yield (
            "scheduling",
            f"{number(wait.median_ms)} ms (median; mean {number(wait.mean_ms)}) of waiting for others in the TTFT of "
            f"the {wait.n:,} requests that were not alone",
        )
    for note in phases.notes:
        yield "note", note
    largest = phases.largest
    if largest is not None:
        whole = sum(part.ms for part in phases.parts)
        shown = [part for part in phases.parts if part.share >= SHOWN_SHARE]
        parts = ", ".join(f"{part.name} {number(part.ms)} ms ({100 * part.share:.0f} %)" for part in shown)
        yield (
            "verdict",
            f"The mean request took {number(whole)} ms: {parts}. Most of it is {largest.name}: {_MEANS[largest.name]}.",
        )


def _prefill(fit: PrefillFit) -> Iterator[tuple[str, str]]:
    entry = fit.entry_ms
    yield "entry", f"{number(entry.value)} ms before the first token of an empty prompt{_interval(entry, 'ms')}"
    how = "served alone" if fit.alone else "not alone"
    rests = f"{_r2(fit.r2)}, {fit.n:,} requests {how} of {fit.shortest:,} to {fit.longest:,} input tokens"
    if fit.tokens_per_s is None:
        yield "prefill", f"TTFT does not grow with the input: no speed to tell ({rests})"
        return
    speed = fit.tokens_per_s
    bent = ""
    if fit.curved is not None:
        bent = (
            f"; not linear: {number(fit.curved[0])} tok/s at {fit.shortest:,} tokens, {number(fit.curved[1])} at "
            f"{fit.longest:,}"
        )
    yield "prefill", f"{number(speed.value)} input tok/s{_interval(speed, 'tok/s')}{bent} ({rests})"


def _decode(fit: DecodeFit) -> str:
    alone = " for one stream" if fit.per_stream_ms is not None or fit.streams[1] < 1.5 else ""
    empty = " without context" if fit.per_context_ms is not None else ""
    told = [f"{number(fit.step_ms.value)} ms a token{alone}{empty}{_interval(fit.step_ms, 'ms')}"]
    for slope, what in (
        (fit.per_stream_ms, "ms for each further stream"),
        (fit.per_context_ms, "ms for each 1,000 tokens of context in the batch"),
        (fit.per_prefill_ms, "ms for each 1,000 prompt tokens of others read in between"),
    ):
        if slope is not None:
            told.append(f"{number(slope.value)} {what}{_interval(slope, 'ms')}")
    ranges = f"{fit.contexts[0]:,.0f} to {fit.contexts[1]:,.0f} tokens of context"
    if fit.streams[1] >= 1.5:
        ranges += f", {fit.streams[0]:.2g} to {fit.streams[1]:.2g} streams"
    return f"{'; + '.join(told)} ({_r2(fit.r2)}, {fit.n:,} answers, {ranges})"


def _interval(value: Coefficient, unit: str) -> str:
    if value.low is None or value.high is None:
        return ""
    return f" [{number(value.low)} … {number(value.high)} {unit}]"


def _r2(r2: float | None) -> str:
    return "R² unknown" if r2 is None else f"R² {r2:.4f}"


# -- the report ----------------------------------------------------------------------------------------------------


def phases_html(phases: Phases) -> str:
    """The report's section: the sentences, and a chart with its residuals for each fit."""
    rows = "".join(
        f"<div class='wide'><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in sentences(phases)
    )
    charts = []
    if phases.prefill is not None:
        charts.append(chart("TTFT on prefilled input tokens", "input tokens", phases.prefill.scatter, line=True))
    decode = phases.decode
    if decode is not None:
        several = decode.per_stream_ms is not None or decode.per_prefill_ms is not None
        charts.append(chart("TPOT on context", "tokens of context in the batch", decode.scatter, line=not several))
    return (
        f"<section><h2>Phases <small>95 % intervals within this run</small></h2><dl class='pairs'>{rows}</dl>"
        f"<div class='charts'>{''.join(charts)}</div></section>"
    )
