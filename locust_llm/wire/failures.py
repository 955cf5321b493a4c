"""The one place where failures get their labels.

A label is what failures are counted by: stable, free of ids, numbers and secrets, and of bounded variety. The detail
beside it is one bounded snippet for a person to read. Foreign exceptions are told apart by type name and errno, so
that neither httpx nor gevent is imported here.
"""

from __future__ import annotations

import errno
import html
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

from locust_llm.wire.document import read_document

TRUNCATED: Final = "truncated stream"
NO_OUTPUT: Final = "no output events"
UNEXPECTED: Final = "unexpected answer"
MALFORMED: Final = "malformed event"
TOO_LONG: Final = "event too long"
STALL: Final = "stall"
TIMEOUT: Final = "timeout"
RESET: Final = "connection reset"
STALE: Final = "connection closed without an answer"
CONNECT_FAILED: Final = "connect failed"
CONNECT_REFUSED: Final = "connect failed: refused"
CONNECT_TIMEOUT: Final = "connect failed: timeout"
CONNECT_UNREACHABLE: Final = "connect failed: unreachable"
NAME_NOT_FOUND: Final = "connect failed: name not found"
TLS_FAILED: Final = "TLS failed"
PROTOCOL: Final = "HTTP protocol error"
TOO_MANY_FILES: Final = "client: too many open files"

LABEL_LIMIT = 120
SNIPPET_LIMIT = 200
MAX_LABELS = 50

Failure = tuple[str, str | None]
"""(label, detail)."""


# -- bounds and secrets ----------------------------------------------------------------------------------------------

_SECRETS: Final = (
    (re.compile(r"\b(Bearer|Basic)\s+[^\s\"',;]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\bsk-[\w-]+[\w*.-]*"), "sk-***"),
    (re.compile(r"(?<=://)[^\s/@]+@"), "***@"),
    (re.compile(r"\b((?:x-)?api[-_ ]?key[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&]+", re.IGNORECASE), r"\1***"),
)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """`text` without the known secrets and without what looks like one (Bearer …, sk-…, user:password in a URL)."""
    for secret in sorted({known.strip() for known in secrets} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    for pattern, mask in _SECRETS:
        text = pattern.sub(mask, text)
    return text


def snippet(body: bytes | str) -> str:
    """One line of at most 200 characters to show a person: redacted, without control characters or markup."""
    text = (
        body[: 16 * SNIPPET_LIMIT].decode(errors="replace") if isinstance(body, bytes) else body[: 16 * SNIPPET_LIMIT]
    )
    text = redact(" ".join(text.split()))
    if text.startswith("<"):
        text = html.escape(text)
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return text if len(text) <= SNIPPET_LIMIT else text[: SNIPPET_LIMIT - 1] + "…"


class LabelLimiter:
    """Lets through the first `limit` distinct labels; later ones become their `other`, so that tables stay short."""

    def __init__(self, limit: int = MAX_LABELS) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def admit(self, label: str, other: str) -> str:
        """`label`, or `other` when there are too many distinct ones already."""
        if label not in self._seen:
            if len(self._seen) >= self._limit:
                return other
            self._seen.add(label)
        return label

    def reset(self) -> None:
        """Forget all labels (a new run)."""
        self._seen.clear()


LABELS: Final = LabelLimiter()
"""The labels of this process that hold a server's own words."""


# -- what the server said --------------------------------------------------------------------------------------------

_IDENTIFIER: Final = re.compile(r"[A-Za-z_](?:[A-Za-z_]|[.-](?=[A-Za-z_])){0,60}\Z")
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z.+-]{1,60}")
_VARIABLE: Final = (
    (re.compile(r"https?://\S+"), "…"),
    (re.compile(r"\b(?=[\w-]*\d)[\w-]{8,}\b"), "…"),  # ids: long words with digits
    (re.compile(r"\b[0-9a-fA-F]{8,}\b"), "…"),
    (re.compile(r"\b[A-Za-z_]*\d\w*(?:[.,:]\d\w*)*"), "#"),
)


def _identifier(value: object) -> str:
    """`value` if it is a word that a server uses as a code (rate_limit_exceeded); digits make it an id, so ''."""
    return value if isinstance(value, str) and _IDENTIFIER.match(value) else ""


