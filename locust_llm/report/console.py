"""Console: the LLM table after Locust's own tables, and one line every few seconds while a test runs. 120 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from locust_llm.measure.billing import Cost, cost, prices_of
from locust_llm.measure.catalogue import BY_KEY, MAX_GAP
from locust_llm.measure.counts import Counts
from locust_llm.measure.smoothness import READER_TPS
from locust_llm.measure.summary import summary_row
from locust_llm.measure.window import Percentiles
from locust_llm.report import open_load
from locust_llm.report.by_length import by_length_lines
from locust_llm.report.client_delay import client_delay_text
from locust_llm.report.gates import gate_lines, verdict_text
from locust_llm.report.lines import BEYOND_NOTE, FEW, FEW_NOTE, HEADS, NOTHING, Line, lines, number
from locust_llm.report.phases import phases_lines, phases_of
from locust_llm.report.run import RunView
from locust_llm.report.ttft_split import TITLE, split_text

WIDTH: Final = 120
NAMES_LIMIT: Final = 8
"""With more request names than this only the sum of all is printed."""

LIVE_S: Final = 10

_TITLE: Final = 24
_CELL: Final = 12
_LABEL: Final = 12
_ERRORS_LIMIT: Final = 6


def summary_text(view: RunView) -> str:
    """The table, throughput and findings of a run that is over (or of the run so far), without a final newline."""
    return "\n".join(line.rstrip() for line in _summary(view))


def _summary(view: RunView) -> Iterator[str]:
    yield from _wrapped("", " · ".join(_title(view)))
    found = _found(view)
    yield _row("", HEADS)
    yield from _blocks(found) if len({line.name for line in found}) > 1 else _flat(found)
    yield "-" * (_TITLE + _CELL * len(HEADS))
    if any(line.few for line in found):
        yield FEW_NOTE
    if any(line.failures for line in found):
        yield BEYOND_NOTE
    if len(view.stats.names) > NAMES_LIMIT:
        yield f"{len(view.stats.names)} request names: the CSV files, the JSON document and the HTML report have each"
    yield from _throughput(view)
    for finding in view.findings:
        yield from _wrapped(finding.severity.value, finding.sentence)
    yield from _gates(view)
    yield from by_length_lines(view.stats)
    phases = phases_of(view.stats)
    if phases is not None:
        yield ""
        yield from phases_lines(phases)


def _title(view: RunView) -> Iterator[str]:
    yield "LLM figures"
    yield from view.marks
    yield "run so far, provisional" if view.provisional else "whole run"
    if view.test > 1:
        yield f"test {view.test}"
    if len(view.stats.names) == 1:
        yield _clipped(view.stats.names[0], 60)
    if view.clock:
        yield f"stamps of the {view.clock} clock"


def _found(view: RunView) -> list[Line]:
    """The lines of all names and of their sum; with failures that of the sum only, and of many names the sum only."""
    names = view.stats.names
    single = [line for name in names for line in lines(view, name)] if len(names) <= NAMES_LIMIT else []
    if len(names) == 1:
        return single
    return [line for line in single if not line.failures] + lines(view, None)


def _flat(found: list[Line]) -> Iterator[str]:
    """One request name: a line for each metric."""
    yield from (_row(f"  {line.title}", line.cells) for line in found)
    if not found:
        yield "  No answer that could be timed."


def _blocks(found: list[Line]) -> Iterator[str]:
    """Several request names: below each metric a line for each name, so that names compare."""
    for title in dict.fromkeys(line.title for line in found if not line.failures):
        metric = title.split(" (")[0]
        yield title
        for line in found:
            if line.title == title:
                yield _row(f"  {line.name}", line.cells)
            elif line.failures and line.title.startswith(f"{metric} with"):
                yield _row("    with failures", line.cells)


def _row(title: str, cells: tuple[str, ...]) -> str:
    """A line of the table; a mark behind a number stands apart, so that the digits stay aligned."""
    aligned = (cell if cell.endswith(FEW) else f"{cell} " for cell in cells)
    return f"{_clipped(title, _TITLE):<{_TITLE}}" + "".join(f"{cell:>{_CELL}}" for cell in aligned)


def _clipped(text: str, width: int) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _throughput(view: RunView) -> Iterator[str]:
    counts = view.stats.counts()
    rates = (
        ("output_throughput", "tok/s"),
        ("steady_output_throughput", "with all users running"),
        ("peak_output_throughput", "at peak"),
        ("output_speed", "tok/s per stream"),
    )
    known = [f"{number(value)} {what}" for key, what in rates if (value := view.figure(key)) is not None]
    yield from _wrapped("output", " · ".join(known) or NOTHING)
    sources = ", ".join(sorted(counts.token_sources, key=lambda source: -counts.token_sources[source]))
    tokens = [f"{counts.output_tokens:,} out{f' (from {sources})' if sources else ''}", f"{counts.input_tokens:,} in"]
    cached = view.figure("cached_share")
    if cached:
        tokens.append(f"{_percent(cached)} of them from the server's cache")
    yield from _wrapped("tokens", " · ".join(tokens))
    if counts.audited:
        yield from _wrapped("audit", audit_text(counts))
    prices = prices_of(view.options)
    if prices is not None:
        yield from _wrapped("cost", cost_text(cost(counts, prices)))
    yield from _wrapped("requests", " · ".join(_requests(view)))
    delay = client_delay_text(view)
    if delay is not None:
        yield from _wrapped("client", delay)
    split = split_text(view)
    if split is not None:
        yield from _wrapped(TITLE, split)
    if counts.errors:
        yield from _wrapped("failures", " · ".join(_failures(counts.errors)))
    if counts.gap_tokens:
        yield from _wrapped("smoothness", smoothness_text(view))
    if view.open_load is not None:
        yield from _wrapped("open load", " · ".join(f"{title} {text}" for title, text in open_load.facts(view)))
        overload = open_load.trouble(view)
        if overload is not None:
            yield from _wrapped("error", overload)
    if view.slos:
        yield from _wrapped("goodput", goodput_text(view))


def audit_text(counts: Counts) -> str:
    """Billed against counted output tokens."""
    sources = " and ".join(sorted(counts.audit_sources))
    off = counts.audit_usage_tokens / counts.audit_local_tokens - 1 if counts.audit_local_tokens else 0.0
    told = f"{counts.audit_usage_tokens:,} output tokens billed, {counts.audit_local_tokens:,} counted by {sources}"
    return f"{told} ({off:+.1%}) in {counts.audited:,} answers, of which {counts.audit_off:,} differ"


def cost_text(bill: Cost) -> str:
    """What the run cost, in the currency of the prices."""
    parts = [f"{number(bill.total)} for the run"]
    for value, what in ((bill.per_1000_requests, "1,000 requests"), (bill.per_million_output, "million output tokens")):
        if value is not None:
            parts.append(f"{number(value)} per {what}")
    return " · ".join(parts)


def smoothness_text(view: RunView) -> str:
    """How evenly the answers came."""
    gaps = summary_row(view.stats, BY_KEY[MAX_GAP])
    told = [f"largest gap p50 {number(gaps.at(0.5).value)} p99 {number(gaps.at(0.99).value)} ms"]
    stalls = view.figure("stalls_per_1000")
    told.append(f"{number(stalls)} stalls over {number(view.stats.stall_ms)} ms per 1,000 tok")
    smooth = view.figure("smooth_share")
    if smooth is not None:
        told.append(f"{_percent(smooth)} keep a {READER_TPS:.0f} tok/s reader busy")
    return " · ".join(told)


def goodput_text(view: RunView) -> str:
    """Goodput, its share, and the SLOs it is about."""
    counts = view.stats.counts()
    share, rate = view.figure("goodput_share"), view.figure("goodput")
    told = [f"{number(rate)} req/s"] if rate is not None else []
    told.append(f"{_percent(share)} of {counts.slo_judged:,}" if share is not None else "nothing could be judged")
    meet = f" meet {' and '.join(view.slos)}"
    unjudged = f" · {counts.slo_unjudged:,} not judged" if counts.slo_unjudged else ""
    return " · ".join(told) + meet + unjudged


def _gates(view: RunView) -> Iterator[str]:
    """The gates of a run that is over, and what follows from them; nothing when there are none."""
    judgement = view.judgement
    if judgement is None:
        return
    for line in gate_lines(judgement):
        yield from _wrapped(line.status.value, line.text)
    yield from _wrapped("gates", verdict_text(judgement))


def _failures(errors: dict[str, int]) -> Iterator[str]:
    ordered = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    yield from (f"{count:,} × {_clipped(label, 60)}" for label, count in ordered[:_ERRORS_LIMIT])
    if len(ordered) > _ERRORS_LIMIT:
        yield f"{len(ordered) - _ERRORS_LIMIT} other kinds"


def _requests(view: RunView) -> Iterator[str]:
    counts = view.stats.counts()
    yield f"{counts.succeeded:,} succeeded"
    share = view.figure("failed_share")
    yield f"{counts.failed:,} failed" + (f" ({_percent(share)})" if share else "")
    yield f"{counts.cancelled:,} cancelled"
    if counts.in_flight:
        yield f"{counts.in_flight:,} in flight"
    rate = view.figure("request_throughput")
    if rate is not None:
        yield f"{number(rate)} succeeded/s"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _wrapped(label: str, text: str) -> list[str]:
    """A label and its text, in lines of WIDTH."""
    head = f"{label:<{_LABEL}}" if label else ""
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * _LABEL)


# -- live ----------------------------------------------------------------------------------------------------------


def live_line(view: RunView) -> str:
    """The run in one line: rates and percentiles are of the last ten complete seconds, and blank when nothing came.

    What does not fit is left out, the least telling first.
    """
    parts = list(_live(view))
    while len(parts) > 1 and len(" · ".join(parts)) > WIDTH:
        parts.pop()
    return " · ".join(parts)


def _live(view: RunView) -> Iterator[str]:
    stats = view.stats
    counts = stats.counts()
    complete = stats.complete_s
    points = list(stats.points(complete - LIVE_S)) if complete is not None else []
    yield " ".join(("LLM", *view.marks))
    if not points:
        yield "no whole second yet"
    else:
        span_s, last = sum(p.span_s for p in points), points[-1]
        yield f"{number(sum(p.output_tokens for p in points) / span_s)} tok/s"
        yield f"TTFT {_pair(last.ttft_ms)}"
        yield f"ITL {_pair(last.itl_ms)}"
    if counts.failed:
        yield f"{counts.failed:,} failed"
    yield f"{counts.in_flight:,} in flight"
    age_s = points[-1].oldest_age_s if points else None
    if age_s is not None and age_s > LIVE_S:
        yield f"oldest {number(age_s)} s"
    yield f"{counts.succeeded:,} ok"


def _pair(percentiles: Percentiles) -> str:
    p50, _, p99 = percentiles
    return NOTHING if p50 is None else f"p50 {number(p50)} p99 {number(p99)} ms"
