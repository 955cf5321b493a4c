"""One client connection: HTTP/1.1 in, handed to the server request by request; a client that leaves is told at once."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import httptools

from locust_llm.sim.http import CONTINUE, HttpError, api_error, error_response
from locust_llm.sim.reply import Reply

if TYPE_CHECKING:
    from locust_llm.sim.server import Server

_MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request, whole. `received_ns` is when the read that completed it began to be handled."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes
    keep_alive: bool
    received_ns: int


class Connection(asyncio.Protocol):
    """Parses requests and serves them one after the other; a pipelined one waits for the reply before it."""

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._read_ns = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.keep_alive = True
        self.reply: Reply | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has its own class
        # A write must reach the socket now: uvloop 0.21 puts it off to the end of its turn, and stamps would lie.
        self.transport.set_write_buffer_limits(high=0)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._read_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(api_error(400, "Bad Request", "Upgrades are not supported."))
        except httptools.HttpParserError:
            self._refuse(api_error(400, "Bad Request", "Invalid HTTP request received."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._waiting.clear()
        if self.reply is not None:
            reply, self.reply = self.reply, None
            self._server.abandon(reply)

    # The parser's side

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        self._body = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self.transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > _MAX_BODY_BYTES:
            if not self.transport.is_closing():
                self._refuse(api_error(413, "Bad Request", "The request body is larger than 64 MiB."))
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        parser = self._parser
        version_ok = parser.get_http_version() == "1.1"
        if self.transport.is_closing() or not version_ok:
            self._refuse(api_error(505, "Bad Request", "Only HTTP/1.1 is spoken here."))
            return
        path = self._url.partition(b"?")[0].decode("latin-1")
        method = parser.get_method().decode("latin-1")
        body = b"".join(self._body)
        request = Request(method, path, self._headers, body, parser.should_keep_alive(), self._read_ns)
        if self.reply is None:
            self._serve(request)
        else:
            self._waiting.append(request)

    # The server's side

    def reply_done(self, keep_alive: bool) -> None:
        """The reply is written: the connection is free for its next request, or closes."""
        self.reply = None
        if not keep_alive:
            self.transport.close()
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._serve_next)

    def reset(self) -> None:
        """Ends the connection with RST instead of FIN."""
        self.reply = None
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _serve_next(self) -> None:
        if self.reply is None and self._waiting and not self.transport.is_closing():
            self._serve(self._waiting.popleft())

    def _serve(self, request: Request) -> None:
        self.keep_alive = request.keep_alive
        try:
            self._server.handle(self, request)
        except HttpError as error:
            self.transport.write(error_response(error, keep_alive=request.keep_alive))
            self.reply_done(request.keep_alive)

    def _refuse(self, error: HttpError) -> None:
        if not self.transport.is_closing():
            if self.reply is None:  # never into the middle of an answer
                self.transport.write(error_response(error, keep_alive=False))
            self.transport.close()