def _stable(message: str) -> str:
    """`message` as one line with numbers, ids and URLs collapsed: two of the same kind become equal."""
    text = redact(" ".join(message.split()))
    for pattern, mask in _VARIABLE:
        text = pattern.sub(mask, text)
    return "".join(letter for letter in text if letter.isprintable())


def _said(document: object) -> tuple[list[str], int | None, str]:
    """(codes and types that are identifiers, numeric code, message) of an error in any of its shapes."""
    outer = document if isinstance(document, Mapping) else {}
    error = outer.get("error") or document
    inner = error if isinstance(error, Mapping) else {}
    words = [inner.get("code"), inner.get("type"), inner.get("error_type"), outer.get("error_type")]
    message = inner.get("message") or inner.get("detail") or outer.get("message") or outer.get("detail") or ""
    if isinstance(error, str):
        words.insert(0, error)
        message = error
    number = inner.get("code", inner.get("status_code"))
    if isinstance(number, str) and number.isdecimal():
        number = int(number[:9])
    numeric = number if isinstance(number, int) and not isinstance(number, bool) else None
    named = [word for word in map(_identifier, words) if word and word != "error"]
    return named, numeric, message if isinstance(message, str) else str(message)


def http_failure(status: int, content_type: str, body: bytes, location: str = "") -> Failure:
    """The failure of an answer whose status is not 2xx: `HTTP 429 rate_limit_exceeded`, `redirect 301`.

    The code or type is taken from a JSON body, and only if it is a plain word.
    """
    if 300 <= status < 400 and location:
        return f"redirect {status}", f"→ {snippet(location.partition('?')[0])}: not followed; fix the base URL (--host)"
    label = f"HTTP {status}"
    try:
        document = read_document(body)
    except ValueError:
        return label, snippet(body) or None
    named, _, message = _said(document)
    if named:
        label = LABELS.admit(f"{label} {named[0]}", label)
    return label, snippet(message or body) or None


def in_stream_failure(error: object) -> Failure:
    """The failure of an error that came as an event, after status 200; `error` is the event's JSON document or text.

    `in-stream error: 503 service_unavailable` when it carries an HTTP status that says more than 500 does, else
    `in-stream error: InternalServerError: engine died` with numbers and ids of the message collapsed.
    """
    named, number, message = _said(error)
    words = [named[0]] if named and named[0] != message else []
    if number is not None and 400 <= number <= 599 and number != 500:
        text = " ".join([str(number), *words])
    else:
        stable = _stable(message)
        text = ": ".join([*words, stable] if stable else words)
    label = f"in-stream error: {text or 'no message'}"
    if len(label) > LABEL_LIMIT:
        label = label[: LABEL_LIMIT - 1] + "…"
    return LABELS.admit(label, "in-stream error: other"), snippet(message) or None


def content_failure(content_type: str, body: bytes) -> Failure:
    """The failure of a 2xx whose body is neither a stream nor a JSON answer: `unexpected content-type text/html`."""
    media = _media_type(content_type)
    if is_json_lines(content_type):
        return json_lines_failure(body, media)
    if body.lstrip()[:1] == b"<" and media in ("", "text/event-stream", "application/json"):
        media = "text/html"
    label = f"unexpected content-type {media or 'none'}"
    return LABELS.admit(label, "unexpected content-type other"), snippet(body) or None


def json_lines_failure(body: bytes, media: str = "application/x-ndjson") -> Failure:
    """The failure of a body of JSON lines, as Ollama's own API sends them."""
    hint = "lines of JSON, not server-sent events: is /v1 missing in the base URL, or --llm-api ollama meant?"
    return f"unexpected content-type {media}", f"{hint} {snippet(body)}"


def is_event_stream(content_type: str) -> bool:
    """Whether a body is labelled as server-sent events."""
    return _media_type(content_type) == "text/event-stream"


def is_json(content_type: str) -> bool:
    """Whether a body is labelled as one JSON document."""
    media = _media_type(content_type)
    return media == "application/json" or media.endswith("+json")


def is_json_lines(content_type: str) -> bool:
    """Whether a body is labelled as one JSON document a line."""
    return _media_type(content_type) in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def _media_type(content_type: str) -> str:
    """`text/html` of `Text/HTML; charset=x`; '' when there is none or it is not a plain one."""
    media = content_type.partition(";")[0].strip().lower()
    return media if _MEDIA_TYPE.fullmatch(media) else ""


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """Seconds to wait of a Retry-After header (a number, or an HTTP date); `now_s` is the wall time. None if absent."""
    if not value:
        return None
    try:
        wait_s = float(value) if not value[-1].isalpha() else parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, OverflowError):
        return None
    return max(0.0, wait_s) if wait_s < 1e9 else None


