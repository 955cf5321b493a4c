"""The replaying server itself, seen by std-lib clients."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import gevent
import pytest

from tests.replay import DONE, ROLE, STOP, C, End, R, Replay, Script, U, answer, bytewise, chunk, delta, head, stream

ASKED = {"model": "m", "stream": True}


@contextmanager
def connected(server: Replay) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as client:
        yield client


def post(client: http.client.HTTPConnection) -> http.client.HTTPResponse:
    client.request("POST", "/v1/chat/completions", json.dumps(ASKED), {"Authorization": "Bearer sk-x"})
    return client.getresponse()


def raw_bytes(server: Replay) -> bytes:
    """All that comes until the server closes."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (ROLE, {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}),
        (C("x"), {"delta": {"content": "x"}, "finish_reason": None}),
        (R("x"), {"delta": {"reasoning_content": "x"}, "finish_reason": None}),
        (STOP, {"delta": {}, "finish_reason": "stop"}),
    ],
    ids=["ROLE", "C", "R", "STOP"],
)
def test_events_with_a_choice(made: bytes, fields: dict[str, object]) -> None:
    assert made.startswith(b"data: {")
    assert made.endswith(b"}\n\n")
    envelope = {"id": "c1", "object": "chat.completion.chunk", "model": "m"}
    assert json.loads(made[6:]) == envelope | {"choices": [{"index": 0} | fields]}


def test_role_is_byte_for_byte_that_of_the_cases() -> None:
    assert ROLE == (
        b'data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
        b'"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
    )


