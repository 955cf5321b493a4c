"""One connection for many requests: kept, seen to be closed, retried once when it proved dead, given up when unsure."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import gevent
import httpx
import pytest

from locust_llm.measure.record import Transit
from locust_llm.wire.transport import StreamTransport, TimedStream
from tests.replay import DONE, STOP, C, End, Exchange, Replay, Script, answer, head, stream
from tests.wire.asking import CALL, client_of, eventually, open_descriptors

POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b"
WHOLE = stream((0, C("a") + STOP + DONE))
OK = answer("200 OK", b"{}")


@pytest.fixture
def transport() -> Iterator[StreamTransport]:
    made = StreamTransport(end_hint=b"[DONE]")
    yield made
    made.close()


def ask(transport: StreamTransport, server: Replay | Deaf, body: bytes = b"{}") -> tuple[TimedStream, Transit]:
    transit = Transit()
    data = POST % (len(body), body)
    reply = transport.exchange(transport.route(httpx.URL(server.url)), data, transit, headers_s=lambda: 10.0)
    return reply, transit


def ask_and_read(transport: StreamTransport, server: Replay) -> Transit:
    reply, transit = ask(transport, server)
    for _ in reply.batches():
        pass
    reply.close()
    return transit


def test_a_connection_is_kept(transport: StreamTransport) -> None:
    with Replay(WHOLE) as server:
        assert [ask_and_read(transport, server).reused for _ in range(3)] == [False, True, True]
        assert server.connections == 1


def test_httpx_and_calls_share_it() -> None:
    with Replay(answer("200 OK", b"{}"), WHOLE) as server:
        client = client_of(server.url)
        assert client.http.get(server.url + "/v1/models").json() == {}
        assert client.request(CALL).success
        assert server.connections == 1
        client.close()


def test_another_place_is_another_connection(transport: StreamTransport) -> None:
    with Replay(OK) as one, Replay(OK) as other:
        assert [ask_and_read(transport, server).reused for server in (one, other, one)] == [False] * 3
        assert (one.connections, other.connections) == (2, 1)


@pytest.mark.parametrize(
    "script",
    [
        stream((0, DONE), connection="close"),
        answer("200 OK", b"{}", connection="close"),
        Script(((0, head() + DONE),), End.FIN),
        Script(((0, b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"),)),
        Script(((0, head(content_length="2") + b"{}" + head(content_length="2") + b"{}"),)),
    ],
    ids=["close, chunked", "close, sized", "close-delimited", "HTTP/1.0", "a second reply came along"],
)
def test_what_is_not_kept(transport: StreamTransport, script: Script) -> None:
    with Replay(script, OK) as server:
        ask_and_read(transport, server)
        transit = ask_and_read(transport, server)
        assert (transit.reused, transit.stale_retries) == (False, 0)
        assert server.connections == 2


@pytest.mark.parametrize("close_ms", [0.0, 30.0], ids=["at once", "after a while"])
def test_a_closed_connection_is_noticed_before_it_is_used(transport: StreamTransport, close_ms: float) -> None:
    """D78: llama.cpp promises keep-alive and closes after every stream; no request is lost or late by that."""
    with Replay(stream((0, DONE), close_ms=close_ms), WHOLE) as server:
        ask_and_read(transport, server)
        eventually(lambda: transport._connection is None or transport._connection.closed, "the close is read")
        transit = ask_and_read(transport, server)
        assert (transit.reused, transit.stale_retries, transit.lost_ns) == (False, 0, 0)
        assert len(server.exchanges) == 2


def test_unasked_data_on_an_idle_connection_closes_it(transport: StreamTransport) -> None:
    """Some servers say 408 before they close an idle connection; that is nobody's answer."""
    late = Script(
        ((0, head(content_length="2") + b"{}"), (20, answer("408 Request Timeout", b"").sends[0][1])), End.FIN
    )
    with Replay(late, OK) as server:
        ask_and_read(transport, server)
        eventually(lambda: transport._connection is None or transport._connection.closed, "the connection is closed")
        reply, transit = ask(transport, server)
        assert (reply.status, transit.reused, transit.stale_retries) == (200, False, 0)
        reply.close()


# -- the close that crosses a request --------------------------------------------------------------------------------


def dies_on_second(end: End, before: bytes = b"") -> Script:
    """What the second request on a connection gets: the end, perhaps after the first bytes of a reply."""
    return Script(((0, before),) if before else (), end)


def by_connection(first: Script, *later: Script) -> Replay:
    """The first request on a connection gets `first`; others get `later` in turn."""
    seen: set[int] = set()
    rest = iter(later)

    def choose(exchange: Exchange) -> Script:
        if exchange.connection not in seen and not seen:
            seen.add(exchange.connection)
            return first
        return next(rest)

    return Replay(choose=choose)


@pytest.mark.parametrize("end", [End.FIN, End.RST], ids=["closed", "reset"])
def test_a_stale_connection_is_retried_once(transport: StreamTransport, end: End) -> None:
    """D78: no byte of a reply came on a reused connection, so the request is sent anew; counted, and not in TTFT."""
    with by_connection(WHOLE, dies_on_second(end), WHOLE) as server:
        ask_and_read(transport, server)
        transit = ask_and_read(transport, server)
        assert (transit.stale_retries, transit.reused) == (1, False)
        assert [exchange.connection for exchange in server.exchanges] == [1, 1, 2]
        assert transit.sent_ns is not None
        assert transit.sent_ns >= server.exchanges[1].read_ns, "sent is the retry's"
        assert transit.lost_ns > 0
        assert transit.sent_ns - transit.lost_ns <= server.exchanges[1].read_ns
        assert transit.tcp_ns is not None
        assert transit.headers_ns is not None


