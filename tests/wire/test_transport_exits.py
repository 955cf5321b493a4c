"""D85: however a request is left, its socket is closed, the server sees it, and its user's next request works."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gevent
import gevent.event
import gevent.socket
import pytest

from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.wire.client import LLMClient, ssl_context
from tests.replay import DONE, STOP, C, End, Replay, Script, answer, stream
from tests.wire.asking import CALL, client_of, eventually, open_descriptors
from tests.wire.certificates import Authority
from tests.wire.fronts import ProxyFront, TlsFront

WHOLE = stream((0, C("a") + STOP + DONE))
HELD = stream((0, C("a")), end=End.HOLD)
SILENT = Script((), End.HOLD)
LINGERING = stream((0, C("a") + STOP + DONE), end=End.HOLD)


class Mute:
    """A server that accepts and then says and reads nothing: a TLS handshake or a long request waits for ever."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._accepting = gevent.spawn(self._accept)

    def _accept(self) -> None:
        while True:
            self._accepted.append(self._listener.accept()[0])

    def __enter__(self) -> Mute:
        return self

    def __exit__(self, *_: object) -> None:
        self._accepting.kill()
        for one in [*self._accepted, self._listener]:
            one.close()

    @property
    def reached(self) -> bool:
        return bool(self._accepted)


class Asking:
    """A request in a greenlet of its own, as a user makes it."""

    def __init__(self, client: LLMClient, call: Any = CALL) -> None:
        self.records: list[RequestRecord] = []
        self._greenlet = gevent.spawn(client.request, call, on_end=self.records.append)

    def kill(self) -> RequestRecord:
        """As a ramp-down does it; the record that was left behind."""
        assert not self._greenlet.dead
        self._greenlet.kill()
        [record] = self.records
        return record


@contextmanager
def none_left_open() -> Iterator[None]:
    """Whatever is opened in the block must be closed after it."""
    before = open_descriptors()
    yield
    eventually(lambda: open_descriptors() <= before, "all descriptors are given back")


@pytest.fixture(autouse=True)
def warm() -> None:
    """What a process opens once and keeps is open before anything is counted."""
    with Replay(WHOLE) as server:
        client = client_of(server.url)
        assert client.request(CALL).success
        client.close()


def check_killed(record: RequestRecord, *, sent: bool = True) -> None:
    assert record.outcome is Outcome.CANCELLED
    assert record.error is None
    assert (record.transit.sent_ns is not None) is sent


def test_killed_while_the_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    go = gevent.event.Event()
    monkeypatch.setattr(gevent.socket, "getaddrinfo", lambda *_, **__: go.wait() and [])
    with none_left_open():
        asking = Asking(client_of("http://never-asked-before.test"))
        gevent.sleep(0.01)
        check_killed(asking.kill(), sent=False)
        go.set()
        gevent.sleep(0)


