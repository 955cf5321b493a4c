"""Through an HTTP proxy: plain requests forwarded, HTTPS tunnelled, credentials to the proxy alone, refusals named."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from locust_llm.measure.record import Clock
from locust_llm.wire.client import LLMClient, ssl_context
from locust_llm.wire.credentials import Credentials
from locust_llm.wire.target import proxy_chooser
from tests.replay import DONE, STOP, C, Replay, stream
from tests.wire.asking import CALL, client_of
from tests.wire.certificates import Authority
from tests.wire.fronts import ProxyFront, TlsFront

ANSWER = stream((0, C("a") + STOP + DONE))
KEY = Credentials((("Authorization", "Bearer sk-secret"),), ("sk-secret",), "test")
LOGIN = "Basic " + base64.b64encode(b"me:p@ss").decode()


def through(proxy: ProxyFront, url: str, login: str = "", **settings: object) -> LLMClient:
    address = proxy.url.replace("://", f"://{login}@") if login else proxy.url
    return client_of(url, proxy_for=proxy_chooser(address), credentials=KEY, **settings)


def fields(head: bytes) -> dict[str, str]:
    lines = head.decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_plain_requests_are_forwarded() -> None:
    with Replay(ANSWER) as server, ProxyFront() as proxy:
        client = through(proxy, f"http://engine.test:{server.port}/v1?v=1")
        assert [client.request(CALL).text for _ in range(2)] == ["a", "a"]
        client.close()
        [head] = proxy.asked
        assert head.startswith(b"POST http://engine.test:%d/v1/chat/completions?v=1 HTTP/1.1\r\n" % server.port)
        assert fields(head)["host"] == f"engine.test:{server.port}"
        assert "proxy-authorization" not in fields(head)
        assert server.connections == 1


def test_credentials_for_the_proxy() -> None:
    """Percent-encoded as a URL wants them; and the key for the server stays the server's."""
    with Replay(ANSWER) as server, ProxyFront() as proxy:
        record = through(proxy, server.url, "me:p%40ss").request(CALL)
        assert record.success
        assert fields(proxy.asked[0])["proxy-authorization"] == LOGIN
        assert fields(proxy.asked[0])["authorization"] == "Bearer sk-secret"


def test_https_is_tunnelled(tmp_path: Path) -> None:
    """The proxy sees host and port, its own credentials, and nothing that is meant for the server."""
    authority = Authority(tmp_path)
    with (
        Replay(ANSWER) as server,
        TlsFront(server.port, authority.context("engine.test")) as front,
        ProxyFront() as proxy,
    ):
        url = f"https://engine.test:{front.port}/v1"
        client = through(proxy, url, "me:p%40ss", context=ssl_context(str(authority.pem)))
        records = [client.request(CALL) for _ in range(2)]
        client.close()
        assert [record.text for record in records] == ["a", "a"]
        assert records[0].transit.clock is Clock.KERNEL
        [head] = proxy.asked
        assert head.startswith(b"CONNECT engine.test:%d HTTP/1.1\r\n" % front.port)
        assert fields(head) == {"host": f"engine.test:{front.port}", "proxy-authorization": LOGIN}
        asked = dict(server.exchanges[0].headers)
        assert asked["authorization"] == "Bearer sk-secret"
        assert "proxy-authorization" not in asked


REFUSALS = [
    ("no credentials", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
    ("not allowed", b"HTTP/1.1 403 Forbidden\r\n\r\n", "403"),
    ("not HTTP", b"SSH-2.0-x\r\n\r\n", "SSH"),
    ("no end", b"HTTP/1.1 200 OK\r\n" + b"a" * 40_000, "no end"),
    ("silence", b"", None),
]


@pytest.mark.parametrize(("reply", "shown"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_a_proxy_that_refuses_the_tunnel(reply: bytes, shown: str | None) -> None:
    with ProxyFront(refusal=reply) as proxy:
        record = through(proxy, "https://engine.test:1/v1", "me:p%40ss").request(CALL)
        assert record.error == ("connect failed: proxy" if shown else "connect failed: reset")
        assert record.transit.sent_ns is None
        assert (shown or "") in (record.detail or "")
        assert "p@ss" not in (record.detail or "")
        assert "p%40ss" not in (record.detail or "")


def test_a_proxy_that_is_not_there() -> None:
    with ProxyFront() as proxy:
        pass
    record = through(proxy, "http://engine.test/v1").request(CALL)
    assert record.error == "connect failed: refused"


def test_an_address_is_tunnelled_in_brackets() -> None:
    with ProxyFront(refusal=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        through(proxy, "https://[2001:db8::1]:8443/v1").request(CALL)
        assert proxy.asked[0].startswith(b"CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: [2001:db8::1]:8443")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_proxy_variables_never_capture_loopback(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """D63: httpx and requests would send even 127.0.0.1 to the proxy."""
    with Replay(ANSWER) as server, ProxyFront() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        url = f"http://{host}:{server.port}"
        assert client_of(url, proxy_for=proxy_chooser("")).request(CALL).success
        assert proxy.asked == []
        away = client_of(f"http://engine.test:{server.port}", proxy_for=proxy_chooser(""))
        assert away.request(CALL).success
        assert len(proxy.asked) == 1
