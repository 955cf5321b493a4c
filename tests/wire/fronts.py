"""What may stand before the replaying server: a TLS end, and an HTTP proxy. Operating-system threads, as the server.

with Replay(script) as server, TlsFront(server.port, context) as front: ...  # POST to front.url
with Replay(script) as server, ProxyFront() as proxy: ...                    # POST to server.url through proxy.url
"""

from __future__ import annotations

import _socket
import ssl
import struct
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from gevent import monkey

_start_thread, _new_lock = monkey.get_original("_thread", ["start_new_thread", "allocate_lock"])
_poll = monkey.get_original("select", "poll")
_DEADLINE_S = 5.0
_READ = 65536


class Front(ABC):
    """Accepts connections and serves each in a thread; as a context manager, ends them all."""

    scheme = "http"

    def __init__(self) -> None:
        self._closing = False
        self._ends: set[Any] = set()
        self._threads: list[Any] = []
        self._listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Any:
        self._thread(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self.connect(self.port).close()  # ends the wait for the next connection
        for end in list(self._ends):
            with suppress(OSError):
                end.shutdown(_socket.SHUT_RDWR)
        for done in self._threads:
            assert done.acquire(timeout=_DEADLINE_S), "a thread of a front does not end"
        self._listener.close()

    def connect(self, port: int) -> Any:
        """A connection to something on this machine."""
        end = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        end.connect(("127.0.0.1", port))
        end.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        return end

    @abstractmethod
    def serve(self, near: Any) -> None:
        """Serve one connection to its end."""

    def relay(self, near: Any, port: int, before: bytes = b"") -> bool:
        """Pass bytes both ways between `near` and a port, after sending it `before`; whether it ended without reset."""
        far = self.connect(port)
        self._ends.add(far)
        try:
            far.sendall(before)
            self._pump(near, far)
            return True
        except OSError:  # the other side gets a reset too
            for end in (near, far):
                with suppress(OSError):
                    end.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        finally:
            self._ends.discard(far)
            far.close()

    @staticmethod
    def _pump(near: Any, far: Any) -> None:
        poll = _poll()
        for end in (near, far):
            poll.register(end.fileno(), 1)
        while True:
            for fd, _ in poll.poll():
                source, sink = (near, far) if fd == near.fileno() else (far, near)
                data = source.recv(_READ)
                if data == b"":
                    return
                if data is not None:
                    sink.sendall(data)

    def _thread(self, run: Any, *arguments: Any) -> None:
        done = _new_lock()
        done.acquire()
        self._threads.append(done)

        def body() -> None:
            try:
                run(*arguments)
            finally:
                done.release()

        _start_thread(body, ())

    def _accept(self) -> None:
        while True:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
            near = _socket.socket(fileno=fd)
            if self._closing:
                near.close()
                return
            near.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self._ends.add(near)
            self._thread(self._serve_and_close, near)

    def _serve_and_close(self, near: Any) -> None:
        try:
            self.serve(near)
        except OSError:
            pass  # the client left
        finally:
            self._ends.discard(near)
            near.close()


class TlsFront(Front):
    """Ends TLS before a plain server. `says_goodbye`: whether it closes the TLS way, or just closes."""

    scheme = "https"

    def __init__(self, port: int, context: ssl.SSLContext, *, says_goodbye: bool = True) -> None:
        super().__init__()
        self._port, self._context, self._says_goodbye = port, context, says_goodbye
        self.handshakes_failed = 0

    def serve(self, near: Any) -> None:
        end = _TlsEnd(near, self._context)
        try:
            end.handshake()
        except ssl.SSLError:
            self.handshakes_failed += 1
            return
        # A request may have come along with the handshake.
        if self.relay(end, self._port, end.decrypted() or b"") and self._says_goodbye:
            end.say_goodbye()


class _TlsEnd:
    """The server's end of one TLS connection, with a socket's methods. Each `sendall` is one record."""

    def __init__(self, near: Any, context: ssl.SSLContext) -> None:
        self._near = near
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.fileno, self.setsockopt = near.fileno, near.setsockopt

    def handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            else:
                self._flush()
                return

    def recv(self, _size: int) -> bytes | None:
        """Plain bytes; b"" at the end, None when a record is not whole yet."""
        return self.decrypted() if self._feed() else b""

    def decrypted(self) -> bytes | None:
        """What has come and is whole."""
        parts = []
        with suppress(ssl.SSLWantReadError):
            while part := self._tls.read(_READ):
                parts.append(part)
            return b"".join(parts)
        return b"".join(parts) or None

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def say_goodbye(self) -> None:
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()

    def _feed(self) -> bool:
        data = self._near.recv(_READ)
        if not data:
            self._in.write_eof()
        return bool(data and self._in.write(data))

    def _flush(self) -> None:
        self._near.sendall(self._out.read())


class ProxyFront(Front):
    """An HTTP proxy that forwards plain requests and tunnels CONNECT; `asked` are the heads it got.

    `refusal`: the whole answer it gives instead. Whatever host is asked for, it connects to this machine.
    """

    def __init__(self, refusal: bytes | None = None) -> None:
        super().__init__()
        self._refusal = refusal
        self.asked: list[bytes] = []

    def serve(self, near: Any) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = near.recv(_READ)
            if not more:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        self.asked.append(head)
        if self._refusal is not None:
            near.sendall(self._refusal)
            return
        method, target, _ = head.split(b"\r\n", 1)[0].split(b" ")
        if method == b"CONNECT":
            near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self.relay(near, int(target.rsplit(b":", 1)[1]), rest)
        else:
            parts = urlsplit(target.decode())
            self.relay(near, parts.port or 80, data.replace(target, parts.path.encode(), 1))