def test_killed_while_connecting() -> None:
    with socket.socket() as listener, none_left_open():
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filling = [socket.socket() for _ in range(4)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        asking = Asking(client_of(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        gevent.sleep(0.05)
        check_killed(asking.kill(), sent=False)
        for one in filling:
            one.close()


def test_killed_in_the_tls_handshake() -> None:
    with Mute() as server, none_left_open():
        asking = Asking(client_of(f"https://127.0.0.1:{server.port}"))
        eventually(lambda: server.reached, "it has connected")
        gevent.sleep(0.01)
        check_killed(asking.kill(), sent=False)
        for one in server._accepted:
            one.close()


def test_killed_while_the_proxy_makes_up_its_mind() -> None:
    with Mute() as server, none_left_open():
        asking = Asking(client_of("https://engine.test", proxy_for=lambda *_: f"http://127.0.0.1:{server.port}"))
        eventually(lambda: server.reached, "it has connected")
        gevent.sleep(0.01)
        check_killed(asking.kill(), sent=False)
        for one in server._accepted:
            one.close()


def test_killed_while_sending() -> None:
    long = type(CALL)(messages=[{"role": "user", "content": "x" * 8_000_000}], model="m")
    with Mute() as server, none_left_open():
        asking = Asking(client_of(f"http://127.0.0.1:{server.port}"), long)
        eventually(lambda: server.reached, "it has connected")
        gevent.sleep(0.02)
        check_killed(asking.kill())
        for one in server._accepted:
            one.close()


PHASES: list[tuple[str, Script, Callable[[Replay], object]]] = [
    ("waiting for the headers", SILENT, lambda server: server.exchanges),
    ("in the body", HELD, lambda server: server.exchanges and len(server.exchanges[0].sent_ns) == 2),
    ("after the last word", LINGERING, lambda server: server.exchanges and len(server.exchanges[0].sent_ns) == 2),
]


@pytest.mark.parametrize(("script", "reached"), [case[1:] for case in PHASES], ids=[case[0] for case in PHASES])
def test_killed(script: Script, reached: Callable[[Replay], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locust_llm.wire.transport.TimedStream.linger.__defaults__", (60.0,))
    with Replay(script, WHOLE) as server:
        with none_left_open():
            client = client_of(server.url)
            asking = Asking(client)
            eventually(lambda: reached(server), "it is there")
            gevent.sleep(0.03)
            check_killed(asking.kill())
            eventually(lambda: server.exchanges[0].left_ns, "the server sees it, and can stop generating")
        record = client.request(CALL)
        assert (record.success, record.transit.reused) == (True, False)
        client.close()


def test_killed_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with Replay(HELD) as server, TlsFront(server.port, authority.context()) as front, none_left_open():
        asking = Asking(client_of(front.url, context=ssl_context(str(authority.pem))))
        eventually(lambda: server.exchanges and len(server.exchanges[0].sent_ns) == 2, "the body has begun")
        gevent.sleep(0.03)
        check_killed(asking.kill())
        eventually(lambda: server.exchanges[0].left_ns, "the server sees it")


def test_killed_through_a_proxy() -> None:
    with Replay(HELD) as server, ProxyFront() as proxy, none_left_open():
        asking = Asking(client_of("http://engine.test:" + str(server.port), proxy_for=lambda *_: proxy.url))
        eventually(lambda: server.exchanges and len(server.exchanges[0].sent_ns) == 2, "the body has begun")
        gevent.sleep(0.03)
        check_killed(asking.kill())
        eventually(lambda: server.exchanges[0].left_ns, "the server sees it")


def test_tokens_that_came_before_are_in_the_record() -> None:
    """D15: also those that nobody had looked at yet."""
    with Replay(stream((0, C("a")), (20, C("b")), end=End.HOLD)) as server:
        asking = Asking(client_of(server.url))
        eventually(lambda: server.exchanges and len(server.exchanges[0].sent_ns) == 3, "two tokens are sent")
        record = asking.kill()
        check_killed(record)
        assert (record.text, len(record.event_ns)) == ("ab", 2)
        assert record.ended_ns > record.event_ns[-1]


def test_many_are_killed_and_the_next_one_proceeds() -> None:
    """The peer's pool of 100 connections was empty after as many kills; there is no pool here to run dry."""
    with Replay(*[HELD] * 150, WHOLE) as server:
        with none_left_open():
            many = [Asking(client_of(server.url)) for _ in range(150)]
            eventually(lambda: len(server.exchanges) == 150, "all are sent")
            for asking in many:
                check_killed(asking.kill())
        record = client_of(server.url).request(CALL)
        assert record.success


FAILURES: list[tuple[str, Script]] = [
    ("success, kept", WHOLE),
    ("success, held open", LINGERING),
    ("stall", HELD),
    ("no answer", SILENT),
    ("closed without a word", Script((), End.FIN)),
    ("reset", stream((0, C("a")), end=End.RST)),
    ("cut short", stream((0, C("a")), end=End.FIN)),
    ("not HTTP", Script(((0, b"SSH-2.0\r\n\r\n"),), End.HOLD)),
    ("an error", answer("500 Oops", b"{}")),
    ("a redirect", answer("301 Moved", b"", location="http://other.test/")),
    ("an endless error", Script(((0, b"HTTP/1.1 500 Oops\r\n\r\nabc"),), End.HOLD)),
]


@pytest.mark.parametrize("script", [case[1] for case in FAILURES], ids=[case[0] for case in FAILURES])
def test_nothing_is_left_open_after_any_ending(script: Script) -> None:
    with Replay(script) as server, none_left_open():
        client = client_of(server.url, stall_timeout_s=0.15)
        with suppress(Exception):
            client.request(CALL)
        client.close()


@pytest.mark.parametrize("script", [case[1] for case in FAILURES], ids=[case[0] for case in FAILURES])
def test_no_ending_leaves_work_for_the_garbage_collector(script: Script) -> None:
    """A collection pauses all streams, so what a request made must go by itself."""
    with Replay(script) as server:
        client = client_of(server.url, stall_timeout_s=0.05)
        client.request(CALL)
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                client.request(CALL)
            assert gc.collect() == 0
        finally:
            gc.enable()
            client.close()
