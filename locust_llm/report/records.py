"""Records: `--llm-records FILE`, one JSON line per request, enough to compute every metric again.

Theory of operation. The first line of each test tells the schema and the run; every other line is one request. All
instants are whole microseconds relative to `sent` (to `started` when nothing was sent), which keep order and equality;
`started_s` is the wall clock. What is not known is left out. No prompt, header or key is ever in it, and the text of
answers and error bodies only when asked for.

Lines wait in a bounded buffer and are written whole, by one process to one file, so that a killed process leaves at
most its last line broken. When writing fails, that is said once, what follows is counted as lost, and the run goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from locust_llm.measure.record import (
    DEFINITIONS_VERSION,
    Clock,
    Outcome,
    RequestRecord,
    TokenSource,
    Transit,
    Usage,
)
from locust_llm.report.files import numbered, trouble
from locust_llm.report.run import shown_url

SCHEMA: Final = "locust_llm.records"
SCHEMA_VERSION: Final = 1

BUFFERED_LINES: Final = 200

_PLAIN: Final[tuple[str, ...]] = (
    *("name", "api", "model", "model_answered", "error", "status", "retry_after_s", "streamed", "output_tokens"),
    *("token_source", "streamed_tokens", "hidden_reasoning", "max_tokens", "warmup", "finish_reasons"),
)
_TEXTS: Final[tuple[str, ...]] = ("detail", "text", "reasoning", "choices", "tool_calls")
_COUNTED: Final = ("reused", "stale_retries", "reads", "received_bytes")
_INSTANTS: Final = ("scheduled", "started", "first_visible", "done", "ended")
_DURATIONS: Final = ("dns", "tcp", "tls", "max_lag")
_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(RequestRecord)}

logger = logging.getLogger(__name__)


class RecordsError(ValueError):
    """A file that cannot be read as records; its text is one sentence that names the file."""


def records_path(path: str, worker: str | None = None, test: int = 1) -> str:
    """The file of one process: FILE, or FILE.<worker>.jsonl; a later test of the session has its number in it."""
    if worker is not None:
        safe = re.sub(r"[^\w.-]", "_", worker)
        path = f"{path}.{safe}.jsonl"
    return numbered(path, test)


# -- writing -------------------------------------------------------------------------------------------------------


class RecordWriter:
    """Writes the records of one process and test. `lost` counts the requests that could not be written."""

    def __init__(
        self,
        path: str,
        *,
        run: str = "",
        process: str = "",
        simulated: bool = False,
        text: bool = False,
        limit: int = BUFFERED_LINES,
    ) -> None:
        self.path = path
        self.lost = 0
        self._text = text
        self._limit = limit
        self._file: int | None = None
        self._lines: list[bytes] = []
        header = {"schema": f"{SCHEMA}/{SCHEMA_VERSION}", "definitions": DEFINITIONS_VERSION, "run": run}
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            self._put(_encode(header | {"process": process, "simulated": simulated, "text": text}) + b"\n")
        except OSError as error:
            self._give_up(error)

    def add(self, record: RequestRecord) -> None:
        """Keep one ended request; every `limit` of them are written."""
        if self._file is None:
            self.lost += 1
            return
        self._lines.append(_encode(record_to_dict(record, text=self._text)))
        if len(self._lines) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._file is None or not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self._put(b"\n".join(lines) + b"\n")
        except OSError as error:
            self.lost += len(lines)
            self._give_up(error)

    def close(self) -> None:
        """Write what is waiting and close the file; says how many requests are not in it."""
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.lost:
            logger.error("%s: %d requests could not be written.", self.path, self.lost)
            self.lost = 0

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        while data:
            data = data[os.write(self._file, data) :]

    def _give_up(self, error: OSError) -> None:
        logger.error("Records are not written any more: %s", trouble(self.path, error))
        if self._file is not None:
            os.close(self._file)
            self._file = None


_encoder = msgspec.json.Encoder()


def _encode(line: dict[str, Any]) -> bytes:
    try:
        return _encoder.encode(line)
    except UnicodeEncodeError:  # half of a surrogate pair in a name
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")


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
    return line


_USAGE: Final = ("input_tokens", "cached_tokens", "reasoning_tokens")


def _us(ns: int) -> int:
    """Nanoseconds in whole microseconds, to the nearest: keeps the order of instants."""
    return (ns + 500) // 1000


def _put_us(line: dict[str, Any], name: str, at_ns: int | None, base_ns: int) -> None:
    if at_ns is not None:
        line[f"{name}_us"] = _us(at_ns - base_ns)


# -- reading -------------------------------------------------------------------------------------------------------


def read_records(path: str | os.PathLike[str], note: Callable[[str], None] = logger.warning) -> Iterator[RequestRecord]:
    """The requests of a file, one by one; their instants are wall-clock ns, whole microseconds apart.

    A broken last line, as a killed process leaves, is told to `note`; anything else that is wrong raises RecordsError.
    """
    try:
        with open(path, "rb") as file:
            yield from _read(Path(path).name, file, note)
    except OSError as error:
        raise RecordsError(f"{trouble(path, error)}.") from None


def _read(name: str, lines: Iterator[bytes], note: Callable[[str], None]) -> Iterator[RequestRecord]:
    decode = msgspec.json.Decoder().decode
    number = 0
    for number, raw in enumerate(lines, 1):
        try:
            line = decode(raw)
            if "schema" in line or number == 1:
                _check_header(name, line)
                continue
            record = record_from_dict(line)
        except RecordsError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError):
            if number > 1 and not raw.endswith(b"\n"):
                note(f"{name}: the last line ({number}) is broken and left out; its process was killed while writing.")
                return
            what = "has no header of records" if number == 1 else f"line {number} is not a record"
            raise RecordsError(f"{name}: {what}; was it written by --llm-records?") from None
        yield record
    if number == 0:
        raise RecordsError(f"{name} is empty.")


def _check_header(name: str, line: dict[str, Any]) -> None:
    schema, _, version = str(line.get("schema")).partition("/")
    if schema != SCHEMA or not version.isdecimal():
        raise RecordsError(f"{name} is not a file of records (schema {line.get('schema')!r}).")
    if int(version) > SCHEMA_VERSION:
        raise RecordsError(
            f"{name} has records of version {version}, this locust_llm reads up to {SCHEMA_VERSION}: update locust_llm."
        )


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
