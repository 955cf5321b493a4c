"""HTTPS: verified by default, read with the kernel's stamps as plain HTTP is, and ended in the ways TLS ends."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from locust_llm.measure.record import Clock
from locust_llm.wire.client import LLMClient, ssl_context
from locust_llm.wire.connect import TLS
from locust_llm.wire.target import ConfigurationError
from tests.replay import DONE, ROLE, STOP, C, End, Replay, Script, U, answer, chunk, head, stream
from tests.wire.asking import CALL, client_of, eventually
from tests.wire.certificates import Authority, self_signed
from tests.wire.fronts import TlsFront

ANSWER = stream((10, ROLE), (60, C("a")), (120, C("b") + STOP + U(3, 2) + DONE))
GENERATIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def trusting(authority: Authority, url: str) -> LLMClient:
    return client_of(url, context=ssl_context(str(authority.pem)))


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.name)
def test_stamps_are_the_kernels(authority: Authority, generation: ssl.TLSVersion) -> None:
    context = authority.context()
    context.minimum_version = context.maximum_version = generation
    with Replay(ANSWER) as server, TlsFront(server.port, context) as front:
        client = trusting(authority, front.url)
        for reused in (False, True):
            record = client.request(CALL)
            transit = record.transit
            assert (record.error, record.text) == (None, "ab")
            assert transit.reused is reused
            assert (transit.tls_ns is None) is reused, "TLS is timed apart, and only where it happened"
            assert transit.clock is Clock.KERNEL
            sent = server.exchanges[-1].sent_ns
            assert transit.sent_ns is not None
            assert transit.sent_ns <= server.exchanges[-1].read_ns
            assert sent[2] <= record.event_ns[0] <= sent[3]
            assert sent[3] <= record.event_ns[1]
        assert server.connections == 1
        client.close()


def test_records_cut_anywhere(authority: Authority) -> None:
    """A record is decrypted when it is whole; the rest waits."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = authority.context().wrap_bio(incoming, outgoing, server_side=True)
    client = TLS(ssl_context(str(authority.pem))(), "127.0.0.1")
    for _ in range(3):  # the flights of both sides
        for end, received, sent in ((client._object, client._incoming, outgoing), (server, incoming, client._outgoing)):
            received.write(sent.read())
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    plain = [b"data: a\n\n", b"data: b\n\n" * 100, b"data: c\n\n"]
    for record in plain:
        server.write(record)
    wire = outgoing.read()
    parts = [client.decrypt(wire[place : place + 1]) for place in range(len(wire))]
    assert [data for data, _ in parts if data] == plain
    assert not any(closed for _, closed in parts)
    with suppress(ssl.SSLWantReadError):
        server.unwrap()
    assert client.decrypt(outgoing.read()) == (b"", True)


BAD = [
    ("an unknown authority", "TLS failed: certificate of an unknown issuer"),
    ("self-signed", "TLS failed: certificate self-signed"),
    ("another address", "TLS failed: certificate of another address"),
    ("expired", "TLS failed: certificate expired"),
]


@pytest.mark.parametrize(("what", "label"), BAD, ids=[case[0] for case in BAD])
def test_certificates_are_verified(authority: Authority, tmp_path: Path, what: str, label: str) -> None:
    context = {
        "an unknown authority": lambda: Authority(tmp_path).context(),
        "self-signed": lambda: self_signed(tmp_path),
        "another address": lambda: authority.context("10.0.0.1"),
        "expired": lambda: authority.context(expired=True),
    }[what]()
    with Replay(ANSWER) as server, TlsFront(server.port, context) as front:
        client = trusting(authority, front.url)
        record = client.request(CALL)
        assert record.error == label
        assert record.transit.sent_ns is None
        assert server.exchanges == []
        eventually(lambda: front.handshakes_failed, "the server was told")
        insecure = client_of(front.url, context=ssl_context(insecure=True))
        assert insecure.request(CALL).success
        insecure.close()


