"""Http1Reply: one HTTP/1.1 response as its bytes come in; parsing by httptools (llhttp). No I/O.

Theory of operation. `feed` takes each read with its stamp and appends the body pieces to `inbox` as a flat list
[t_ns, bytes, t_ns, …]: stamps first, everything else later. Chunked bodies (with trailers), bodies of a known length
and bodies that end with the connection are told apart, since only for the last does the end of the connection mean the
end of the answer.

Nearly every read of a stream is one whole chunk, `size CRLF data CRLF`. The parser stands between two chunks before
and after it, so such a read need not go through it at all: `feed` cuts the data out itself, at a third of the cost.
Everything else goes through llhttp, and a property test holds both ways to the same result.
"""

from __future__ import annotations

import re
from typing import Any

import httptools

from locust_llm.wire import decompress

HEADERS_LIMIT = 256 * 1024

_SIZE = re.compile(rb"[0-9a-fA-F]{1,6}")
SHORT = 64
"""A piece shorter than this may be a stream's last words."""
_SIZES_KEPT = 4096
_sizes: dict[bytes, int] = {}
"""Chunk sizes that were met, by their digits."""


class Http1Reply:
    """The reply to one request. `inbox` is taken (and emptied) by whoever parses the body.

    `hinted` = a piece of the body held the end hint (a stream's last words) since the reader last looked; `merged` =
    reads in the middle of the body that held more than one piece: not with its beginning, where a role comes along with
    the first token, nor with its end.
    """

    __slots__ = (
        "_at_ns",
        "_began",
        "_between_chunks",
        "_chunked",
        "_end_hint",
        "_header_bytes",
        "_parser",
        "ended_ns",
        "headers",
        "headers_ns",
        "hinted",
        "inbox",
        "keep_alive",
        "merged",
        "sized",
        "status",
    )

    def __init__(self, end_hint: bytes = b"") -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._end_hint = end_hint
        self._header_bytes = 0
        self._at_ns = 0
        self._began = False
        self._chunked = False
        self._between_chunks = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_ns: int | None = None
        self.ended_ns: int | None = None
        self.inbox: list[int | bytes] = []
        self.hinted = False
        self.keep_alive = False
        self.merged = 0
        self.sized = False

    def feed(self, at_ns: int, data: bytes) -> bool:
        """One read; whether it was more than just the next piece: the headers, the end or the end hint have come, or
        several pieces at once.

        Raises httptools.HttpParserError when it is not HTTP.
        """
        if self._between_chunks and data[-2:] == b"\r\n":
            digits = data.find(b"\r\n", 0, 8)
            line = data[:digits]
            if (_sizes.get(line) or _size(line)) == len(data) - digits - 4:
                body = data[digits + 2 : -2]
                inbox = self.inbox
                inbox.append(at_ns)
                inbox.append(body)
                # Last words have a chunk of their own; elsewhere the end of the body, which follows, is soon enough.
                if len(body) < SHORT and self._end_hint and self._end_hint in body:
                    self.hinted = True
                    return True
                return False
        return self._parse(at_ns, data)

    def _parse(self, at_ns: int, data: bytes) -> bool:
        """The same for any read, by the parser."""
        if self._parser is None:
            self.keep_alive = False  # bytes after the end
            return False
        self._at_ns = at_ns
        had_headers, had_pieces = self.headers_ns is not None, len(self.inbox)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self.ended_ns is None:
                raise
            self.keep_alive = False  # bytes that no request asked for, after the end
        # Digits of the next size would not end in CRLF.
        self._between_chunks = self._between_chunks and data[-2:] == b"\r\n"
        if self.ended_ns is not None:
            self.release()
            return True
        if not had_headers:
            return self.headers_ns is not None
        if self.hinted:
            return True
        pieces = (len(self.inbox) - had_pieces) // 2
        if pieces > 1 and self._began:
            self.merged += 1
            return True
        self._began = self._began or pieces > 0
        return False

    def release(self) -> None:
        """Nothing more will be fed: let the parser go, which holds on to this reply as the reply does to it."""
        self._parser = None

    @property
    def begun(self) -> bool:
        """Whether any byte has come."""
        return self._at_ns != 0

    @property
    def complete(self) -> bool:
        """Whether the reply has ended by its own framing."""
        return self.ended_ns is not None

    def fields(self) -> dict[str, str]:
        """The headers by lower-case name; repeated ones joined by commas."""
        found: dict[str, str] = {}
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    def coding(self) -> str:
        """The content coding, lower case; '' for none."""
        if not any(name.lower() == b"content-encoding" for name, _ in self.headers):
            return ""
        coding = self.fields()["content-encoding"].strip().lower()
        return "" if coding in decompress.NONE else coding

    # -- called by httptools ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.ended_ns is not None:
            self.keep_alive = False  # a second reply to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADERS_LIMIT:
            raise ValueError("response headers are larger than 256 KiB")
        if self.headers_ns is not None:
            return  # a trailer, or bytes after the end
        self.headers.append((name, value))
        lowered = name.lower()
        if lowered == b"content-length":
            self.sized = True
        elif lowered == b"transfer-encoding" and b"chunked" in value.lower():
            self.sized = self._chunked = True

    def on_headers_complete(self) -> None:
        if self.headers_ns is not None:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self.headers.clear()
            self.sized = self._chunked = False
            return
        self.status = status
        self.headers_ns = self._at_ns
        self._between_chunks = self._chunked

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_body(self, body: bytes) -> None:
        if self.ended_ns is not None:
            return
        self.inbox.append(self._at_ns)
        self.inbox.append(body)
        if self._end_hint and self._end_hint in body[-64:]:
            self.hinted = True

    def on_message_complete(self) -> None:
        self._between_chunks = False
        if self.headers_ns is None or self.ended_ns is not None:
            return  # 1xx: the real reply follows
        self.keep_alive = self._parser.should_keep_alive()
        self.ended_ns = self._at_ns


def _size(digits: bytes) -> int | None:
    """The size in the first line of a chunk; None for anything but plain hexadecimal digits, and for the last chunk."""
    if not _SIZE.fullmatch(digits):
        return None
    if len(_sizes) >= _SIZES_KEPT:
        _sizes.clear()
    _sizes[digits] = size = int(digits, 16)
    return size or None
