"""StreamTransport: an httpx transport that stamps each read before anything else happens to it.

Theory of operation. One transport = one user = one connection, kept alive. A request is sent from the user's
greenlet; its reply is read by the process's Collector in hub callbacks: `recvmsg` (bytes and the kernel's receive
time), TLS if any, the HTTP parser, and the body pieces land in the reply's inbox as (t_ns, bytes). The greenlet sleeps
until the headers are there, then takes batches from the inbox at most a few times a second (`TimedStream.batches`).

A connection that the server has closed is noticed before it is used again (its end is read like any other data). The
race that remains, a close that crosses our request, is retried once on a new connection if not one byte of a reply
came: llama.cpp promises keep-alive and closes after every stream. The time lost goes to the connect time.

Every exit, GreenletExit included, leaves the connection either clean for the next request or closed.
"""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gevent
import gevent.event
import httptools
import httpx

from locust_llm.measure.record import Clock, Transit
from locust_llm.wire import decompress
from locust_llm.wire.clock import ANCILLARY_BYTES
from locust_llm.wire.collector import collector
from locust_llm.wire.connect import TLS, ProxyRefused, Route, open_connection, proxy_authorization, send_all
from locust_llm.wire.http1 import Http1Reply

READ_SIZE = 65536
WAKE_S = 0.25
LINGER_S = 0.05


