"""Opening connections: DNS, TCP, proxy tunnel and TLS, each timed apart, so that none of them is in a TTFT.

Names are resolved once per process and kept for a minute, and users that ask at the same time share one look-up, a
failing one too: hundreds of users that start together would otherwise queue for gevent's ten resolver threads and
report that queue as the server's (gevent #1904).
"""

from __future__ import annotations

import base64
import errno
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import gevent
import gevent.event
import gevent.socket
from gevent import monkey

from locust_llm.measure.record import Transit
from locust_llm.wire.clock import ask_for_stamps

_socket: Any = monkey.get_original("socket", "socket")
_getaddrinfo: Any = monkey.get_original("socket", "getaddrinfo")
_SOL_SOCKET, _IPPROTO_TCP, _TCP_NODELAY = gevent.socket.SOL_SOCKET, gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY

NAME_KEPT_NS = 60_000_000_000
PROXY_REPLY_LIMIT = 16_384


class ProxyRefused(OSError):
    """The proxy answered CONNECT with something else than 200."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where to connect: the origin's scheme, host and port, and the proxy in between (a URL) if any."""

    scheme: str
    host: str
    port: int
    proxy: str | None = None

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy is asked to CONNECT (HTTPS) rather than to forward (plain HTTP)."""
        return self.proxy is not None and self.scheme == "https"


class Resolver:
    """getaddrinfo with a memory of one minute; users that ask for the same name at once share one look-up."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, list[Any]]] = {}
        self._running: dict[tuple[str, int], Any] = {}

    def __call__(self, host: str, port: int) -> list[Any]:
        """The addresses as getaddrinfo gives them; raises its OSError."""
        key = (host, port)
        kept = self._known.get(key)
        if kept is not None and time.monotonic_ns() - kept[0] < NAME_KEPT_NS:
            return kept[1]
        try:
            return _numeric(host, port)
        except UnicodeError as error:  # longer than a name can be
            raise gevent.socket.gaierror(gevent.socket.EAI_NONAME, str(error)) from None
        except OSError:
            pass  # a name
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = gevent.event.AsyncResult()
            gevent.spawn(self._look_up, key, running)  # of its own, so that a user that is killed takes no one along
        found: list[Any] | OSError = running.get()
        if isinstance(found, OSError):
            raise type(found)(*found.args)
        return found

    def _look_up(self, key: tuple[str, int], asked: Any) -> None:
        found: list[Any] | OSError
        try:
            addresses: list[Any] = gevent.socket.getaddrinfo(*key, type=gevent.socket.SOCK_STREAM)
            self._known[key] = (time.monotonic_ns(), addresses)
            found = addresses
        except OSError as error:
            found = error
        del self._running[key]
        asked.set(found)


def _numeric(host: str, port: int) -> list[Any]:
    """The address that `host` spells out, which needs no look-up; OSError when it is a name."""
    found: list[Any] = _getaddrinfo(host, port, type=gevent.socket.SOCK_STREAM, flags=gevent.socket.AI_NUMERICHOST)
    return found


resolve = Resolver()


def proxy_authorization(proxy: str) -> str | None:
    """The Proxy-Authorization value for credentials in the proxy's URL, or None."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


class TLS:
    """TLS through memory buffers, so that the socket stays ours to read with the kernel's stamps."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def handshake(self, socket: Any) -> None:
        """Handshake over `socket`; raises ssl.SSLError, or OSError when the peer goes away."""
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                send_all(socket, self._outgoing.read())
                self._incoming.write(_received(socket, "during the TLS handshake"))
            except ssl.SSLError:
                with suppress(OSError):  # tell the peer why, as far as it listens
                    socket.send(self._outgoing.read())
                raise
            else:
                send_all(socket, self._outgoing.read())
                return

    def encrypt(self, data: bytes) -> bytes:
        """The ciphertext to send for `data`."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """(plaintext that `data` completes, whether the peer said that it closes). Raises ssl.SSLError on garbage."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while True:
                part = self._object.read(65536)
                if not part:
                    return b"".join(parts), True
                parts.append(part)
                if not (self._incoming.pending or self._object.pending()):
                    return b"".join(parts), False  # asking once more would raise, which costs as much as a record
        except ssl.SSLWantReadError:
            return b"".join(parts), False
        except ssl.SSLZeroReturnError:
            return b"".join(parts), True

    def pending(self) -> bytes:
        """Protocol bytes (key updates, alerts) that TLS itself wants sent."""
        return self._outgoing.read()


