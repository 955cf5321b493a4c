"""The stages that ask for an answer: a whole one, a streamed one, and what can be said once both are there."""

from __future__ import annotations

from typing import Any

from locust_llm.measure import metrics
from locust_llm.measure.record import Clock, RequestRecord, TokenSource
from locust_llm.wire.checks.examination import Examination, contact
from locust_llm.wire.checks.sentences import diagnose, hopeless
from locust_llm.wire.checks.stage import Hopeless, Told
from locust_llm.wire.failures import redact, snippet
from locust_llm.wire.target import ConfigurationError

SHOWN_TEXT = 60


def whole_answer(exam: Examination) -> Told:
    """One answer in one piece."""
    record = exam.whole = exam.ask(stream=False)
    notes = exam.take_notes()
    if not record.success:
        return Told(_refused(exam, record), (_RATE_LIMITED, *notes))
    facts = _usage_facts(record) | {"e2e_ms": record.e2e_ms, "status": record.status}
    said = f"in {_ms(record.e2e_ms)}, {_usage(record)}{_ended(record)}: {_text(exam, record)}"
    return Told(said, notes, facts=facts)


def streamed_answer(exam: Examination) -> Told:
    """One answer as a stream, or as the test will ask for it."""
    record = exam.stream = exam.ask(stream=None if exam.as_asked else True)
    notes = exam.take_notes()
    if not record.success:
        return Told(_refused(exam, record), (_RATE_LIMITED, *notes))
    lines, events = _events(exam, record)
    warnings = (*notes, *odd_answer(exam, record), *([] if exam.as_asked else _no_tpot(exam, record)))
    facts = _usage_facts(record) | {
        "ttft_ms": record.ttft_ms,
        "tpot_ms": record.tpot_ms,
        "e2e_ms": record.e2e_ms,
        "output_events": len(record.event_ns),
        "tokens_per_event": _tokens_per_event(record),
        "events": events,
    }
    return Told(_stream_sentence(exam, record), warnings, tuple(lines), facts)


_RATE_LIMITED = "the preflight request was rate-limited (HTTP 429); the test starts all the same"


def _refused(exam: Examination, record: RequestRecord) -> str:
    """What there is to say of a failed request that need not be mended; raises ConfigurationError for any other."""
    if record.status == 429 and "quota" not in (record.error or "") + (record.detail or ""):
        return record.error or "HTTP 429"
    kind = Hopeless if hopeless(record) else ConfigurationError
    raise kind(diagnose(record, exam))


def odd_answer(exam: Examination, record: RequestRecord) -> list[str]:
    """What worked, but will shape the figures."""
    found = []
    if not record.streamed and record.stream_asked:
        found.append("the server did not stream its answer: there will be no TTFT and no ITL")
    if record.token_source is not TokenSource.USAGE and record.generates:
        found.append("the server reports no token usage: token counts are estimates (≈, from chunks)")
    asked, answered = exam.report.model, record.model_answered
    if answered is not None and asked and not same_model(asked, answered):
        found.append(f"asked for model {asked!r}, answered by {answered!r}")
    return found


def same_model(asked: str, answered: str) -> bool:
    """Whether two model ids may name the same model: equal but for case, a path before or a version after."""
    a, b = asked.lower(), answered.lower()
    return a == b or a.rsplit("/", 1)[-1] == b.rsplit("/", 1)[-1] or b.startswith(a + "-") or a.startswith(b + "-")


def _no_tpot(exam: Examination, record: RequestRecord) -> list[str]:
    """Why a streamed answer has no TPOT."""
    if record.tpot_ms is not None or not record.streamed:
        return []
    if metrics.buffered(record):
        return [
            "the whole answer came in one burst at its end, so something in between holds streams back (a proxy's"
            " buffer, compression): there will be no TTFT, ITL or TPOT"
        ]
    if record.output_tokens is not None and record.output_tokens <= 1:
        return [f"no TPOT: the answer has {record.output_tokens} token, so {_more_tokens(exam, record)}"]
    if record.streamed_tokens is None:
        return ["no TPOT: nobody tells how many of its tokens were streamed"]
    return ["no TPOT: all of the answer came in one event or one read"]


def _more_tokens(exam: Examination, record: RequestRecord) -> str:
    reason = record.finish_reason or ""
    if reason in ("content_filter", "refusal"):
        return f"ask for something else: the model refused ({reason})"
    if reason == "length" or exam.tokens <= 1:
        return "raise --llm-max-tokens"
    return "give a prompt that has more to be said, or --llm-ignore-eos"


