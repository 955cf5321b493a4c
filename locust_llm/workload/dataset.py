"""Dataset: a file of requests, of which only the places of its records are kept in memory.

Theory of operation. The file is read once from end to end, record by record: each is understood, so that a broken one
is named with its line before any load is sent, and its place and length are noted (16 bytes a record); the same pass
makes the file's SHA-256. Afterwards a request is one read at its place. A JSON array is cut into its elements over a
memory map, which the kernel fills and empties as it likes.

Reading a big file takes seconds, in which a process must not stand still: `breathe` is called every few megabytes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import weakref
from array import array
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from locust_llm.workload.item import Item, ItemError, read_item, text_item

FORMATS: Final = ("auto", "jsonl", "sharegpt", "text")
_BREATH: Final = 4 << 20
_BLANK: Final = b" \t\r\n"
_LONGEST_SHOWN: Final = 80


class DatasetError(ValueError):
    """A file that cannot be used; the message is one sentence that names it, and the line."""


class Dataset:
    """The requests of a file, by number from 0.

    `sha256` is the file's; `left_out` counts conversations in which no user says anything, which are no requests;
    `exact`: whether any request asks for an answer of an exact length.
    """

    def __init__(self, path: str, format_: str = "auto", breathe: Callable[[], None] = lambda: None) -> None:
        """Read the file through; raises DatasetError."""
        self.path = path
        self.left_out = 0
        self.exact = False
        self._places, self._lengths = array("q"), array("q")
        self._breathe = breathe
        try:
            self._file = os.open(path, os.O_RDONLY)
            self.close = weakref.finalize(self, os.close, self._file)
            self.size = os.fstat(self._file).st_size
            head = os.pread(self._file, 4096, 0)
            self.format = _detected(head, path) if format_ == "auto" else format_
            is_array = self.format == "sharegpt" and head.lstrip()[:1] == b"["
            self.sha256 = self._index_array() if is_array else self._index_lines()
        except OSError as error:
            raise DatasetError(f"{path}: {error.strerror}") from None
        if not self._places:
            raise DatasetError(f"{path}: it holds no request")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Item:
        data = os.pread(self._file, self._lengths[number], self._places[number])
        item = self._read(data)
        if item is None:  # it was one when the file was read through
            raise DatasetError(f"{self.path} has been changed while it was in use")
        return item

    def _read(self, data: bytes) -> Item | None:
        return text_item(data.decode("utf-8").strip()) if self.format == "text" else read_item(data)

    def _index_lines(self) -> str:
        """Note all records; the file's SHA-256."""
        digest, place, breath = hashlib.sha256(), 0, 0
        with open(self._file, "rb", closefd=False) as lines:
            for number, line in enumerate(lines, 1):
                digest.update(line)
                if line.strip():
                    self._note(place, line, number)
                place += len(line)
                if place - breath > _BREATH:
                    breath = place
                    self._breathe()
        return digest.hexdigest()

    def _note(self, place: int, data: bytes, line: int) -> None:
        try:
            item = self._read(data)
        except ItemError as error:
            raise DatasetError(f"{self.path}, line {line}: it {error}") from None
        except UnicodeDecodeError:
            raise DatasetError(f"{self.path}, line {line}: it is not UTF-8 text") from None
        if item is None:
            self.left_out += 1
            return
        self.exact = self.exact or item.prompt.exact
        self._places.append(place)
        self._lengths.append(len(data))

    def _index_array(self) -> str:
        digest = hashlib.sha256()
        with mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) as content:
            for begin in range(0, len(content), _BREATH):
                digest.update(content[begin : begin + _BREATH])
                self._breathe()
            line, counted, breath = 1, 0, 0
            for place, length in _elements(content, self.path):
                line += content[counted:place].count(b"\n")
                counted = place
                self._note(place, content[place : place + length], line)
                if place - breath > _BREATH:
                    breath = place
                    self._breathe()
        return digest.hexdigest()


def _detected(head: bytes, path: str) -> str:
    """The format that a file's first bytes and name speak for."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if begin == b"[":
        return "sharegpt"
    if begin in (b"{", b'"') and not path.endswith(".txt"):
        return "jsonl"
    return "text"


def _elements(content: mmap.mmap, path: str) -> Iterator[tuple[int, int]]:
    """Place and length of each element of the JSON array that a file is."""
    try:
        elements = msgspec.json.decode(content, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        place = _place_of(str(error))
        line = content[:place].count(b"\n") + 1 if place is not None else None
        where = f", line {line}" if line is not None else ""
        raise DatasetError(f"{path}{where}: it is no JSON array of records ({str(error)[:_LONGEST_SHOWN]})") from None
    lengths = [len(memoryview(element)) for element in elements]
    del elements  # they hold the map
    place = content.find(b"[") + 1
    for length in lengths:
        while content[place] in _BLANK or content[place] == ord(","):
            place += 1
        yield place, length
        place += length


def _place_of(message: str) -> int | None:
    """The byte that msgspec's message on malformed JSON names."""
    _, _, tail = message.rpartition("(byte ")
    digits = tail.partition(")")[0]
    return int(digits) if digits.isdigit() else None
