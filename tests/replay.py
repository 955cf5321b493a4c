"""A scripted HTTP server for wire tests: it plays bytes at stated times and keeps what it was asked.

    script = stream((5, ROLE), (214, C("Hi")), (234, C("!") + STOP + U(9, 2) + DONE))
    with Replay(script) as server:
        ...  # POST to server.url

Theory of operation. Times are milliseconds after the server has read a whole request. Each entry of a script is one
send with TCP_NODELAY, so that a reader who keeps up gets it as one read. The test process is patched by gevent and
its client may keep the hub busy, so the server runs in operating-system threads, on the C socket type, which gevent
never patches: it sends on time whatever the client does (but for the interpreter's lock: `sent_ns` has the truth).
A client that leaves is noticed at once, because every wait is a peek at the connection; closing the server shuts its
connections down, which ends the same waits.
"""

from __future__ import annotations

import _socket
import json
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from gevent import monkey

from tests.wire_events import DONE, ROLE, STOP, C, R, U, delta, event, usage
from tests.wire_script import End, Script, Step, answer, bytewise, chunk, head, stream

__all__ = [
    "DONE", "ROLE", "STOP", "C", "End", "Exchange", "R", "Replay", "Script", "Step", "U", "answer", "bytewise",
    "chunk", "delta", "event", "head", "stream", "usage",
]  # fmt: skip

_start_thread, _new_lock = monkey.get_original("_thread", ["start_new_thread", "allocate_lock"])
_sleep = monkey.get_original("time", "sleep")

_CLOSE_DEADLINE_S = 5.0
# The C socket waits in whole milliseconds, so the last of a wait is slept.
_FINE_NS = 3_000_000


@dataclass(slots=True)
class Exchange:
    """One request and what became of its answer. Times are CLOCK_MONOTONIC nanoseconds."""

    connection: int  # 1 for the first one that was accepted
    request: bytes  # head and body, as received
    read_ns: int  # the whole request had been read
    sent_ns: list[int] = field(default_factory=list)  # just before each send
    left_ns: int | None = None  # the client was seen to leave before the answer's end

    @property
    def method(self) -> str:
        return self.request.split(b" ", 1)[0].decode()

    @property
    def target(self) -> str:
        return self.request.split(b" ", 2)[1].decode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case, in their order, repeated ones repeated."""
        lines = self.request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    @property
    def body(self) -> bytes:
        return self.request.partition(b"\r\n\r\n")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Left(Exception):
    """The client left."""


class Replay:
    """Plays its scripts to one request after the other, the last one to all that follow; `choose` picks by request.

    Use it as a context manager. `exchanges` are the requests in the order they were read, `connections` how many
    were accepted. A fault of the server itself is raised on leaving the block.
    """

    def __init__(self, *scripts: Script, choose: Callable[[Exchange], Script] | None = None) -> None:
        assert bool(scripts) != (choose is not None), "give scripts, or a choice"
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._scripts = scripts
        self._choose = choose
        self._lock = _new_lock()
        self._closing = False
        self._faults: list[BaseException] = []
        self._open: dict[_socket.socket, Any] = {}  # connection → the lock its thread holds while it lives
        self._listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Replay:
        self._accepting = _new_lock()
        self._accepting.acquire()
        _start_thread(self._accept, ())
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self._faults:
            raise self._faults[0]

    def close(self) -> None:
        """Stop listening, shut every connection down and wait for their threads."""
        if self._closing:
            return
        self._closing = True
        caller = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        caller.connect(("127.0.0.1", self.port))  # ends the wait for the next connection
        caller.close()
        assert self._accepting.acquire(timeout=_CLOSE_DEADLINE_S), "the replay server does not stop accepting"
        self._listener.close()
        with self._lock:
            living = dict(self._open)
            for connection in living:
                with suppress(OSError):
                    connection.shutdown(_socket.SHUT_RDWR)
        for thread in living.values():
            assert thread.acquire(timeout=_CLOSE_DEADLINE_S), "a connection of the replay server does not end"

    def _accept(self) -> None:
        while True:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # the stubs leave it out
            connection = _socket.socket(fileno=fd)
            if self._closing:
                connection.close()
                break
            connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            alive = _new_lock()
            alive.acquire()
            with self._lock:
                self.connections += 1
                self._open[connection] = alive
            _start_thread(self._serve, (connection, self.connections, alive))
        self._accepting.release()

    def _serve(self, connection: _socket.socket, number: int, alive: Any) -> None:
        unread = b""
        try:
            while True:
                request, unread = _read_request(connection, unread)
                exchange = Exchange(number, request, time.monotonic_ns())
                if not _play(connection, self._script_for(exchange), exchange):
                    break
        except (_Left, OSError):
            pass
        except BaseException as fault:
            self._faults.append(fault)
        finally:
            with self._lock:
                del self._open[connection]
                connection.close()
            alive.release()

    def _script_for(self, exchange: Exchange) -> Script:
        with self._lock:
            place = min(len(self.exchanges), len(self._scripts) - 1)
            self.exchanges.append(exchange)
        return self._choose(exchange) if self._choose is not None else self._scripts[place]


def _read_request(connection: _socket.socket, unread: bytes) -> tuple[bytes, bytes]:
    """One request, and what was read beyond it. _Left when the client closes between two requests or within one."""
    connection.settimeout(None)
    while b"\r\n\r\n" not in unread:
        unread += _received(connection)
    end_of_head = unread.index(b"\r\n\r\n") + 4
    fields = dict(line.lower().split(b":", 1) for line in unread[:end_of_head].split(b"\r\n")[1:] if line)
    assert b"transfer-encoding" not in fields, "the replay server reads no chunked requests"
    size = end_of_head + int(fields.get(b"content-length", b"0"))
    while len(unread) < size:
        unread += _received(connection)
    return unread[:size], unread[size:]


def _received(connection: _socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise _Left
    return data


def _play(connection: _socket.socket, script: Script, exchange: Exchange) -> bool:
    """Send the script's answer; whether the connection is kept for another request."""

    def wait_until(at_ms: float) -> None:
        _wait(connection, exchange.read_ns + round(at_ms * 1e6))

    try:
        for at_ms, data in script.sends:
            wait_until(at_ms)
            exchange.sent_ns.append(time.monotonic_ns())
            connection.settimeout(None)
            connection.sendall(data)
        if script.end_ms is not None:
            wait_until(script.end_ms)
        if script.end is End.HOLD:
            _wait(connection, None)
    except (_Left, OSError):
        exchange.left_ns = time.monotonic_ns()
        raise
    if script.end is End.RST:
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))
    if script.end is not End.END:
        return False
    if script.close_ms is not None:
        _wait(connection, time.monotonic_ns() + round(script.close_ms * 1e6))
        return False
    return True


def _wait(connection: _socket.socket, until_ns: int | None) -> None:
    """Wait until then, or for ever; _Left as soon as the client has closed."""
    while until_ns is None or (left_ns := until_ns - time.monotonic_ns()) > 0:
        if until_ns is not None and left_ns <= _FINE_NS:
            _sleep(left_ns / 1e9)
            continue
        connection.settimeout(None if until_ns is None else (left_ns - _FINE_NS / 2) / 1e9)
        try:
            if not connection.recv(1, _socket.MSG_PEEK):
                raise _Left
        except TimeoutError:
            continue
        # The client has sent more than it was asked for, so it is there, and peeking would not wait.
        _sleep(0.001)
