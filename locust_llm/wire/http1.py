"""Http1Reply: one HTTP/1.1 response as its bytes come in; parsing by httptools (llhttp). No I/O.

`feed` takes each read with its stamp and appends the body pieces to `inbox` as a flat list [t_ns, bytes, t_ns, …]:
stamps first, everything else later. Chunked bodies (with trailers), bodies of a known length and bodies that end with
the connection are told apart, since only for the last does the end of the connection mean the end of the answer.
"""

from __future__ import annotations

import httptools

from locust_llm.wire import decompress

HEADERS_LIMIT = 256 * 1024


class Http1Reply:
    """The reply to one request. `inbox` is taken (and emptied) by whoever parses the body."""

    __slots__ = (
        "_body_ns",
        "_end_hint",
        "_feed",
        "_header_bytes",
        "_parser",
        "ended_ns",
        "headers",
        "headers_ns",
        "hinted",
        "inbox",
        "keep_alive",
        "sized",
        "status",
    )

    def __init__(self, end_hint: bytes = b"") -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._end_hint = end_hint
        self._header_bytes = 0
        self._body_ns = 0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_ns: int | None = None
        self.ended_ns: int | None = None
        self.inbox: list[int | bytes] = []
        self.hinted = False
        self.keep_alive = False
        self.sized = False

    def feed(self, at_ns: int, data: bytes) -> bool:
        """One read; tells whether the reply has now ended. Raises httptools.HttpParserError when it is not HTTP."""
        self._body_ns = at_ns
        self._feed(data)
        return self.complete

    @property
    def complete(self) -> bool:
        """Whether the reply has ended by its own framing."""
        return self.ended_ns is not None

    @property
    def begun(self) -> bool:
        """Whether any header has been seen."""
        return self.status != 0

    def encoding(self) -> str:
        """The content coding, lower case; '' for none."""
        for name, value in self.headers:
            if name.lower() == b"content-encoding":
                coding = value.decode("latin-1").strip().lower()
                return coding if coding in decompress.CODINGS else ""
        return ""

    # -- called by httptools ---------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADERS_LIMIT:
            raise ValueError("response headers are larger than 256 KiB")
        if self.headers_ns is not None:
            return  # a trailer, or bytes after the end
        self.headers.append((name, value))
        lowered = name.lower()
        if lowered == b"content-length" or (lowered == b"transfer-encoding" and b"chunked" in value.lower()):
            self.sized = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.complete:
            return
        if 100 <= status < 200:
            self.headers.clear()
            self.sized = False
            return
        self.status = status
        self.headers_ns = self._body_ns

    def on_body(self, body: bytes) -> None:
        if self.complete:
            return
        self.inbox.append(self._body_ns)
        self.inbox.append(body)
        if self._end_hint and self._end_hint in body[-64:]:
            self.hinted = True

    def on_message_complete(self) -> None:
        if self.headers_ns is None or self.complete:
            return  # 1xx: the real reply follows
        self.keep_alive = self._parser.should_keep_alive()
        self.ended_ns = self._body_ns
