"""Answer: the interpreter of one response body, whatever the server sent in place of the stream it was asked for.

Theory of operation. The first byte that is not white space tells what the body is, whatever its label says: `{` or `[`
a JSON document, `<` a page, anything else server-sent events, which are decoded as they come. Where the API streams
JSON lines and a stream was asked for, `{` begins those, and there are no server-sent events. Documents and pages are
kept (bounded) until the end; a document's time is that of its last read. A status other than 2xx is never read as a
stream. `end` judges: a stream that neither said that it is done nor showed every choice's finish reason was truncated,
however cleanly its body ended. An answer that was not to be streamed has no times of tokens, even if it came as a
stream.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.api import Api, Call
from locust_llm.wire.document import read_document
from locust_llm.wire.lines import LineStream
from locust_llm.wire.sse import MAX_EVENT_BYTES, EventStream, StreamTooLong

ERROR_BODY_BYTES: Final = 64 * 1024
"""How much of an error's body or of a page is kept."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"


class Body(enum.Enum):
    """What a response body turned out to be."""

    UNKNOWN = "nothing but white space so far"
    STREAM = "server-sent events, or lines of JSON"
    DOCUMENT = "JSON"
    PAGE = "neither"
    REFUSAL = "the body of a status that is not 2xx"


class Answer:
    """One response: feed it the reads of the body, then always `end` it. All that it finds goes into the Timeline.

    `headers` are the response's, looked up by lower-case names. No method raises for what a server sends.
    """

    __slots__ = (
        "_api",
        "_content_type",
        "_decoder",
        "_events",
        "_headers",
        "_kept",
        "_kept_ns",
        "_kind",
        "_lines",
        "_stream",
        "timeline",
    )

    def __init__(self, api: Api, timeline: Timeline, call: Call, *, status: int, headers: Mapping[str, str]) -> None:
        timeline.status = status
        timeline.streamed = timeline.stream_asked = call.stream
        self.timeline = timeline
        self._api = api
        self._headers = headers
        self._content_type = headers.get("content-type", "")
        self._decoder = api.decoder(timeline, call)
        self._lines = api.lines and call.stream
        self._stream: EventStream | LineStream = LineStream() if self._lines else EventStream()
        self._kind = Body.UNKNOWN if 200 <= status < 300 else Body.REFUSAL
        self._kept = bytearray()
        self._kept_ns = 0
        self._events = 0

    @property
    def retry_after(self) -> str | None:
        """The Retry-After header; `failures.retry_after_s` reads it."""
        return self._headers.get("retry-after")

    @property
    def finished(self) -> bool:
        """The stream said that it is over: nothing that follows counts, and the end of the body need not be awaited."""
        return self.timeline.done_ns is not None

    @property
    def failed(self) -> bool:
        """The request has failed already. Read on for a short while only, so that the connection can be used again."""
        return self.timeline.error is not None

    def feed(self, at_ns: int, data: bytes) -> None:
        """Bytes of the body, read at `at_ns`."""
        if self.timeline.done_ns is not None:
            return
        if self._kind is Body.STREAM:
            self._decode(at_ns, data)
        elif self._kind is Body.UNKNOWN:
            self._sniff(at_ns, data)
        else:
            self._keep(at_ns, data)

    def feed_all(self, reads: Iterable[tuple[int, bytes]]) -> None:
        """The same for many reads, each with its time; an event that has a read of its own takes a shorter way."""
        alone, event = self._stream.alone, self._decoder.event
        for at_ns, data in reads:
            if self._kind is Body.STREAM and (text := alone(data)) is not None:
                self._events += 1
                event(at_ns, "message", text)
            else:
                self.feed(at_ns, data)

    def end(self, at_ns: int, clean: bool = True, failure: failures.Failure | None = None) -> None:
        """The body is over. `clean` = as its framing promised: not cut off, no chunk or trailer missing.

        `failure` is what ended it otherwise (a reset …). It is the request's unless the answer is complete all the same
        or has already failed by what the server said.
        """
        timeline = self.timeline
        if self._kind is Body.REFUSAL:
            timeline.fail(*self._refused())
        elif timeline.error is None and timeline.done_ns is None:
            if self._kind is Body.DOCUMENT:
                self._end_document(clean and failure is None)
            elif self._kind is Body.PAGE:
                timeline.fail(*failures.content_failure(self._content_type, bytes(self._kept)))
            else:
                self._end_stream(at_ns)
        if timeline.error is None:
            self._judge(clean, failure)

    def _judge(self, clean: bool, failure: failures.Failure | None) -> None:
        """Whether an answer without a failure so far is complete."""
        timeline = self.timeline
        if not timeline.complete:
            cut_short = bool(self._events) or not clean
            timeline.fail(*(failure or (failures.TRUNCATED if cut_short else failures.NO_OUTPUT, None)))
        elif timeline.streamed and not timeline.event_ns and not timeline.finish_reasons:
            timeline.fail(failures.NO_OUTPUT)

    def _refused(self) -> failures.Failure:
        status = self.timeline.status
        assert status is not None
        location = self._headers.get("location", "")
        return failures.http_failure(status, self._content_type, bytes(self._kept), location)

    def _keep(self, at_ns: int, data: bytes) -> None:
        self._kept_ns = at_ns
        limit = MAX_EVENT_BYTES if self._kind is Body.DOCUMENT else ERROR_BODY_BYTES
        room = limit - len(self._kept)
        self._kept += data[:room]
        if self._kind is Body.DOCUMENT and len(data) > room:
            self.timeline.fail(failures.TOO_LONG)

    # -- streams -------------------------------------------------------------------------------------------------

    def _sniff(self, at_ns: int, data: bytes) -> None:
        data = bytes(self._kept) + data
        self._kept.clear()
        if _BOM.startswith(data):
            self._kept += data
            return
        mark = _BOM if data.startswith(_BOM) else b""
        data = data[len(mark) :].lstrip(_BLANK)  # some servers send blank lines for as long as they have nothing to say
        if not data:
            self._kept += mark
            return
        start = data[:1]
        data = mark + data
        if start in (b"{", b"[") and not (self._lines and start == b"{"):
            self._kind = Body.DOCUMENT
        elif start == b"<" or (self._lines and start != b"{"):
            self._kind = Body.PAGE
        else:
            self._kind = Body.STREAM
        self.feed(at_ns, data)

    def _decode(self, at_ns: int, data: bytes) -> None:
        try:
            events = self._stream.feed(at_ns, data)
        except StreamTooLong:
            self.timeline.fail(failures.TOO_LONG)
            self._kind = Body.PAGE
            return
        for at, name, text in events:
            self._decoder.event(at, name, text)
        self._events += len(events)
        if not self._events:
            self._kept += data[: ERROR_BODY_BYTES - len(self._kept)]

    def _end_stream(self, at_ns: int) -> None:
        for at, name, text in self._stream.finish(at_ns):
            if _is_whole(text):
                self._events += 1
                self._decoder.event(at, name, text)
        if not (self._events or self._lines) and self._kept and not failures.is_event_stream(self._content_type):
            self.timeline.fail(*failures.content_failure(self._content_type, bytes(self._kept)))

    # -- documents -----------------------------------------------------------------------------------------------

    def _end_document(self, clean: bool) -> None:
        """One JSON document where a stream may have been asked for: an answer, an error, or something else."""
        timeline = self.timeline
        body = bytes(self._kept).removeprefix(_BOM)
        if failures.is_json_lines(self._content_type) and not self._api.lines:
            self._end_broken_document(body, clean)
            return
        try:
            if body[:1] == b"{":
                self._decoder.whole(self._kept_ns, body)
            else:
                self._end_list(read_document(body))
        except ValueError:
            self._end_broken_document(body, clean)
            return
        if timeline.error is None and timeline.done_ns is None:
            timeline.fail(failures.UNEXPECTED, failures.snippet(body))

    def _end_list(self, document: object) -> None:
        """A list, which is no answer of any API; Gemini's errors are such."""
        if isinstance(document, list) and document and isinstance(document[0], dict) and document[0].get("error"):
            self.timeline.fail(*failures.in_stream_failure(document[0]))

    def _end_broken_document(self, body: bytes, clean: bool) -> None:
        label = self._content_type
        if _is_whole(body.split(b"\n", 1)[0]):
            self.timeline.fail(*failures.json_lines_failure(body))
        elif clean and label and not failures.is_json(label) and not failures.is_event_stream(label):
            self.timeline.fail(*failures.content_failure(label, body))
        elif clean:
            self.timeline.fail(failures.TRUNCATED, failures.snippet(body))


def _is_whole(data: bytes) -> bool:
    """Whether a last event without its blank line came whole: usable JSON, or [DONE]."""
    if data.strip() == b"[DONE]":
        return True
    try:
        read_document(data)
    except ValueError:
        return False
    return True
