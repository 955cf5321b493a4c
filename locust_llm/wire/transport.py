"""StreamTransport: an httpx transport that stamps each read before anything else happens to it.

Theory of operation. One transport = one user = one connection, kept alive. A request is sent from the user's
greenlet; its reply is read by the process's Collector (see `connection`), and the body pieces land in the reply's inbox
as (t_ns, bytes). The greenlet sleeps until the headers are there, then takes batches from the inbox at most a few times
a second (`TimedStream.batches`).

A connection that the server has closed is noticed before it is used again (its end is read like any other data). The
race that remains, a close that crosses our request, is retried once on a new connection if not one byte of a reply
came: llama.cpp promises keep-alive and closes after every stream. The time lost goes to the connect time.

Every exit, GreenletExit included, leaves the connection either clean for the next request or closed.

`exchange` is the transport proper; `handle_request` lets httpx use it. Our own hot path calls `exchange` with a request
head made once, which saves httpx's 100 µs a request.
"""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gevent
import httpx

from locust_llm.measure.record import Transit
from locust_llm.wire import decompress
from locust_llm.wire.collector import collector
from locust_llm.wire.connect import ProxyRefused, Route, open_connection, proxy_authorization
from locust_llm.wire.connection import Connection, SendTimeout, UnaskedData
from locust_llm.wire.http1 import Http1Reply

WAKE_S = 0.5
LINGER_S = 0.05

Batch = list[tuple[int, bytes]]


