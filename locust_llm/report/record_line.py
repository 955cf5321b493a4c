"""The line of one record: RequestRecord ↔ plain values for JSON.

All instants are whole microseconds relative to `sent` (to `started` when nothing was sent), which keep order and
equality; `started_s` is the wall clock. What is unknown, or as it nearly always is, is left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import numpy as np

from locust_llm.measure.record import Clock, Outcome, RequestRecord, TokenSource, Transit, Usage
from locust_llm.report.run import shown_url

_PLAIN: Final[tuple[str, ...]] = (
    *("name", "api", "model", "model_answered", "error", "status", "retry_after_s", "streamed", "stream_asked"),
    *("output_tokens", "token_source", "streamed_tokens", "hidden_reasoning", "max_tokens", "warmup", "finish_reasons"),
)
_TEXTS: Final[tuple[str, ...]] = ("detail", "text", "reasoning", "choices", "tool_calls")
_COUNTED: Final = ("reused", "stale_retries", "reads", "received_bytes")
_INSTANTS: Final = ("scheduled", "started", "first_visible", "done", "ended")
_DURATIONS: Final = ("dns", "tcp", "tls", "max_lag")
_USAGE: Final = ("input_tokens", "cached_tokens", "reasoning_tokens")
_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(RequestRecord)}


def record_to_dict(record: RequestRecord, *, text: bool = False) -> dict[str, Any]:
    """One request as plain values; what is unknown or as usual is left out."""
    transit = record.transit
    base_ns = transit.sent_ns if transit.sent_ns is not None else record.started_ns
    line: dict[str, Any] = {"started_s": round(record.started_wall_s, 6), "outcome": record.outcome.value}
    for name in _PLAIN + (_TEXTS if text else ()):
        value = getattr(record, name)
        if value != _DEFAULTS[name]:
            line[name] = value
    if record.url:
        line["url"] = shown_url(record.url)
    for name in _INSTANTS:
        _put_us(line, name, getattr(record, f"{name}_ns"), base_ns)
    line["sent"] = transit.sent_ns is not None
    _put_us(line, "headers", transit.headers_ns, base_ns)
    _put_us(line, "stream_end", transit.end_ns, base_ns)
    for name in _DURATIONS:
        _put_us(line, name, getattr(transit, f"{name}_ns"), 0)
    _put_us(line, "lost", transit.lost_ns or None, 0)
    line |= {name: value for name in _COUNTED if (value := getattr(transit, name))}
    line["clock"] = transit.clock.value
    usage = record.usage
    line |= {f.name: value for f in fields(usage) if (value := getattr(usage, f.name)) is not None and f.name in _USAGE}
    if usage.output_tokens is not None and usage.output_tokens != record.output_tokens:
        line["usage_output_tokens"] = usage.output_tokens
    line["event_us"] = ((np.frombuffer(record.event_ns, np.int64) - (base_ns - 500)) // 1000).tolist()
    if record.event_choice is not None:
        line["event_choice"] = record.event_choice.tolist()
    if record.event_tokens is not None:
        line["event_tokens"] = record.event_tokens.tolist()
    if record.event_source is not None:
        line["event_source"] = record.event_source.value
    return line


def _us(ns: int) -> int:
    """Nanoseconds in whole microseconds, to the nearest: keeps the order of instants."""
    return (ns + 500) // 1000


def _put_us(line: dict[str, Any], name: str, at_ns: int | None, base_ns: int) -> None:
    if at_ns is not None:
        line[f"{name}_us"] = _us(at_ns - base_ns)


def record_from_dict(line: dict[str, Any]) -> RequestRecord:
    """The request that `record_to_dict` described; raises KeyError, TypeError or ValueError for another dict."""
    started_ns = round(line["started_s"] * 1e6) * 1000
    base_ns = started_ns - line["started_us"] * 1000

    def at_ns(name: str) -> int | None:
        us = line.get(f"{name}_us")
        return None if us is None else base_ns + us * 1000

    values: dict[str, Any] = {name: line[name] for name in _PLAIN + _TEXTS if name in line}
    for name in ("finish_reasons", "choices", "tool_calls"):
        values[name] = tuple(line.get(name, ()))
    source = line.get("token_source")
    instants = {f"{name}_ns": at_ns(name) for name in _INSTANTS}
    usage = Usage(
        input_tokens=line.get("input_tokens"),
        output_tokens=line.get(
            "usage_output_tokens", line.get("output_tokens") if source == TokenSource.USAGE else None
        ),
        cached_tokens=line.get("cached_tokens"),
        reasoning_tokens=line.get("reasoning_tokens"),
    )
    return RequestRecord(
        **values
        | instants
        | {
            "outcome": Outcome(line["outcome"]),
            "token_source": None if source is None else TokenSource(source),
            "started_wall_s": line["started_s"],
            "url": line.get("url", ""),
            "transit": _transit(line, at_ns),
            "event_ns": array("q", [base_ns + us * 1000 for us in line["event_us"]]),
            "event_choice": _array(line.get("event_choice")),
            "event_tokens": _array(line.get("event_tokens")),
            "event_source": None if line.get("event_source") is None else TokenSource(line["event_source"]),
            "usage": usage,
        }
    )


def _transit(line: dict[str, Any], at_ns: Callable[[str], int | None]) -> Transit:
    transit = Transit(clock=Clock(line["clock"]), headers_ns=at_ns("headers"), end_ns=at_ns("stream_end"))
    base_ns = at_ns("started")
    assert base_ns is not None
    transit.sent_ns = base_ns - line["started_us"] * 1000 if line["sent"] else None
    for name in (*_DURATIONS, "lost"):
        if f"{name}_us" in line:
            setattr(transit, f"{name}_ns", line[f"{name}_us"] * 1000)
    for name in _COUNTED:
        setattr(transit, name, line.get(name, getattr(transit, name)))
    return transit


def _array(numbers: list[int] | None) -> array[int] | None:
    return None if numbers is None else array("q", numbers)
