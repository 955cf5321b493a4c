"""Labels of failures: stable, bounded, free of secrets (D40, D42, D62, D70)."""

from __future__ import annotations

import errno
import json
import socket
import ssl
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.wire import failures
from locust_llm.wire.sse import StreamTooLong

SECRET = "sk-SECRET0123456789"


@pytest.fixture(autouse=True)
def _own_labels() -> Iterator[None]:
    failures.LABELS.reset()
    yield
    failures.LABELS.reset()


def os_error(number: int) -> OSError:
    return OSError(number, "text of the system")


def certificate(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


def tls(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL] text")
    error.reason = reason  # type: ignore[assignment]
    return error


def caused(outer: Exception, inner: Exception) -> Exception:
    """`outer`, raised while `inner` was handled, as httpx does."""
    outer.__context__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (os_error(errno.ECONNREFUSED), "connect failed: refused"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connect failed: refused"),
        (socket.gaierror(-2, "Name or service not known"), "connect failed: name not found"),
        (os_error(errno.EHOSTUNREACH), "connect failed: unreachable"),
        (os_error(errno.ETIMEDOUT), "timeout"),
        (TimeoutError("timed out"), "timeout"),
        (os_error(errno.ECONNRESET), "connection reset"),
        (BrokenPipeError(errno.EPIPE, "x"), "connection reset"),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "connection reset"),
        (os_error(errno.EMFILE), "client: too many open files"),
        (os_error(errno.EADDRNOTAVAIL), "client: no free local port"),
        (os_error(errno.EIO), "network error: EIO"),
        (OSError(99999, "x"), "network error: unknown"),
        (certificate(10), "TLS failed: certificate expired"),
        (certificate(18), "TLS failed: certificate self-signed"),
        (certificate(62), "TLS failed: certificate of another host"),
        (certificate(77), "TLS failed: certificate not valid"),
        (tls("WRONG_VERSION_NUMBER"), "TLS failed: WRONG_VERSION_NUMBER"),
        (tls(None), "TLS failed: handshake"),
        (httpx.ConnectTimeout("x"), "connect failed: timeout"),
        (httpx.ReadTimeout("x"), "timeout"),
        (httpx.PoolTimeout("x"), "client: connection pool timeout"),
        (httpx.ReadError("x"), "connection reset"),
        (httpx.ConnectError("All connection attempts failed"), "connect failed"),
        (caused(httpx.ConnectError("x"), os_error(errno.ECONNREFUSED)), "connect failed: refused"),
        (caused(httpx.ConnectError("x"), socket.gaierror(-2, "x")), "connect failed: name not found"),
        (caused(httpx.ConnectError("x"), certificate(18)), "TLS failed: certificate self-signed"),
        (caused(httpx.ReadError("x"), os_error(errno.EMFILE)), "client: too many open files"),
        (
            httpx.RemoteProtocolError("Server disconnected without sending a response."),
            "connection closed without an answer",
        ),
        (
            httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
            "truncated stream",
        ),
        (httpx.RemoteProtocolError("illegal status line"), "HTTP protocol error"),
        (StreamTooLong("x"), "event too long"),
        (KeyError("x"), "client: KeyError"),
        (RuntimeError("x"), "client: RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_exceptions(error: Exception, label: str) -> None:
    assert failures.exception_failure(error)[0] == label


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (TimeoutError(), "connect failed: timeout"),
        (os_error(errno.ECONNRESET), "connect failed: reset"),
        (os_error(errno.ECONNREFUSED), "connect failed: refused"),
        (certificate(18), "TLS failed: certificate self-signed"),
    ],
)
def test_exceptions_while_connecting(error: Exception, label: str) -> None:
    assert failures.exception_failure(error, connecting=True)[0] == label


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"Illegal header value b'Bearer {SECRET}\\n'"),
        UnicodeEncodeError("ascii", SECRET, 0, 1, "x"),
        httpx.LocalProtocolError(f"Illegal header value b'Bearer {SECRET}\\n'"),
        caused(RuntimeError(SECRET), ValueError(SECRET)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_that_may_quote_a_header_say_their_name_alone(error: Exception) -> None:
    """D62."""
    assert failures.exception_failure(error) == (f"client: {type(error).__name__}", None)


def test_a_chain_of_causes_that_bites_its_tail() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__context__, second.__context__ = second, first
    assert failures.exception_failure(first)[0] == "client: RuntimeError"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bearer abc.def-1", "Bearer ***"),
        ("authorization: bearer abc", "authorization: bearer ***"),
        ("Illegal header value b'Bearer sk-x\\n'", "Illegal header value b'Bearer ***'"),
        ("key sk-proj-Ab12_x***9 is wrong", "key sk-*** is wrong"),
        ("http://user:pa55@host:80/v1?x=a@b", "http://***@host:80/v1?x=a@b"),
        ("x-api-key: hunter2", "x-api-key: ***"),
        ('{"api_key": "hunter2"}', '{"api_key": "***"}'),
        ("the token topsecret and topsecret2", "the token *** and ***"),
        ("asks-for nothing; task-force", "asks-for nothing; task-force"),
    ],
)  # fmt: skip
def test_redact(text: str, expected: str) -> None:
    assert failures.redact(text, ["topsecret", "topsecret2", "", " "]) == expected