# -- what the client met ---------------------------------------------------------------------------------------------

_ERRNO: Final = {
    errno.ECONNREFUSED: CONNECT_REFUSED,
    errno.EHOSTUNREACH: CONNECT_UNREACHABLE,
    errno.ENETUNREACH: CONNECT_UNREACHABLE,
    errno.ENETDOWN: CONNECT_UNREACHABLE,
    errno.ETIMEDOUT: TIMEOUT,
    errno.ECONNRESET: RESET,
    errno.EPIPE: RESET,
    errno.ECONNABORTED: RESET,
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENFILE: TOO_MANY_FILES,
    errno.EADDRNOTAVAIL: "client: no free local port",
    errno.ENOBUFS: "client: out of socket memory",
    errno.ENOMEM: "client: out of socket memory",
}

_TYPE_NAME: Final = {
    "PoolTimeout": "client: connection pool timeout",
    "ConnectTimeout": CONNECT_TIMEOUT,
    "Timeout": TIMEOUT,
    "TimeoutError": TIMEOUT,
    "TimeoutException": TIMEOUT,
    "ReadTimeout": TIMEOUT,
    "WriteTimeout": TIMEOUT,
    "ConnectError": CONNECT_FAILED,
    "ProxyError": "connect failed: proxy",
    "ReadError": RESET,
    "WriteError": RESET,
    "RemoteProtocolError": PROTOCOL,
    "StreamTooLong": TOO_LONG,
}

_CERTIFICATE: Final = {
    10: "certificate expired",
    9: "certificate not yet valid",
    18: "certificate self-signed",
    19: "certificate self-signed in its chain",
    20: "certificate of an unknown issuer",
    21: "certificate of an unknown issuer",
    62: "certificate of another host",
    64: "certificate of another address",
}


def exception_failure(exc: BaseException, secrets: Sequence[str] = (), *, connecting: bool = False) -> Failure:
    """The failure of an exception that ended a request. A ValueError gives its class name only: it may quote a header.

    `connecting` = the exception came before the request was sent, so that a reset or a timeout is the connection's.
    """
    chain = _causes(exc)
    if any(map(_quotes_input, chain)):
        return f"client: {type(exc).__name__}", None
    label = next(filter(None, map(_label_of, chain)), None) or f"client: {type(exc).__name__}"
    if connecting and label == TIMEOUT:
        label = CONNECT_TIMEOUT
    if connecting and label in (RESET, STALE):
        label = "connect failed: reset"
    return label, redact(snippet(str(exc)), secrets) or None


def _causes(exc: BaseException) -> list[BaseException]:
    """The innermost cause first: it knows the errno, the outermost only that something failed."""
    chain: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and len(chain) < 8 and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain[::-1]


def _quotes_input(exc: BaseException) -> bool:
    """Whether the exception's text may hold a header's value, and with it the key."""
    return (isinstance(exc, ValueError) and not isinstance(exc, OSError)) or type(exc).__name__ == "LocalProtocolError"


def _label_of(exc: BaseException) -> str | None:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"{TLS_FAILED}: {_CERTIFICATE.get(exc.verify_code, 'certificate not valid')}"
    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RESET
    if isinstance(exc, ssl.SSLError):
        return f"{TLS_FAILED}: {_identifier(exc.reason) or 'handshake'}"
    if isinstance(exc, socket.gaierror):
        return NAME_NOT_FOUND
    if isinstance(exc, OSError) and exc.errno in _ERRNO:
        return _ERRNO[exc.errno]
    names = [kind.__name__ for kind in type(exc).__mro__]
    if "RemoteProtocolError" in names and "without sending" in str(exc):
        return TRUNCATED if "complete message body" in str(exc) else STALE
    known = next((_TYPE_NAME[name] for name in names if name in _TYPE_NAME), None)
    if known is None and isinstance(exc, OSError) and exc.errno is not None:
        return f"network error: {errno.errorcode.get(exc.errno, 'unknown')}"
    return known
