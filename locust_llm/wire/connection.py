"""Connection: one open socket, and the reply that is being read from it.

Theory of operation. `send` runs in the user's greenlet; everything that comes back is read by the Collector, in hub
callbacks, through `_read`: bytes and the kernel's receive time first, then TLS if any, then the framing, into the
reply's inbox. The greenlet sleeps at `bell`, which rings when there is something to look at. What the reads of an
exchange were is counted here and written into its Transit once, at its end.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import httptools

from locust_llm.measure.record import Clock, Transit
from locust_llm.wire.bell import Bell
from locust_llm.wire.clock import ANCILLARY_BYTES
from locust_llm.wire.collector import collector
from locust_llm.wire.connect import TLS, Route
from locust_llm.wire.http1 import Http1Reply

READ_SIZE = 65536
monotonic_ns = time.monotonic_ns
LAST_READS = 16


class UnaskedData(Exception):
    """The server sent bytes that no request asked for."""


class SendTimeout(Exception):
    """The server took too long to take the request."""


class Connection:
    """One open socket. `error` is what closed it, if anything but its end; `reply` the one being read."""

    __slots__ = (
        "_bytes",
        "_collector",
        "_fd",
        "_lags",
        "_reads",
        "_recvmsg",
        "_socket",
        "_stamp_of",
        "_stamped",
        "_tls",
        "_worst_lag_ns",
        "bell",
        "closed",
        "cut",
        "error",
        "reply",
        "route",
        "transit",
    )

    def __init__(self, socket: Any, tls: TLS | None, route: Route) -> None:
        self.route = route
        self.closed = False
        self.cut = False  # TLS ended without saying so: what came may not be all
        self.error: Exception | None = None
        self.reply: Http1Reply | None = None
        self.transit = Transit()
        self._socket = socket
        self._fd: int = socket.fileno()
        self._tls = tls
        self._recvmsg = socket.recvmsg
        self._collector = collector()
        self._stamp_of = self._collector.clock.monotonic
        self._lags = self._collector.lags
        self._reads = self._bytes = self._worst_lag_ns = 0
        self._stamped = True
        self.bell = Bell(self._collector)
        self._collector.add(self._fd, self._read)

    def send(self, data: bytes, reply: Http1Reply, transit: Transit, until_ns: int | None) -> None:
        """Send a request; its reply will be read into `reply`. Raises SendTimeout.

        Returns early when the connection is closed, or when the whole reply has come already (a refusal).
        """
        if self._tls is not None:
            data = self._tls.encrypt(data)
        self.reply, self.transit = reply, transit
        self._begin_account()
        self._collector.drain_due()
        transit.sent_ns = time.monotonic_ns()
        view = memoryview(data)
        while view and not self.closed:
            if reply.ended_ns is not None:
                reply.keep_alive = False  # the server may still wait for the rest
                return
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                if not self._collector.wait_for_room(self._fd, self.bell, until_ns):
                    raise SendTimeout from None
            except OSError as error:
                self._read_last_words()
                self._fail(error)

    def close(self) -> None:
        """Close the socket; what has been read stays readable."""
        if not self.closed:
            self.closed = True
            self._account()
            self._collector.remove(self._fd)
            self._socket.close()
            if self.reply is not None:
                self.reply.release()
            self.bell.ring()

    def _read(self) -> None:
        """Called by the collector when the socket can be read: stamp first. The hottest lines there are."""
        try:
            data, ancillary, _, _ = self._recvmsg(READ_SIZE, ANCILLARY_BYTES)
            now_ns = monotonic_ns()
            if not data:
                self._end(now_ns, said=False)
                return
            stamp = self._stamp_of(ancillary, now_ns)
            if stamp is None:
                stamp = self._without_stamp(now_ns)
            else:
                lag_ns = now_ns - stamp
                self._lags[lag_ns.bit_length()] += 1
                if lag_ns > self._worst_lag_ns:
                    self._worst_lag_ns = lag_ns
            self._reads += 1
            self._bytes += len(data)
            if self._tls is not None:
                self._decrypt(self._tls, stamp, data)
                return
            reply = self.reply
            if reply is None or reply.ended_ns is not None:
                raise UnaskedData
            if reply.feed(stamp, data):
                self._look(reply)
        except BlockingIOError:
            return
        except (OSError, httptools.HttpParserError, UnaskedData) as error:
            self._fail(error)

    def _without_stamp(self, now_ns: int) -> int:
        """A read that the kernel gave no time for has that of the read, and so has, in a word, its exchange."""
        self._collector.unstamped += 1
        self._stamped = False
        return now_ns

    def _decrypt(self, tls: TLS, stamp: int, data: bytes) -> None:
        text, said = tls.decrypt(data)
        answer = tls.pending()
        if answer:
            with suppress(OSError):  # what came is worth more than the answer to a key update
                self._socket.send(answer)
        if text:
            reply = self.reply
            if reply is None or reply.ended_ns is not None:
                raise UnaskedData
            if reply.feed(stamp, text):
                self._look(reply)
        if said:
            self._end(stamp, said=True)

    def _look(self, reply: Http1Reply) -> None:
        """Something has come that is not just the next piece."""
        if reply.merged:
            self._collector.merged += reply.merged
            reply.merged = 0
        if reply.ended_ns is not None:
            self._account()
            self.transit.end_ns = reply.ended_ns
            self.transit = Transit()  # what comes later belongs to no request
        self.bell.ring()

    def _account(self) -> None:
        """Write into the transit what the reads of its exchange were."""
        transit = self.transit
        transit.reads, transit.received_bytes = self._reads, self._bytes
        if self._reads and self._stamped:
            transit.clock, transit.max_lag_ns = Clock.KERNEL, self._worst_lag_ns
        self._begin_account()

    def _begin_account(self) -> None:
        self._reads = self._bytes = self._worst_lag_ns = 0
        self._stamped = True

    def _end(self, at_ns: int, *, said: bool) -> None:
        """The server closes; `said` = by the TLS way of saying so, where there is TLS."""
        self.cut = self._tls is not None and not said
        self.transit.end_ns = at_ns
        self.close()

    def _fail(self, error: Exception) -> None:
        if not self.closed:
            self.error = error.with_traceback(None)  # its frames hold this connection
            self.transit.end_ns = time.monotonic_ns()
            self.close()

    def _read_last_words(self) -> None:
        """The server will take no more; but it may have said why, and closed only then."""
        for _ in range(LAST_READS):
            if not self.closed:
                self._read()
