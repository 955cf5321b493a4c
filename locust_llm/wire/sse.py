"""EventStream: server-sent events out of the reads of one response body.

Theory of operation. A body is a sequence of lines, and a blank line ends an event. Bytes before the blank line are kept
in one buffer; only new bytes are searched for the end of an event, and each byte is joined once, so the cost is linear
in the size of the body however it was cut. An event's time is that of the read that held its last byte.

Line endings are LF for the rest of this file: CRLF and CR are turned into LF as they come. A CR ends its line at once,
and an LF that follows it, perhaps in the next read, is swallowed; so an event whose blank line ends in CR never waits
for the next read. One leading byte-order mark is dropped. Only CR and LF end lines (JSON may hold U+2028 and U+0085).

Nearly every event of an LLM server is the canonical `data: …`, perhaps after its `event: …`, and nearly every read is
one such event. Those are cut out with `bytes` methods; whatever else comes (comments, ids, several data lines, no
space) is one whole event by then and goes through sseclient-py, at about ten times the cost. All ways give the same,
and property tests hold them to it.
"""

from __future__ import annotations

from typing import Final

import sseclient

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""An event longer than this (or a line that never ends) fails its request, so that memory stays bounded."""

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10

SseEvent = tuple[int, str, bytes]
"""(time in ns of the read that completed it, event name, data)."""


class StreamTooLong(Exception):
    """One event or document is longer than we are ready to hold."""


class EventStream:
    """Turns the reads of one body into events. Not to be used again after `finish`."""

    __slots__ = ("_after_cr", "_begun", "_between", "_max_bytes", "_pending")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_event_bytes
        self._pending = bytearray()
        self._begun = False
        self._after_cr = False
        self._between = False  # the next byte begins an event

    def feed(self, at_ns: int, data: bytes) -> list[SseEvent]:
        """The events that these bytes, read at `at_ns`, complete. Events without data are left out.

        Raises StreamTooLong.
        """
        size = len(data)
        if (
            self._between
            and data.find(b"\n") == size - 2
            and data[-1] == _LF
            and data[:6] == b"data: "
            and 8 < size <= self._max_bytes
            and b"\r" not in data
        ):
            return [(at_ns, "message", data[6:-2])]  # the usual read: one canonical event
        return self._feed(at_ns, data)

    def _feed(self, at_ns: int, data: bytes) -> list[SseEvent]:
        """The same for bytes of any form."""
        if not self._begun:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._with_lf(data)
        pending = self._pending
        if pending:
            ends_here = b"\n\n" in data or (data[:1] == b"\n" and pending[-1] == _LF)
            pending += data
            if not ends_here:
                self._check(len(pending) - 1)  # the last byte may be the LF of the event's last line
                return []
            data = bytes(pending)
            pending.clear()
        frames = data.split(b"\n\n")
        pending += frames.pop()
        self._between = self._begun and not pending and not self._after_cr
        events: list[SseEvent] = []
        for frame in frames:
            if 6 < len(frame) <= self._max_bytes and frame[:6] == b"data: " and b"\n" not in frame:
                events.append((at_ns, "message", frame[6:]))
            elif frame:
                self._append_other(events, at_ns, frame)
        return events

    def alone(self, data: bytes) -> bytes | None:
        """The data of the event, if `data` is exactly one canonical event; else None, and it is for `feed`.

        Nearly every read of a stream is one; seen at a fraction of the cost of `feed`, with the same result.
        """
        if (
            data[-2:] == b"\n\n"
            and data[:6] == b"data: "
            and data.find(b"\n") == len(data) - 2 > 6
            and self._begun
            and not (self._pending or self._after_cr)
            and b"\r" not in data
            and len(data) - 2 <= self._max_bytes
        ):
            return data[6:-2]
        return None

    def finish(self, at_ns: int) -> list[SseEvent]:
        """What the end of the body completes: a last event without its blank line, whole or cut off."""
        events: list[SseEvent] = []
        frame = bytes(self._pending).removesuffix(b"\n")
        self._pending.clear()
        if frame:
            self._append_other(events, at_ns, frame)
        return events

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            self._pending.clear()
            raise StreamTooLong(f"an event of more than {self._max_bytes} bytes")

    def _without_bom(self, data: bytes) -> bytes:
        """Drop a leading byte-order mark, which may come in pieces."""
        head = bytes(self._pending) + data
        self._pending.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._pending += head
            return b""
        self._begun = True
        return head.removeprefix(_BOM)

    def _with_lf(self, data: bytes) -> bytes:
        """The same lines with LF endings; a CR at the end is an ending already."""
        if not data:
            return data
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _append_other(self, events: list[SseEvent], at_ns: int, frame: bytes) -> None:
        """Append the event that a whole frame of any form holds, if it has data."""
        self._check(len(frame))
        if frame[:7] == b"event: ":
            name, _, line = frame[7:].partition(b"\n")
            if line[:6] == b"data: " and len(line) > 6 and b"\n" not in line and name.isascii():
                events.append((at_ns, name.decode() or "message", line[6:]))
                return
        try:
            frame.decode()
        except UnicodeDecodeError:
            frame = frame.decode(errors="replace").encode()
        for event in sseclient.SSEClient(iter([frame + b"\n\n"])).events():
            if event.data:
                events.append((at_ns, event.event, event.data.encode()))
