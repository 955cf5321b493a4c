"""LLMClient: one user's way to one endpoint. Encodes a call, streams the answer, returns its RequestRecord.

`http` is an httpx.Client over our StreamTransport, for anything one may want to ask the server. Calls go through the
same transport, on the same connection, but with a request head made once: nothing in it changes but the length of the
body, and httpx takes longer to build and send a request than all else that a request costs. Configuration is shared by
all users of a process.
"""

from __future__ import annotations

import functools
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import certifi
import httpx

from locust_llm.measure.record import RequestRecord
from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import Api, Call
from locust_llm.wire.credentials import Credentials
from locust_llm.wire.decompress import CorruptBody
from locust_llm.wire.patience import Patience
from locust_llm.wire.target import ConfigurationError, Target
from locust_llm.wire.transport import StreamTransport, TimedStream, request_head

# httpx logs a line per request at INFO, which is Locust's default level.
logging.getLogger("httpx").setLevel(logging.WARNING)

USAGE_OPTION = "stream_options"
HEADERS = (
    ("Content-Type", "application/json"),
    ("Accept", "text/event-stream, application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "locust-llm"),
)


@dataclass(slots=True)
class Quirks:
    """What this process has learnt of the server; shared by its users."""

    include_usage: bool = True


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Everything a client needs to know; the same for all users of one target in a process.

    Timeouts are seconds, 0 = none. `stall_timeout_s` is the longest wait for the next output event (the first one
    included); other bytes, such as keep-alive comments, do not count. `total_timeout_s` bounds the whole request.
    """

    api: Api
    target: Target
    credentials: Credentials
    context: Callable[[], ssl.SSLContext]
    proxy_for: Callable[[str, str], str | None] = lambda scheme, host: None
    connect_timeout_s: float = 10.0
    stall_timeout_s: float = 120.0
    total_timeout_s: float = 600.0
    quirks: Quirks = field(default_factory=Quirks)

    @property
    def url(self) -> str:
        """The URL that is asked."""
        return self.target.url(self.api.path)


def ssl_context(ca_cert: str = "", *, insecure: bool = False) -> Callable[[], ssl.SSLContext]:
    """A function that makes the SSL context once and shares it; raises ConfigurationError for an unusable file."""

    @functools.cache
    def make() -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=ca_cert or certifi.where())
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"--llm-ca-cert {ca_cert}: not a readable PEM file of certificates ({error})"
            ) from None
        context.set_alpn_protocols(["http/1.1"])
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    if ca_cert:
        make()
    return make


class LLMClient:
    """Sends calls one after the other over one kept connection. Not for use by two greenlets at once."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._transport = StreamTransport(
            context=config.context, proxy_for=config.proxy_for, end_hint=config.api.end_hint
        )
        self._http: httpx.Client | None = None
        url = httpx.URL(config.url)
        self._route = self._transport.route(url)
        self._headers = _headers(config.credentials)
        own = [
            (b"Host", url.netloc),
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers),
        ]
        self._head = request_head("POST", url, own, self._route)

    @property
    def http(self) -> httpx.Client:
        """The httpx client over the same connection, made on first use."""
        if self._http is None:
            self._http = httpx.Client(
                transport=self._transport, headers=self._headers, trust_env=False, follow_redirects=False
            )
        return self._http

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def request(
        self,
        call: Call,
        *,
        name: str = "",
        scheduled_ns: int | None = None,
        warmup: bool = False,
        on_start: Callable[[Timeline], None] | None = None,
        on_end: Callable[[RequestRecord], None] | None = None,
    ) -> RequestRecord:
        """Send `call` and read its answer to the end. A failed request is a record, not an exception.

        `on_start` gets the running timeline, `on_end` the record, also when the greenlet is killed half way: the
        record is then `cancelled` and the exit goes on.
        """
        config = self.config
        timeline = Timeline(
            name or config.api.name,
            started_ns=time.monotonic_ns(),
            scheduled_ns=scheduled_ns,
            started_wall_s=time.time(),
            api=config.api.name,
            url=config.url.split("?", 1)[0],
            model=call.model,
            max_tokens=call.max_tokens,
            warmup=warmup,
        )
        if on_start is not None:
            on_start(timeline)
        cancelled = True
        try:
            self._converse(call, timeline)
            cancelled = False
        except Exception as error:
            cancelled = False
            timeline.fail(*failures.exception_failure(error, connecting=timeline.transit.sent_ns is None))
        finally:
            record = self._freeze(timeline, cancelled)
            if on_end is not None:
                on_end(record)
        return record

    def _freeze(self, timeline: Timeline, cancelled: bool) -> RequestRecord:
        secrets = self.config.credentials.secrets
        if timeline.error is not None:
            timeline.error = failures.redact(timeline.error, secrets)
        if timeline.detail is not None:
            timeline.detail = failures.redact(timeline.detail, secrets)
        return timeline.freeze(_end_ns(timeline), cancelled=cancelled)

    def _converse(self, call: Call, timeline: Timeline) -> None:
        """One exchange; and a second one, without asking for usage, where the server refuses that option (D34)."""
        quirks = self.config.quirks
        asked_usage = call.include_usage and quirks.include_usage
        self._exchange(replace(call, include_usage=asked_usage), timeline)
        if asked_usage and timeline.status in (400, 422) and USAGE_OPTION in (timeline.detail or ""):
            quirks.include_usage = False
            timeline.restart(time.monotonic_ns())
            self._exchange(replace(call, include_usage=False), timeline)

    def _exchange(self, call: Call, timeline: Timeline) -> None:
        config = self.config
        patience = Patience(timeline, config.stall_timeout_s if call.stream else 0.0, config.total_timeout_s)
        body = config.api.encode(call)
        try:
            stream = self._transport.exchange(
                self._route,
                b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body),
                timeline.transit,
                connect_s=config.connect_timeout_s or None,
                headers_s=patience.left_s,
            )
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            timeline.fail(patience.verdict())
            return
        answer = Answer(config.api, timeline, call, status=stream.status, headers=stream.fields())
        if answer.retry_after is not None:
            timeline.retry_after_s = failures.retry_after_s(answer.retry_after, time.time())
        try:
            self._read(stream, answer, patience)
        finally:
            stream.close()

    def _read(self, stream: TimedStream, answer: Answer, patience: Patience) -> None:
        """Feed the body to `answer` until that is finished, the body ends, or patience does."""
        failure: failures.Failure | None = None
        try:
            for batch in stream.batches(patience.wait_s):
                answer.feed_all(batch)
                if answer.finished:
                    stream.linger()
                    break
                if patience.over():
                    failure = patience.verdict(), None
                    break
        except CorruptBody as error:
            failure = failures.PROTOCOL, failures.snippet(str(error))
        except httpx.TransportError as error:
            failure = failures.exception_failure(error)
        except BaseException:  # killed: what came before counts
            with suppress(CorruptBody):
                answer.feed_all(stream.rest())
            raise
        answer.end(time.monotonic_ns(), clean=stream.clean, failure=failure)


def _headers(credentials: Credentials) -> list[tuple[str, str]]:
    """The request's own headers, then the user's, which win over ours of the same name."""
    theirs = {name.lower() for name, _ in credentials.headers}
    return [*(line for line in HEADERS if line[0].lower() not in theirs), *credentials.headers]


def _end_ns(timeline: Timeline) -> int:
    """When the stream was over: its own end, else the body's, else (cut off, or never begun) now.

    What comes after [DONE] belongs to no answer; nor does the wait for an end that an answer, complete by its finish
    reason, never got.
    """
    if timeline.done_ns is not None:
        return timeline.done_ns
    if timeline.transit.end_ns is not None:
        return timeline.transit.end_ns
    if timeline.complete and timeline.event_ns and timeline.error is None:
        return timeline.event_ns[-1]
    return time.monotonic_ns()