class TimedStream(httpx.SyncByteStream):
    """The reply to one request: status, headers, and the body as batches of (t_ns, bytes), or as bytes for httpx."""

    def __init__(self, connection: Connection, reply: Http1Reply, read_s: float | None = None) -> None:
        self._connection = connection
        self._reply = reply
        self._read_s = read_s
        self._decode: Callable[[bytes], bytes] | None = None
        self.status = reply.status
        self.clean = False

    def fields(self) -> dict[str, str]:
        """The response's headers by lower-case name."""
        return self._reply.fields()

    def batches(self, wait_s: Callable[[], float] | float = WAKE_S) -> Iterator[Batch]:
        """Yield what has arrived, at most `wait_s` apart (an empty batch when nothing did), until the body ends.

        `clean` tells afterwards whether the body ended as its framing promised. Raises httpx.ReadError on a reset,
        httpx.RemoteProtocolError when what came is not HTTP, and CorruptBody.
        """
        connection, reply, bell = self._connection, self._reply, self._connection.bell
        drain_due = collector().drain_due
        coding = reply.coding()
        try:
            self._decode = decompress.decoder(coding) if coding else None
            while True:
                if not (reply.ended_ns is not None or connection.closed or reply.hinted):
                    seconds = wait_s() if callable(wait_s) else wait_s
                    bell.wait(time.monotonic_ns() + int(seconds * 1e9))
                over = reply.ended_ns is not None or connection.closed
                reply.hinted = False
                batch = self._decoded(self._take_inbox())
                drain_due()
                yield batch
                drain_due()
                if over and not reply.inbox:
                    break
            self._conclude()
        finally:
            if reply.ended_ns is None:
                drain_due()  # what has come by now is `rest`
                connection.close()

    def rest(self) -> Batch:
        """What has arrived and was in no batch yet, for a reader that is leaving early."""
        return self._decoded(self._take_inbox())

    def linger(self, seconds: float = LINGER_S) -> None:
        """The answer is over though the body is not: give its end a moment to come, so the connection can be kept."""
        until_ns = time.monotonic_ns() + int(seconds * 1e9)
        while not (self._reply.complete or self._connection.closed):
            if not self._connection.bell.wait(until_ns):
                break
        self.close()

    def _take_inbox(self) -> Batch:
        inbox = self._reply.inbox
        if not inbox:
            return []
        self._reply.inbox = []
        it: Iterator[Any] = iter(inbox)
        return list(zip(it, it, strict=True))

    def _decoded(self, batch: Batch) -> Batch:
        decode = self._decode
        return batch if decode is None else [(at_ns, text) for at_ns, data in batch if (text := decode(data))]

    def _conclude(self) -> None:
        """Judge the end of the body."""
        connection, reply = self._connection, self._reply
        if reply.complete:
            self.clean = True
        elif connection.error is not None:
            raise _mapped(connection.error) from connection.error
        else:
            self.clean = not (reply.sized or connection.cut)

    def __iter__(self) -> Iterator[bytes]:
        """The body for httpx itself; raises httpx.ReadTimeout and, for a body cut short, RemoteProtocolError."""
        for batch in self.batches(self._read_s if self._read_s is not None else 60.0):
            if not batch and self._read_s is not None and not (self._reply.complete or self._connection.closed):
                raise httpx.ReadTimeout("nothing more of the body within the read timeout")
            for _, data in batch:
                yield data
        if not self.clean and self._reply.sized:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

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

    def route(self, url: httpx.URL) -> Route:
        """The way to `url`."""
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        return Route(url.scheme, host, port, self._proxy_for(url.scheme, host))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` and wait for the reply's headers.

        `request.extensions["transit"]` (a Transit) is filled in. Timeouts are httpx's own (`connect`, `read`).
        Raises httpx.ConnectError, ConnectTimeout, ProxyError, ReadTimeout, ReadError, RemoteProtocolError.
        """
        transit: Transit = request.extensions.get("transit") or Transit()
        timeout: Mapping[str, float | None] = request.extensions.get("timeout", {})
        read_s = timeout.get("read")
        route = self.route(request.url)
        head = request_head(request.method, request.url, request.headers.raw, route) + b"\r\n"
        stream = self.exchange(
            route, head + request.read(), transit, connect_s=timeout.get("connect"), headers_s=lambda: read_s
        )
        stream._read_s = read_s
        return httpx.Response(
            stream.status,
            headers=stream._reply.headers,
            stream=stream,
            extensions={"timed_stream": stream, "transit": transit},
        )

    def exchange(
        self,
        route: Route,
        data: bytes,
        transit: Transit,
        *,
        connect_s: float | None = None,
        headers_s: Callable[[], float | None] = lambda: None,
    ) -> TimedStream:
        """Send the bytes of one request along `route` and wait for the headers of its reply; fills `transit`.

        `headers_s` is asked, once the connection is there, how many seconds to wait for them. Raises as
        `handle_request` does.
        """
        connection = self._reusable(route)
        transit.reused = connection is not None
        if connection is None:
            connection = self._connect(route, transit, connect_s)
        reply = Http1Reply(self._end_hint)
        try:
            self._converse(connection, data, reply, transit, headers_s())
        except _Stale:
            connection, reply = self._try_anew(route, data, transit, connect_s, headers_s)
        transit.headers_ns = reply.headers_ns
        return TimedStream(connection, reply)

    def _try_anew(
        self,
        route: Route,
        data: bytes,
        transit: Transit,
        connect_s: float | None,
        headers_s: Callable[[], float | None],
    ) -> tuple[Connection, Http1Reply]:
        """The one retry, after a kept connection proved dead: what that cost is lost time before `sent`."""
        lost_since_ns = _forget_first_try(transit)
        connection = self._connect(route, transit, connect_s)
        reply = Http1Reply(self._end_hint)
        try:
            self._converse(connection, data, reply, transit, headers_s())
        finally:
            if transit.sent_ns is not None and lost_since_ns is not None:
                transit.lost_ns = transit.sent_ns - lost_since_ns
        return connection, reply

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
        reply = connection.reply
        if connection.closed or connection.route != route or (reply is not None and not reply.complete):
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

    def _converse(
        self, connection: Connection, data: bytes, reply: Http1Reply, transit: Transit, seconds: float | None
    ) -> None:
        """Send, and wait until the headers have come; raises _Stale when a kept connection proved dead."""
        until_ns = None if seconds is None else time.monotonic_ns() + int(seconds * 1e9)
        try:
            connection.send(data, reply, transit, until_ns)
            while reply.headers_ns is None and not connection.closed:
                if not connection.bell.wait(until_ns):
                    raise httpx.ReadTimeout("no response headers within the read timeout")
        except SendTimeout:
            connection.close()
            raise httpx.WriteTimeout("the server did not take the whole request in time") from None
        except BaseException:
            connection.close()
            raise
        if reply.headers_ns is not None:
            return
        error = connection.error
        if transit.reused and not reply.begun and (error is None or isinstance(error, OSError)):
            raise _Stale
        if error is not None:
            raise _mapped(error) from error
        raise httpx.RemoteProtocolError("the server closed the connection without sending a response")


class _Stale(Exception):
    """A kept connection was closed before any byte of the reply."""


def _forget_first_try(transit: Transit) -> int | None:
    """Count a retry; when the first try was sent."""
    sent_ns = transit.sent_ns
    transit.sent_ns = transit.end_ns = None
    transit.reused = False
    transit.stale_retries += 1
    return sent_ns


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
    if isinstance(error, UnaskedData):
        return httpx.RemoteProtocolError("the server sent data that no request asked for")
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        if error.errno in (errno.EPIPE, errno.ECONNRESET):
            return httpx.ReadError("connection reset by the server")
        return httpx.ReadError(error.strerror or str(error))
    return httpx.RemoteProtocolError(f"not valid HTTP: {error}")


def request_head(method: str, url: httpx.URL, headers: Sequence[tuple[bytes, bytes]], route: Route) -> bytes:
    """Request line and headers, without the empty line that ends them."""
    target = url.raw_path
    lines = list(headers)
    if route.proxy is not None and not route.tunnelled:
        target = b"%b://%b%b" % (url.scheme.encode(), url.netloc, target)
        credentials = proxy_authorization(route.proxy)
        if credentials is not None:
            lines.append((b"Proxy-Authorization", credentials.encode("latin-1")))
    head = [b"%b %b HTTP/1.1" % (method.encode(), target), *(b"%b: %b" % line for line in lines), b""]
    return b"\r\n".join(head)
