"""Trace: recorded arrivals to be replayed: when each request came, how long it and its answer were, what it shared.

Theory of operation. Two kinds of files are read. Mooncake's are JSON lines with `timestamp` (ms), `input_length`,
`output_length` and `hash_ids`: an id for each 512 tokens of the prompt, equal ids for equal text after equal text.
Azure's are CSV with TIMESTAMP (a date, or seconds), ContextTokens and GeneratedTokens. Kept in memory are three numbers
a request; hash ids are read again at their place when their request's turn comes.

Texts are made up. Each hash id stands for one text of 512 tokens, new in each run, so that two prompts share as much of
their beginnings as in the recording, and a prefix cache has the hits that the trace implies.

Requests of the same time are set apart by a microsecond, so that a time tells which request it is of.
"""

from __future__ import annotations

import bisect
import csv
import functools
import math
import os
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from locust_llm.workload.calibration import Calibration
from locust_llm.workload.prompts import FIRST, WORD, arranged

BLOCK_TOKENS: Final = 512
_APART_NS: Final = 1000
_TIME = ("timestamp", "arrived_at", "time")
_INPUT = ("input_length", "contexttokens", "input_tokens", "num_prefill_tokens")
_OUTPUT = ("output_length", "generatedtokens", "output_tokens", "num_decode_tokens")


class TraceError(ValueError):
    """A trace that cannot be replayed; the message is one sentence that names the file, and the line."""


class _Line(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. `blocks` are the hash ids of its prompt; empty where the trace tells none."""

    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


@dataclass(slots=True)
class Trace:
    """A trace's requests in the order of their times; `offsets_ns` count from the first one."""

    path: str
    offsets_ns: array[int] = field(default_factory=lambda: array("q"))
    inputs: array[int] = field(default_factory=lambda: array("q"))
    outputs: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.offsets_ns)

    def offsets(self) -> Iterator[float]:
        """When requests come, in seconds from the first."""
        return (offset / 1e9 for offset in self.offsets_ns)

    def at(self, offset_ns: int) -> Entry:
        """The request of a time, as ns from the first."""
        number = bisect.bisect_left(self.offsets_ns, offset_ns - _APART_NS // 2)
        number = min(number, len(self) - 1)
        blocks = self._blocks(self.places[number]) if self.places else ()
        return Entry(self.inputs[number], self.outputs[number], blocks)

    def _blocks(self, place: int) -> tuple[int, ...]:
        with open(self.path, "rb") as file:
            file.seek(place)
            return tuple(_decoder.decode(file.readline()).hash_ids or ())

    def quantiles(self, *shares: float) -> list[int]:
        """The input lengths below which these shares of the requests lie."""
        lengths = sorted(self.inputs)
        return [lengths[min(int(share * len(lengths)), len(lengths) - 1)] for share in shares]


_decoder = msgspec.json.Decoder(_Line)


def prompt_text(entry: Entry, run: str, calibration: Calibration | None = None) -> str:
    """The prompt of a request that has hash ids."""
    if calibration is None:
        words, pad, first, block_words = entry.input_tokens, "", "", BLOCK_TOKENS
    else:
        words, pad = calibration.words(entry.input_tokens)
        first, block_words = FIRST, max(1, round(BLOCK_TOKENS / calibration.per_word))
    needed = -(-words // block_words)
    text = "".join(_block(run, name, block_words) for name in entry.blocks[:needed])
    missing = words - len(text) // WORD
    if missing > 0:
        text += arranged(0, missing, 0, random.Random(f"{run}/{entry.blocks}"))
    return (first + text[: words * WORD]).rstrip() + pad


@functools.lru_cache(maxsize=4096)
def _block(run: str, name: int, words: int) -> str:
    """The text of a hash id: the same words as of any other, in an order of its own."""
    order = random.Random(f"{run}/block {name}")
    return arranged(0, words, order.randrange(words), order)


# -- reading -------------------------------------------------------------------------------------------------------


def read_trace(path: str, speed: float = 1.0) -> Trace:
    """Read a trace, its times divided by `speed`; the same file is read once. Raises TraceError."""
    try:
        status = os.stat(path)
        return _read(path, speed, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise TraceError(f"--llm-trace {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TraceError(f"--llm-trace {path}: it is not UTF-8 text") from None


@functools.lru_cache(maxsize=2)
def _read(path: str, speed: float, mtime_ns: int, size: int) -> Trace:
    with open(path, "rb") as file:
        is_json = file.read(4096).lstrip()[:1] == b"{"
    times, rows = array("d"), array("q")
    trace = Trace(path)
    for time_s, input_tokens, output_tokens, place in _json_lines(path) if is_json else _csv_rows(path):
        rows.append(len(times))
        times.append(time_s)
        trace.inputs.append(max(1, input_tokens))
        trace.outputs.append(max(1, output_tokens))
        if place is not None:
            trace.places.append(place)
    if not times:
        raise TraceError(f"--llm-trace {path}: it holds no request")
    _sort(trace, times, speed)
    return trace


def _sort(trace: Trace, times: array[float], speed: float) -> None:
    by_time = sorted(range(len(times)), key=times.__getitem__)
    first, last = times[by_time[0]], -_APART_NS
    for number in by_time:
        last = max(round((times[number] - first) / speed * 1e9), last + _APART_NS)
        trace.offsets_ns.append(last)
    for name in ("inputs", "outputs", "places"):
        values = getattr(trace, name)
        if values:
            setattr(trace, name, array("q", (values[number] for number in by_time)))


def _json_lines(path: str) -> Iterator[tuple[float, int, int, int | None]]:
    place = 0
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    entry = _decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise TraceError(f"--llm-trace {path}, line {number}: {str(error)[:120]}") from None
                yield (entry.timestamp / 1e3, entry.input_length, entry.output_length, place)
            place += len(line)


def _csv_rows(path: str) -> Iterator[tuple[float, int, int, int | None]]:
    with open(path, encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines)
        head = [name.strip().lower() for name in next(rows, [])]
        columns = [
            next((head.index(name) for name in names if name in head), None) for names in (_TIME, _INPUT, _OUTPUT)
        ]
        if None in columns:
            raise TraceError(
                f"--llm-trace {path}: it is neither Mooncake's JSON lines (timestamp, input_length, output_length) nor"
                " a CSV with TIMESTAMP, ContextTokens and GeneratedTokens"
            )
        for row in rows:
            if row:
                cells = [row[column] if column is not None and column < len(row) else "" for column in columns]
                time_s, tokens = _seconds(cells[0]), [_count(cell) for cell in cells[1:]]
                if time_s is None or tokens[0] is None or tokens[1] is None:
                    raise TraceError(f"--llm-trace {path}, line {rows.line_num}: {','.join(row)[:80]!r} is no request")
                yield time_s, tokens[0], tokens[1], None


def _seconds(text: str) -> float | None:
    """A number of seconds, or a date with up to seven digits of a second."""
    try:
        value = float(text)
        return value if math.isfinite(value) else None
    except ValueError:
        pass
    whole, dot, digits = text.strip().partition(".")
    fraction = digits.rstrip("Z").split("+")[0]
    try:
        at = datetime.fromisoformat(whole.rstrip("Z").split("+")[0])
        return at.replace(tzinfo=None).toordinal() * 86400.0 + _of_day(at) + (float(f"0.{fraction}") if dot else 0.0)
    except ValueError:
        return None


def _of_day(at: Any) -> float:
    return float(at.hour * 3600 + at.minute * 60 + at.second)


def _count(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value >= 0 and value == int(value) else None