class Connection:
    """One open socket and the reply that is being read from it."""

    def __init__(self, socket: Any, tls: TLS | None, route: Route) -> None:
        self.route = route
        self.closed = False
        self.error: Exception | None = None
        self.reply: Http1Reply | None = None
        self.transit = Transit()
        self.news = gevent.event.Event()
        self._socket = socket
        self._fd: int = socket.fileno()
        self._tls = tls
        self._recvmsg = socket.recvmsg
        self._collector = collector()
        self._collector.add(self._fd, self._read)

    def send(self, head: bytes, body: bytes, reply: Http1Reply, transit: Transit) -> None:
        """Send a request; its reply will be read into `reply`."""
        data = head + body
        if self._tls is not None:
            data = self._tls.encrypt(data)
        self.reply, self.transit = reply, transit
        self.news.clear()
        self._collector.drain_due()
        transit.sent_ns = time.monotonic_ns()
        send_all(self._socket, data)

    def close(self) -> None:
        """Close the socket; what has been read stays readable."""
        if not self.closed:
            self.closed = True
            self._collector.remove(self._fd)
            self._socket.close()
            self.news.set()

    def _read(self) -> None:
        """Called by the collector when the socket can be read: stamp first."""
        try:
            data, ancillary, _, _ = self._recvmsg(READ_SIZE, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        now_ns = time.monotonic_ns()
        stamp = self._collector.clock.monotonic(ancillary, now_ns)
        transit = self.transit
        if stamp is None:
            stamp, transit.clock, transit.max_lag_ns = now_ns, Clock.READ, None
        else:
            if not transit.reads:
                transit.clock = Clock.KERNEL
            if transit.clock is Clock.KERNEL:
                lag = now_ns - stamp
                if transit.max_lag_ns is None or lag > transit.max_lag_ns:
                    transit.max_lag_ns = lag
        transit.reads += 1
        transit.received_bytes += len(data)
        try:
            self._take(stamp, data)
        except (httptools.HttpParserError, ssl.SSLError, ValueError) as error:
            self._fail(error)

    def _take(self, stamp: int, data: bytes) -> None:
        at_end = not data
        if self._tls is not None and data:
            data, at_end = self._tls.decrypt(data)
            pending = self._tls.pending()
            if pending:
                self._socket.send(pending)
        reply = self.reply
        if data:
            if reply is None or reply.ended_ns is not None:
                self._fail(httpx.RemoteProtocolError("the server sent data that no request asked for"))
                return
            headers_before = reply.headers_ns
            ended = reply.feed(stamp, data)
            if ended:
                self.transit.end_ns = stamp
                self.transit = Transit()  # what comes later belongs to no request
            if ended or reply.hinted or reply.headers_ns != headers_before:
                self.news.set()
        if at_end:
            self.transit.end_ns = stamp
            self.close()

    def _fail(self, error: Exception) -> None:
        if not self.closed:
            self.error = error
            self.transit.end_ns = time.monotonic_ns()
            self.close()


class TimedStream(httpx.SyncByteStream):
    """The body of one reply, as batches of (t_ns, bytes), or plain bytes for httpx itself."""

    def __init__(self, connection: Connection, reply: Http1Reply) -> None:
        self._connection = connection
        self._reply = reply
        coding = reply.encoding()
        self._decode: Callable[[bytes], bytes] | None = decompress.decoder(coding) if coding else None
        self.clean = False

    def batches(self, wait_s: Callable[[], float] | float = WAKE_S) -> Iterator[list[tuple[int, bytes]]]:
        """Yield what has arrived, at most `wait_s` apart (an empty batch when nothing did), until the body ends.

        `clean` tells afterwards whether the body ended by its own framing. Raises httpx.ReadError on a reset and
        httpx.RemoteProtocolError when the connection closed inside a framed body.
        """
        connection, reply = self._connection, self._reply
        drain_due = collector().drain_due
        try:
            while True:
                if not (reply.complete or connection.closed or reply.hinted):
                    connection.news.wait(wait_s() if callable(wait_s) else wait_s)
                over = reply.complete or connection.closed
                connection.news.clear()
                reply.hinted = False
                batch = self._take_inbox()
                drain_due()
                yield batch
                drain_due()
                if over and not reply.inbox:
                    break
            self._conclude()
        finally:
            if not reply.complete:
                connection.close()

    def linger(self, seconds: float = LINGER_S) -> None:
        """The answer is over though the body is not: give its end a moment to come, so the connection can be kept."""
        with gevent.Timeout(seconds, False):
            while not (self._reply.complete or self._connection.closed):
                self._connection.news.clear()
                self._connection.news.wait()
        self.close()

    def _take_inbox(self) -> list[tuple[int, bytes]]:
        inbox = self._reply.inbox
        if not inbox:
            return []
        self._reply.inbox = []
        it: Iterator[Any] = iter(inbox)
        pairs: list[tuple[int, bytes]] = list(zip(it, it, strict=True))
        if self._decode is None:
            return pairs
        decode = self._decode
        return [(at_ns, text) for at_ns, data in pairs if (text := decode(data))]

    def _conclude(self) -> None:
        """Judge the end of the body."""
        connection, reply = self._connection, self._reply
        if reply.complete:
            self.clean = True
        elif connection.error is not None:
            raise _mapped(connection.error) from connection.error
        elif reply.sized:
            raise httpx.RemoteProtocolError("the connection closed before the end of the body")
        else:
            self.clean = True

    def __iter__(self) -> Iterator[bytes]:
        for batch in self.batches():
            for _, data in batch:
                yield data

    def close(self) -> None:
        """Give the connection up unless its reply has ended and it may be kept."""
        if not (self._reply.complete and self._reply.keep_alive):
            self._connection.close()


class StreamTransport(httpx.BaseTransport):
    """One user's connection to one target. Not for use by two greenlets at once."""

    def __init__(
        self,
        *,
        context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        proxy_for: Callable[[str, str], str | None] = lambda scheme, host: None,
        end_hint: bytes = b"",
    ) -> None:
        """`context` makes (or shares) the SSL context; `proxy_for(scheme, host)` gives the proxy's URL or None;
        bytes that contain `end_hint` wake the reader at once (a stream's last words)."""
        self._context = context
        self._proxy_for = proxy_for
        self._end_hint = end_hint
        self._connection: Connection | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` and wait for the reply's headers.

        `request.extensions["transit"]` (a Transit) is filled in. Timeouts are httpx's own (`connect`, `read`).
        Raises httpx.ConnectError, ConnectTimeout, ProxyError, ReadTimeout, ReadError, RemoteProtocolError.
        """
        transit: Transit = request.extensions.get("transit") or Transit()
        timeout: Mapping[str, float | None] = request.extensions.get("timeout", {})
        url = request.url
        route = Route(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        route = Route(route.scheme, route.host, route.port, self._proxy_for(route.scheme, route.host))
        head, body = _head(request, route), request.read()
        connection = self._reusable(route)
        transit.reused = connection is not None
        if connection is None:
            connection = self._connect(route, transit, timeout.get("connect"))
        reply = Http1Reply(self._end_hint)
        try:
            self._exchange(connection, head, body, reply, transit, timeout.get("read"))
        except _Stale:
            connection.close()
            first_sent_ns = transit.sent_ns
            connection = self._connect(route, transit, timeout.get("connect"))
            reply = Http1Reply(self._end_hint)
            transit.stale_retries += 1
            transit.end_ns = None
            self._exchange(connection, head, body, reply, transit, timeout.get("read"), fresh=True)
            assert transit.sent_ns is not None
            assert first_sent_ns is not None
            transit.lost_ns = transit.sent_ns - first_sent_ns
        transit.headers_ns = reply.headers_ns
        stream = TimedStream(connection, reply)
        return httpx.Response(
            reply.status, headers=reply.headers, stream=stream, extensions={"timed_stream": stream, "transit": transit}
        )

    def close(self) -> None:
        """Close the connection, if one is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reusable(self, route: Route) -> Connection | None:
        """The kept connection, if it is to the same place and still open."""
        connection = self._connection
        if connection is None:
            return None
        collector().drain()
        if connection.closed or connection.route != route:
            self.close()
            return None
        return connection

    def _connect(self, route: Route, transit: Transit, seconds: float | None) -> Connection:
        with _limit(seconds, httpx.ConnectTimeout, "connecting took longer than --llm-connect-timeout"):
            try:
                socket, tls = open_connection(route, transit, self._context)
            except ProxyRefused as error:
                raise httpx.ProxyError(str(error)) from error
            except OSError as error:  # ssl.SSLError and gaierror are OSErrors too
                raise httpx.ConnectError(str(error)) from error
        self._connection = Connection(socket, tls, route)
        return self._connection

    def _exchange(
        self,
        connection: Connection,
        head: bytes,
        body: bytes,
        reply: Http1Reply,
        transit: Transit,
        read_s: float | None,
        *,
        fresh: bool = False,
    ) -> None:
        """Send, and wait until the headers have come; raises _Stale when a kept connection proved dead."""
        try:
            try:
                connection.send(head, body, reply, transit)
            except OSError as error:
                if connection.error is None:
                    connection.error = error
                connection.close()
            with _limit(read_s, httpx.ReadTimeout, "no response headers within the read timeout"):
                while reply.headers_ns is None and not connection.closed:
                    connection.news.clear()
                    connection.news.wait()
        except BaseException:
            connection.close()
            raise
        if reply.headers_ns is not None:
            return
        connection.close()
        failure: Exception | None = connection.error
        silent = not transit.received_bytes
        if transit.reused and not fresh and silent and (failure is None or isinstance(failure, OSError)):
            raise _Stale
        if failure is not None:
            raise _mapped(failure) from failure
        raise httpx.RemoteProtocolError("the server closed the connection without sending a response")


class _Stale(Exception):
    """A kept connection was closed before any byte of the reply."""


@contextmanager
def _limit(seconds: float | None, error: type[httpx.TimeoutException], message: str) -> Iterator[None]:
    """Raise `error` after `seconds` (None or 0: never)."""
    if not seconds:
        yield
        return
    with gevent.Timeout(seconds, error(message)):
        yield


def _mapped(error: Exception) -> httpx.TransportError:
    """The httpx exception for what happened to a connection after it was open."""
    if isinstance(error, httpx.TransportError):
        return error
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        if error.errno in (errno.EPIPE, errno.ECONNRESET):
            return httpx.ReadError("connection reset by the server")
        return httpx.ReadError(error.strerror or str(error))
    return httpx.RemoteProtocolError(f"not valid HTTP: {error}")


def _head(request: httpx.Request, route: Route) -> bytes:
    """Request line and headers."""
    target = request.url.raw_path
    raw: list[tuple[bytes, bytes]] = list(request.headers.raw)
    if route.proxy is not None and not route.tunnelled:
        target = bytes(f"{route.scheme}://{request.url.netloc.decode()}", "ascii") + target
        credentials = proxy_authorization(route.proxy)
        if credentials is not None:
            raw.append((b"Proxy-Authorization", credentials.encode("latin-1")))
    lines = [request.method.encode() + b" " + target + b" HTTP/1.1"]
    lines.extend(name + b": " + value for name, value in raw)
    return b"\r\n".join(lines) + b"\r\n\r\n"