@settings(deadline=None)
@given(st.text(min_size=4, max_size=20).filter(lambda key: key.strip() and "*" not in key), st.text(), st.text())
def test_a_known_secret_never_stays(key: str, before: str, after: str) -> None:
    assert key.strip() not in failures.redact(before + key + after, [key])


def test_ten_thousand_refusals_are_one_label() -> None:
    """D70."""
    labels = set()
    for number in range(10_000):
        message = f"Rate limit reached for org-{number:x} … try again in {number / 1000}s (req_{number * 7919:x})"
        body = json.dumps({"error": {"message": message, "code": "rate_limit_exceeded"}}).encode()
        labels.add(failures.http_failure(429, "application/json", body)[0])
        labels.add(failures.in_stream_failure({"error": {"message": message, "code": 429}})[0])
    assert labels == {"HTTP 429 rate_limit_exceeded", "in-stream error: 429"}


def test_labels_with_numbers_are_few() -> None:
    """D70: a message with numbers and ids, and no code, gives one label."""
    labels = {
        failures.in_stream_failure(f"worker {number} lost req-{number * 7919:08x} after {number / 7:.2f}s")[0]
        for number in range(10_000)
    }
    assert len(labels) == 1


def test_labels_are_bounded_whatever_the_server_says() -> None:
    """D70: at most 50 labels with a server's own words, then `other`."""
    words = [f"{a}{b}rror" for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]
    in_stream = {failures.in_stream_failure({"error": {"type": word}})[0] for word in words}
    assert len(in_stream) == failures.MAX_LABELS + 1
    assert "in-stream error: other" in in_stream
    assert {failures.http_failure(400, "", f'{{"error":{{"code":"{word}"}}}}'.encode())[0] for word in words} == {
        "HTTP 400"
    }
    types = {failures.content_failure(f"text/{word}", b"x")[0] for word in words}
    assert types == {"unexpected content-type other"}
    failures.LABELS.reset()
    assert failures.in_stream_failure({"error": {"type": "new"}})[0] == "in-stream error: new"


@pytest.mark.parametrize("body", [b"x" * 200_000, b"<p>" * 70_000, b'{"error":{"message":"' + b"y" * 200_000 + b'"}}'])
def test_details_are_short(body: bytes) -> None:
    label, detail = failures.http_failure(500, "text/html", body)
    assert label == "HTTP 500"
    assert detail is not None
    assert len(detail) == 200
    label, detail = failures.in_stream_failure({"error": {"message": "zz " * 9999}})
    assert (len(label), len(detail or "")) == (120, 200)


documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "error_type", "object", "x"]), inner
        ),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(documents)
def test_no_error_shape_breaks_it(document: object) -> None:
    failures.LABELS.reset()
    for label, detail in (
        failures.in_stream_failure(document),
        failures.http_failure(400, "", json.dumps(document).encode()),
    ):
        (label + (detail or "")).encode()
        assert len(label) <= 120
        assert len(detail or "") <= 200
        assert "\n" not in label


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e99", None),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert failures.retry_after_s(value, 1000.0) == expected