def test_public_authorities_are_trusted_by_default(authority: Authority) -> None:
    with Replay(ANSWER) as server, TlsFront(server.port, authority.context()) as front:
        record = client_of(front.url, context=ssl_context()).request(CALL)
        assert record.error == "TLS failed: certificate of an unknown issuer"
    assert ssl_context()().get_ca_certs()


def test_a_file_that_holds_no_certificates(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("empty.pem", "missing.pem"):
        with pytest.raises(ConfigurationError, match=f"--llm-ca-cert .*{name}: not a readable PEM file"):
            ssl_context(str(tmp_path / name))


def test_the_context_is_made_once(authority: Authority) -> None:
    make = ssl_context(str(authority.pem))
    assert make() is make()


def test_a_server_that_speaks_no_tls() -> None:
    with Replay(answer("400 Bad Request", b"plain HTTP")) as server:
        record = client_of(server.url.replace("http:", "https:"), connect_timeout_s=0.2).request(CALL)
        assert record.error is not None
        assert record.error.startswith(("TLS failed", "connect failed"))


# -- ends ------------------------------------------------------------------------------------------------------------

CLOSE_DELIMITED = Script(((0, head(content_type="text/event-stream") + C("a") + STOP + DONE),), End.FIN)
CUT_DELIMITED = Script(((0, head(content_type="text/event-stream") + C("a")),), End.FIN)
CUT_CHUNKED = Script(((0, head(transfer_encoding="chunked") + chunk(C("a"))),), End.FIN)
ENDS = [
    ("whole, with a goodbye", CLOSE_DELIMITED, True, None),
    ("whole, without one", CLOSE_DELIMITED, False, None),
    ("cut, with a goodbye", CUT_DELIMITED, True, "truncated stream"),
    ("cut, without one", CUT_DELIMITED, False, "truncated stream"),
    ("chunks cut, without one", CUT_CHUNKED, False, "truncated stream"),
]


@pytest.mark.parametrize(("script", "goodbye", "error"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_ends(authority: Authority, script: Script, goodbye: bool, error: str | None) -> None:
    """D02: whether a server says goodbye the TLS way does not make an answer whole, nor its silence a whole one cut."""
    with (
        Replay(script) as server,
        TlsFront(server.port, authority.context(), says_goodbye=goodbye) as front,
    ):
        record = trusting(authority, front.url).request(CALL)
        assert (record.error, record.text) == (error, "a")


@pytest.mark.parametrize("goodbye", [True, False], ids=["with a goodbye", "without one"])
def test_only_a_goodbye_vouches_for_a_body_without_length(authority: Authority, goodbye: bool) -> None:
    with (
        Replay(CLOSE_DELIMITED) as server,
        TlsFront(server.port, authority.context(), says_goodbye=goodbye) as front,
        httpx.Client(transport=trusting(authority, front.url)._transport) as client,
    ):
        response = client.send(client.build_request("GET", front.url), stream=True)
        response.read()
        assert response.extensions["timed_stream"].clean is goodbye


def test_a_reset_in_the_middle(authority: Authority) -> None:
    with (
        Replay(stream((0, C("a")), (60, C("b")), end=End.RST, end_ms=120)) as server,
        TlsFront(server.port, authority.context()) as front,
    ):
        record = trusting(authority, front.url).request(CALL)
        assert (record.error, record.text) == ("connection reset", "ab")


@pytest.mark.parametrize("dies", [End.FIN, End.RST], ids=["closed", "reset"])
def test_a_stale_connection_is_retried(authority: Authority, dies: End) -> None:
    """D78: a goodbye that crosses the request is no byte of a reply."""
    with (
        Replay(stream((0, C("a") + STOP + DONE)), Script((), dies), ANSWER) as server,
        TlsFront(server.port, authority.context()) as front,
    ):
        client = trusting(authority, front.url)
        records = [client.request(CALL) for _ in range(2)]
        assert [record.text for record in records] == ["a", "ab"]
        assert [record.transit.stale_retries for record in records] == [0, 1]
        assert [exchange.connection for exchange in server.exchanges] == [1, 1, 2]
        client.close()
