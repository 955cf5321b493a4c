"""LLMClient: one user's way to one endpoint. Encodes a call, streams the answer, returns its RequestRecord.

httpx is the client API; the bytes go through our StreamTransport. Configuration is shared by all users of a process.
"""

from __future__ import annotations

import functools
import logging
import ssl
import time
from collections.abc import Callable
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
from locust_llm.wire.target import ConfigurationError, Target
from locust_llm.wire.transport import WAKE_S, StreamTransport, TimedStream

# httpx logs a line per request at INFO, which is Locust's default level.
logging.getLogger("httpx").setLevel(logging.WARNING)

USAGE_OPTION = "stream_options"


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
        self._http: httpx.Client | None = None
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "locust-llm",
            **dict(config.credentials.headers),
        }

    @property
    def http(self) -> httpx.Client:
        """The httpx client over our transport, made on first use."""
        if self._http is None:
            config = self.config
            self._http = httpx.Client(
                transport=StreamTransport(
                    context=config.context, proxy_for=config.proxy_for, end_hint=config.api.end_hint
                ),
                headers=self._headers,
                trust_env=False,
                follow_redirects=False,
            )
        return self._http

    def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

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
        end_ns = timeline.transit.end_ns
        return timeline.freeze(end_ns if end_ns is not None else time.monotonic_ns(), cancelled=cancelled)

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
        patience = Patience(timeline, config, streamed=call.stream)
        request = self.http.build_request(
            "POST",
            config.url,
            content=config.api.encode(call),
            timeout=httpx.Timeout(None, connect=config.connect_timeout_s or None, read=patience.headers_s()),
            extensions={"transit": timeline.transit},
        )
        try:
            response = self.http.send(request, stream=True)
        except httpx.ReadTimeout:
            timeline.fail(patience.verdict())
            return
        stream: TimedStream = response.extensions["timed_stream"]
        answer = Answer(config.api, timeline, call, status=response.status_code, headers=response.headers)
        timeline.retry_after_s = failures.retry_after_s(answer.retry_after, time.time())
        try:
            self._read(stream, answer, patience)
        finally:
            stream.close()

    def _read(self, stream: TimedStream, answer: Answer, patience: Patience) -> None:
        """Feed the body to `answer` until it has all it needs, the body ends, or patience does."""
        try:
            for batch in stream.batches(patience.wait_s):
                for at_ns, data in batch:
                    answer.feed(at_ns, data)
                if answer.finished or answer.failed:
                    stream.linger()
                    break
                if patience.over():
                    answer.timeline.fail(patience.verdict())
                    break
        except (httpx.TransportError, CorruptBody) as error:
            answer.end(time.monotonic_ns(), clean=False, failure=failures.exception_failure(error))
        else:
            answer.end(time.monotonic_ns(), clean=stream.clean)


class Patience:
    """The deadlines of one request: the next output event, and the whole."""

    __slots__ = ("_stall_ns", "_streamed", "_timeline", "_total_ns")

    def __init__(self, timeline: Timeline, config: ClientConfig, *, streamed: bool) -> None:
        self._timeline = timeline
        self._streamed = streamed
        self._stall_ns = int(config.stall_timeout_s * 1e9)
        self._total_ns = int(config.total_timeout_s * 1e9)

    def _deadlines(self) -> tuple[int | None, int | None]:
        """(when the next output event is due, when all must be over), monotonic ns."""
        timeline = self._timeline
        stall = total = None
        if self._stall_ns and self._streamed:
            sent_ns = timeline.transit.sent_ns
            since = (
                timeline.event_ns[-1] if timeline.event_ns else sent_ns if sent_ns is not None else time.monotonic_ns()
            )
            stall = since + self._stall_ns
        if self._total_ns:
            total = timeline.started_ns + self._total_ns
        return stall, total

    def _left_ns(self) -> int | None:
        known = [at for at in self._deadlines() if at is not None]
        return min(known) - time.monotonic_ns() if known else None

    def headers_s(self) -> float | None:
        """How long to wait for the headers."""
        left = self._left_ns()
        return None if left is None else max(left / 1e9, 0.001)

    def wait_s(self) -> float:
        """How long to sleep before looking again."""
        left = self._left_ns()
        return WAKE_S if left is None else min(WAKE_S, max(left / 1e9, 0.001))

    def over(self) -> bool:
        """Whether a deadline has passed."""
        left = self._left_ns()
        return left is not None and left <= 0

    def verdict(self) -> str:
        """The label of the deadline that comes first."""
        stall, total = self._deadlines()
        return failures.STALL if total is None or (stall is not None and stall <= total) else failures.TIMEOUT
