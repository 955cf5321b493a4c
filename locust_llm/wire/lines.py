"""LineStream: the lines of JSON that Ollama's own API streams, out of the reads of one response body.

A line is an event; its time is that of the read that held its end. LF and CRLF end a line, blank lines are none. Bytes
before the end are kept in one buffer and only new ones are searched, so the cost is linear however the body was cut.
"""

from __future__ import annotations

from locust_llm.wire.sse import MAX_EVENT_BYTES, SseEvent, StreamTooLong

_BOM = b"\xef\xbb\xbf"


class LineStream:
    """Turns the reads of one body into events, named "message". Not to be used again after `finish`."""

    __slots__ = ("_max_bytes", "_pending")

    def __init__(self, max_line_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_line_bytes
        self._pending = bytearray()

    def feed(self, at_ns: int, data: bytes) -> list[SseEvent]:
        """The lines that these bytes, read at `at_ns`, complete. Raises StreamTooLong."""
        pending = self._pending
        head, found, rest = data.rpartition(b"\n")
        if found:
            text = bytes(pending) + head
            pending.clear()
            lines = [line for part in text.split(b"\n") if (line := part.removeprefix(_BOM).strip())]
        else:
            lines = []
        pending += rest
        if len(pending) > self._max_bytes or any(len(line) > self._max_bytes for line in lines):
            pending.clear()
            raise StreamTooLong(f"a line of more than {self._max_bytes} bytes")
        return [(at_ns, "message", line) for line in lines]

    def alone(self, data: bytes) -> bytes | None:
        """Whether `data` is one event and nothing else is not looked at here: it is for `feed`."""
        return None

    def finish(self, at_ns: int) -> list[SseEvent]:
        """What the end of the body completes: a last line without its end, whole or cut off."""
        line = bytes(self._pending).removeprefix(_BOM).strip()
        self._pending.clear()
        return [(at_ns, "message", line)] if line else []