def test_not_twice(transport: StreamTransport) -> None:
    with by_connection(WHOLE, dies_on_second(End.FIN), dies_on_second(End.FIN)) as server:
        ask_and_read(transport, server)
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            ask(transport, server)
        assert len(server.exchanges) == 3


@pytest.mark.parametrize("end", [End.FIN, End.RST], ids=["closed", "reset"])
def test_not_after_a_byte_of_the_reply(transport: StreamTransport, end: End) -> None:
    with by_connection(WHOLE, dies_on_second(end, b"HTTP/1.1 2")) as server:
        ask_and_read(transport, server)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            ask(transport, server)
        assert len(server.exchanges) == 2


@pytest.mark.parametrize("end", [End.FIN, End.RST], ids=["closed", "reset"])
def test_not_on_a_fresh_connection(transport: StreamTransport, end: End) -> None:
    """D40: a server that closes without a word is a failure, not a reason to ask again."""
    with Replay(Script((), end)) as server:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            ask(transport, server)
        assert len(server.exchanges) == 1


def test_a_retry_that_cannot_connect(transport: StreamTransport) -> None:
    server = by_connection(WHOLE, Script((), End.HOLD))
    with server:
        ask_and_read(transport, server)
        asking = gevent.spawn(ask, transport, server)
        eventually(lambda: len(server.exchanges) == 2, "the second request is there")
    with pytest.raises(httpx.ConnectError):
        asking.get(timeout=10)


# -- long requests ---------------------------------------------------------------------------------------------------

LONG = bytes(6_000_000)
LONG_HEAD = POST % (len(LONG), b"")


class Deaf:
    """A server that reads the head of a long request and no more, then does what a test says."""

    def __init__(self, then: Callable[[socket.socket], None]) -> None:
        self._then = then
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._serving = gevent.spawn(self._serve)

    def _serve(self) -> None:
        near, _ = self._listener.accept()
        with near:
            near.recv(len(LONG_HEAD))
            self._then(near)

    def __enter__(self) -> Deaf:
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.kill()
        self._listener.close()


def test_a_long_request_goes_out_whole(transport: StreamTransport) -> None:
    def answer_all(near: socket.socket) -> None:
        while len(taken) < len(LONG):
            taken.extend(near.recv(1 << 20))
        near.sendall(head(content_length="0"))

    taken = bytearray()
    with Deaf(answer_all) as server:
        reply, _ = ask(transport, server, LONG)
        assert reply.status == 200
        assert bytes(taken) == LONG


@pytest.mark.parametrize("closes", [True, False], ids=["and closes", "and waits"])
def test_a_refusal_that_comes_before_the_whole_request_was_taken(transport: StreamTransport, closes: bool) -> None:
    def refuse(near: socket.socket) -> None:
        near.sendall(head("413 Too Large", content_length="2") + b"{}")
        if closes:
            near.close()
        else:
            gevent.sleep(60)

    with Deaf(refuse) as server:
        reply, _ = ask(transport, server, LONG)
        assert reply.status == 413
        assert [data for batch in reply.batches() for _, data in batch] == [b"{}"]
        assert reply.clean
        reply.close()
        assert transport._connection is not None
        assert transport._connection.closed, "the server may still wait for the rest of the request"


def test_a_server_that_does_not_take_the_request(transport: StreamTransport) -> None:
    with Deaf(lambda near: gevent.sleep(60)) as server:
        route, transit = transport.route(httpx.URL(server.url)), Transit()
        with pytest.raises(httpx.WriteTimeout):
            transport.exchange(route, LONG_HEAD + LONG, transit, headers_s=lambda: 0.05)
        assert transport._connection is not None
        assert transport._connection.closed


def test_a_server_that_goes_away_while_it_is_sent_to(transport: StreamTransport) -> None:
    with Deaf(lambda near: near.close()) as server, pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        ask(transport, server, LONG)


# -- answers that are left early -------------------------------------------------------------------------------------


def test_lingering_keeps_a_connection_whose_end_is_near(transport: StreamTransport) -> None:
    """D44 (d): END comes a moment after [DONE]."""
    with Replay(stream((0, DONE), end_ms=15), WHOLE) as server:
        reply, _ = ask(transport, server)
        batches = reply.batches()
        assert next(batches)
        reply.linger(5.0)
        assert ask_and_read(transport, server).reused
        assert server.connections == 1


def test_lingering_gives_up_a_connection_whose_end_does_not_come(transport: StreamTransport) -> None:
    """D44 (a)."""
    with Replay(stream((0, DONE), end=End.HOLD), WHOLE) as server:
        reply, _ = ask(transport, server)
        batches = reply.batches()
        assert next(batches)
        reply.linger(0.03)
        eventually(lambda: server.exchanges[0].left_ns, "the connection is closed")
        assert not ask_and_read(transport, server).reused


def test_a_reply_that_was_not_read_to_its_end_is_not_mixed_with_the_next(transport: StreamTransport) -> None:
    slow = stream((0, C("a")), (10_000, C("b")))
    with Replay(slow, WHOLE) as server:
        reply, _ = ask(transport, server)
        assert reply.status == 200
        transit = ask_and_read(transport, server)
        assert not transit.reused
        assert server.connections == 2


def test_closing_closes_the_socket(transport: StreamTransport) -> None:
    with Replay(WHOLE) as server:
        before = open_descriptors()
        ask_and_read(transport, server)
        eventually(lambda: open_descriptors() >= before + 2, "both ends are open")
        transport.close()
        eventually(lambda: open_descriptors() <= before, "both ends are closed")
        transport.close()