def compare_usage(exam: Examination) -> Told:
    """Whether the server counts the same prompt alike, streamed or not."""
    whole, stream = exam.whole, exam.stream
    if whole is None or stream is None or not (whole.success and stream.success):
        raise ConfigurationError("there are not two answers to compare")
    one, other = whole.usage, stream.usage
    facts = {"whole": _usage_facts(whole), "stream": _usage_facts(stream)}
    if one.output_tokens is None and other.output_tokens is None:
        return Told("none reported, so there is nothing to compare", facts=facts)
    warnings = []
    for name, of_whole, of_stream, comparable in (
        ("input", one.input_tokens, other.input_tokens, True),
        ("output", one.output_tokens, other.output_tokens, _same_length(whole, stream)),
    ):
        if comparable and of_whole != of_stream:
            warnings.append(
                f"{name} tokens of the same request: {_told(of_whole)} in one piece, {_told(of_stream)} streamed, so"
                " compare streamed runs with streamed ones only"
            )
    counts = f"{_told(other.input_tokens)} in, {_told(other.output_tokens)} out"
    return Told(f"{counts}, streamed or not" if not warnings else counts, tuple(warnings), facts=facts)


def _same_length(whole: RequestRecord, stream: RequestRecord) -> bool:
    """Whether both answers must have as many tokens: cut at the same length, or the same text."""
    cut = whole.finish_reason == stream.finish_reason == "length" and not (whole.reasoning or stream.reasoning)
    return cut or (bool(whole.text) and whole.text == stream.text and whole.finish_reason == stream.finish_reason)


def keep_alive(exam: Examination) -> Told:
    """Whether the connection serves another request after a whole answer, and after a stream."""
    after_stream = contact(exam.client).transit
    reused = after_stream.reused and not after_stream.stale_retries
    after_whole = exam.stream is not None and exam.stream.transit.reused and not exam.stream.transit.stale_retries
    facts = {"after_answer": after_whole, "after_stream": reused}
    if reused:
        return Told("the connection is kept after a stream", facts=facts)
    opened_ns = sum(ns for ns in (after_stream.dns_ns, after_stream.tcp_ns, after_stream.tls_ns) if ns is not None)
    kept = "kept after an answer in one piece, " if after_whole else ""
    return Told(
        f"{kept}closed after a stream: each request opens a new one ({_ms(opened_ns * 1e-6)}), outside its TTFT",
        facts=facts,
    )


def clock(exam: Examination) -> Told:
    """What stamps the reads."""
    used = exam.stream.transit.clock if exam.stream is not None else Clock.READ
    facts = {"clock": used.value}
    if used is Clock.KERNEL:
        return Told("kernel: each packet has the time of its arrival, however busy this process is", facts=facts)
    warning = "stamps are taken when this process reads, and are as late as it is when busy"
    return Told("read: the kernel gives no stamps here", (warning,), facts=facts)


# -- words ---------------------------------------------------------------------------------------------------------


def _stream_sentence(exam: Examination, record: RequestRecord) -> str:
    parts = [f"{name} {_ms(ms)}" for name, ms in (("TTFT", record.ttft_ms), ("TPOT", record.tpot_ms)) if ms is not None]
    parts.append(f"E2E {_ms(record.e2e_ms)}")
    per_event = _tokens_per_event(record)
    if record.event_ns:
        each = f" ({per_event:.3g} token{'s' * (per_event != 1)} each)" if per_event is not None else ""
        parts.append(f"{len(record.event_ns)} output event{'s' * (len(record.event_ns) != 1)}{each}")
    parts.append(f"{_usage(record)}{_ended(record)}")
    if exam.tap is not None and any(event.data.strip() == b"[DONE]" for event in exam.tap.events):
        parts.append("[DONE]")
    return ", ".join(parts)


def _events(exam: Examination, record: RequestRecord) -> tuple[list[str], list[dict[str, Any]]]:
    """Every event of the stream: a line each, and plain values."""
    sent_ns = record.transit.sent_ns
    if exam.tap is None or sent_ns is None:
        return [], []
    secrets = exam.client.config.credentials.secrets
    told = [((event.at_ns - sent_ns) * 1e-6, event.output, event.text(secrets)) for event in exam.tap.events]
    lines = [f"{at_ms:9.1f} ms  {'output' if output else '':6}  {text}" for at_ms, output, text in told]
    return lines, [{"at_ms": at_ms, "output": output, "said": text} for at_ms, output, text in told]


def _usage(record: RequestRecord) -> str:
    usage = record.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return "no usage"
    return f"usage {_told(usage.input_tokens)} in, {_told(usage.output_tokens)} out"


def _usage_facts(record: RequestRecord) -> dict[str, Any]:
    usage = record.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "finish_reason": record.finish_reason,
        "model_answered": record.model_answered,
    }


def _tokens_per_event(record: RequestRecord) -> float | None:
    tokens, events = record.streamed_tokens, len(record.event_ns)
    return tokens / events if tokens is not None and events and record.token_source is TokenSource.USAGE else None


def _ended(record: RequestRecord) -> str:
    return f", finish {record.finish_reason}" if record.finish_reason else ""


def _text(exam: Examination, record: RequestRecord) -> str:
    text = redact(snippet(record.text or record.reasoning), exam.secrets)
    return repr(text if len(text) <= SHOWN_TEXT else text[: SHOWN_TEXT - 1] + "…")


def _told(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _ms(ms: float | None) -> str:
    return "unknown" if ms is None else f"{ms:.1f} ms"