def send_all(socket: Any, data: bytes) -> None:
    """Send everything, waiting for room where the kernel has none."""
    view = memoryview(data)
    while view:
        try:
            view = view[socket.send(view) :]
        except BlockingIOError:
            gevent.socket.wait_write(socket.fileno())


def _received(socket: Any, when: str) -> bytes:
    """The next bytes; ConnectionResetError when the peer closes instead."""
    while True:
        gevent.socket.wait_read(socket.fileno())
        try:
            data: bytes = socket.recv(65536)
        except BlockingIOError:
            continue
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, f"connection closed {when}")
        return data


def open_connection(route: Route, transit: Transit, context: Callable[[], ssl.SSLContext]) -> tuple[Any, TLS | None]:
    """Connect along `route`, noting the phases in `transit`; returns the non-blocking socket and its TLS, if any."""
    target = urlsplit(route.proxy) if route.proxy is not None else None
    host = target.hostname or "" if target is not None else route.host
    port = (target.port or 80) if target is not None else route.port
    begun = time.monotonic_ns()
    addresses = resolve(host, port)
    resolved = time.monotonic_ns()
    transit.dns_ns = resolved - begun
    socket = _connect_any(addresses)
    try:
        ask_for_stamps(socket)  # at once: what TLS 1.3 sends after its handshake is read with stamps, too
        if route.tunnelled:
            _tunnel(socket, route)
        connected = time.monotonic_ns()
        transit.tcp_ns = connected - resolved
        tls = None
        if route.scheme == "https":
            tls = TLS(context(), route.host)
            tls.handshake(socket)
            transit.tls_ns = time.monotonic_ns() - connected
    except BaseException:
        socket.close()
        raise
    return socket, tls


def _connect_any(addresses: list[Any]) -> Any:
    """The first of `addresses` that accepts; the last error when none does."""
    last: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    for family, kind, protocol, _, address in addresses:
        socket = _socket(family, kind, protocol)
        try:
            socket.setblocking(False)
            socket.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
            code = socket.connect_ex(address)
            if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                gevent.socket.wait_write(socket.fileno())
                code = socket.getsockopt(_SOL_SOCKET, gevent.socket.SO_ERROR)
            if code == 0:
                return socket
            last = OSError(code, errno.errorcode.get(code, str(code)))
            socket.close()
        except BaseException:
            socket.close()
            raise
    try:
        raise last
    finally:
        del last  # it holds this frame


def _tunnel(socket: Any, route: Route) -> None:
    """Ask the proxy for a tunnel to the origin; raises ProxyRefused with the proxy's status."""
    assert route.proxy is not None
    host = f"[{route.host}]" if ":" in route.host else route.host
    lines = [f"CONNECT {host}:{route.port} HTTP/1.1", f"Host: {host}:{route.port}"]
    credentials = proxy_authorization(route.proxy)
    if credentials is not None:
        lines.append(f"Proxy-Authorization: {credentials}")
    send_all(socket, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    reply = b""
    while b"\r\n\r\n" not in reply:
        reply += _received(socket, "by the proxy on CONNECT")
        if len(reply) > PROXY_REPLY_LIMIT:
            raise ProxyRefused("the proxy's answer to CONNECT has no end")
    status = reply.split(b"\r\n", 1)[0].decode("latin-1", "replace")
    if status.split(" ")[1:2] != ["200"]:
        raise ProxyRefused(f"the proxy answered CONNECT with {status[:80]!r}")
