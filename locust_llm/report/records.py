"""Records: `--llm-records FILE`, one JSON line per request, enough to compute every metric again.

Theory of operation. The first line tells the schema and the run, every other line is one request (`record_line`). No
prompt, header or key is ever in it, and the text of answers and error bodies only when asked for.

Lines wait in a bounded buffer and are written whole, by one process to one file, so that a killed process leaves at
most its last line broken. When writing fails, that is said once, what follows is counted as lost, and the run goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from locust_llm.measure.record import DEFINITIONS_VERSION, RequestRecord
from locust_llm.report.files import numbered, trouble
from locust_llm.report.record_line import record_from_dict, record_to_dict

SCHEMA: Final = "locust_llm.records"
SCHEMA_VERSION: Final = 1

BUFFERED_LINES: Final = 200

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


# -- reading -------------------------------------------------------------------------------------------------------


def read_records(
    path: str | os.PathLike[str],
    note: Callable[[str], None] = logger.warning,
    header: Callable[[dict[str, Any]], None] = lambda told: None,
) -> Iterator[RequestRecord]:
    """The requests of a file, one by one; their instants are wall-clock ns, whole microseconds apart.

    A broken last line, as a killed process leaves, is told to `note`; anything else that is wrong raises RecordsError.
    `header` is given each header (run, process …; several where files were joined) before the requests below it.
    """
    try:
        with open(path, "rb") as file:
            yield from _read(Path(path).name, file, note, header)
    except OSError as error:
        raise RecordsError(f"{trouble(path, error)}.") from None


def _read(
    name: str, lines: Iterator[bytes], note: Callable[[str], None], header: Callable[[dict[str, Any]], None]
) -> Iterator[RequestRecord]:
    decode = msgspec.json.Decoder().decode
    number = 0
    for number, raw in enumerate(lines, 1):
        try:
            line = decode(raw)
            if "schema" in line or number == 1:
                _check_header(name, line)
                header(line)
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