def test_usage_and_done_events() -> None:
    assert json.loads(U(9, 2)[6:])["choices"] == []
    assert json.loads(U(9, 2)[6:])["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    assert DONE == b"data: [DONE]\n\n"
    assert b'"index":1' in C("x", index=1)
    assert b"\xe2\x80\xa8" in C("a\u2028b")
    assert json.loads(delta(None, usage=None)[6:])["usage"] is None


def test_a_stream_is_a_chunked_answer_and_its_request_is_kept() -> None:
    with Replay(stream((0, ROLE), (0, C("Hi") + STOP + DONE))) as server, connected(server) as client:
        response = post(client)
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.read() == ROLE + C("Hi") + STOP + DONE
        [exchange] = server.exchanges
        assert (exchange.method, exchange.target, exchange.json) == ("POST", "/v1/chat/completions", ASKED)
        assert ("authorization", "Bearer sk-x") in exchange.headers
        assert len(exchange.sent_ns) == 3
        assert exchange.left_ns is None


def test_scripts_follow_one_another_on_a_kept_connection_and_the_last_is_repeated() -> None:
    scripts = [answer("429 Too Many Requests", b"{}", retry_after="2"), stream((0, C("a"))), answer("200 OK", b"[]")]
    with Replay(*scripts) as server, connected(server) as client:
        bodies = []
        for _ in range(4):
            response = post(client)
            bodies.append((response.status, response.read()))
            assert (response.headers["Retry-After"] is not None) == (response.status == 429)
        assert bodies == [(429, b"{}"), (200, C("a")), (200, b"[]"), (200, b"[]")]
        assert server.connections == 1
        assert [exchange.connection for exchange in server.exchanges] == [1, 1, 1, 1]


def test_a_choice_picks_the_script_by_request() -> None:
    scripts = {"/a": answer("200 OK", b"A"), "/b": answer("404 Not Found", b"B")}
    with Replay(choose=lambda exchange: scripts[exchange.target]) as server, connected(server) as client:
        for target, status in (("/b", 404), ("/a", 200)):
            client.request("GET", target)
            response = client.getresponse()
            assert (response.status, response.read()) == (status, target[1:].upper().encode())


def test_sends_are_apart_and_never_early() -> None:
    script = stream((30, C("a")), (60, C("b")), (90, C("c")), end=End.FIN, head_ms=10)
    with Replay(script) as server:
        assert raw_bytes(server).endswith(b"\r\n\r\n" + chunk(C("a")) + chunk(C("b")) + chunk(C("c")))
        [exchange] = server.exchanges
        at_ms = [(sent_ns - exchange.read_ns) / 1e6 for sent_ns in exchange.sent_ns]
        # How late they are depends on the machine, and is what `sent_ns` is for.
        assert all(at >= due for at, due in zip(at_ms, (10, 30, 60, 90), strict=True))


def test_the_server_sends_while_the_client_keeps_the_interpreter_busy() -> None:
    """D83: a client that parses does not delay what comes next on the wire, as a greenlet of its hub would be."""
    with Replay(stream((5, C("a")), (10, C("b")), end=End.FIN)) as server:
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            deadline_s = time.monotonic() + 10
            while not (server.exchanges and len(server.exchanges[0].sent_ns) == 3) and time.monotonic() < deadline_s:
                pass
        assert len(server.exchanges[0].sent_ns) == 3


ENDS = [
    (End.FIN, http.client.IncompleteRead),
    (End.RST, ConnectionResetError),
    (End.HOLD, TimeoutError),
]


@pytest.mark.parametrize(("end", "error"), ENDS, ids=[end.name for end, _ in ENDS])
def test_broken_ends(end: End, error: type[Exception]) -> None:
    """D40, D39: everything sent before the break arrives, and the break is the one that was asked for."""
    with Replay(stream((0, C("a")), (0, C("b")), end=end)) as server, connected(server) as client:
        response = post(client)
        assert client.sock is not None
        assert response.read(len(C("a") + C("b"))) == C("a") + C("b")
        client.sock.settimeout(0.1)
        with pytest.raises(error):
            response.read()


def test_no_byte_of_an_answer() -> None:
    with (
        Replay(Script((), End.FIN)) as server,
        connected(server) as client,
        pytest.raises(http.client.RemoteDisconnected),
    ):
        post(client)


def test_a_silent_close_after_a_complete_answer() -> None:
    """D78: the connection looked kept, and is gone."""
    with Replay(stream((0, DONE), close_ms=0), stream((0, DONE))) as server, connected(server) as client:
        assert post(client).read() == DONE
        assert client.sock is not None
        assert client.sock.recv(1) == b""
        client.close()
        assert post(client).read() == DONE
        assert [exchange.connection for exchange in server.exchanges] == [1, 2]


def test_the_end_comes_at_its_own_time() -> None:
    """D44 (d)."""
    with Replay(stream((0, DONE), end_ms=30)) as server, connected(server) as client:
        assert post(client).read() == DONE
        [exchange] = server.exchanges
        assert len(exchange.sent_ns) == 3
        assert exchange.sent_ns[2] - exchange.read_ns >= 30_000_000


@pytest.mark.parametrize("end", [End.END, End.HOLD], ids=["while the answer waits", "while held"])
def test_a_client_that_leaves_is_noticed_at_once(end: End) -> None:
    """D85."""
    last = [(60_000.0, C("late"))] if end is End.END else []
    with Replay(stream((0, C("a")), *last, end=end)) as server:
        with connected(server) as client:
            assert post(client).read(len(C("a"))) == C("a")
        [exchange] = server.exchanges
        with gevent.Timeout(5):
            while exchange.left_ns is None:
                gevent.sleep(0.001)


def test_many_at_once() -> None:
    with Replay(stream((50, C("a") + DONE))) as server:

        def ask() -> bytes:
            with connected(server) as client:
                return post(client).read()

        asking = [gevent.spawn(ask) for _ in range(100)]
        assert [greenlet.get() for greenlet in asking] == [C("a") + DONE] * 100
        assert server.connections == 100
        first, *_, last = sorted(exchange.sent_ns[-1] for exchange in server.exchanges)
        assert last - first < 100 * 50_000_000  # side by side, not one after the other


def test_bytewise_steps_make_up_the_whole() -> None:
    data = head(x_test="1") + b"ab"
    steps = bytewise(data, 5, 0.5)
    assert b"".join(sent for _, sent in steps) == data
    assert [at_ms for at_ms, _ in itertools.islice(steps, 3)] == [5, 5.5, 6]
    assert b"\r\nx-test: 1\r\n\r\n" in data


def test_a_fault_of_the_server_is_raised_on_leaving() -> None:
    def broken(_exchange: object) -> Script:
        raise LookupError("no such script")

    refused = pytest.raises(http.client.RemoteDisconnected)
    raised = pytest.raises(LookupError, match="no such script")
    with raised, Replay(choose=broken) as server, connected(server) as client, refused:
        post(client)
