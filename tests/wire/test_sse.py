"""EventStream against a plain reading of the standard, for any events, any line endings and any cuts."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from locust_llm.wire.sse import MAX_EVENT_BYTES, EventStream, SseEvent, StreamTooLong

Said = tuple[str, bytes]


def by_the_standard(body: bytes, *, flush: bool = False) -> list[Said]:
    """The events of a whole body, line by line as the standard tells it; ones without data left out.

    `flush`: a last event without its blank line counts too, which is our own addition (D52).
    """
    events: list[Said] = []
    data: list[str] = []
    name = ""
    lines = re.split(r"\r\n|\r|\n", body.removeprefix(b"\xef\xbb\xbf").decode(errors="replace"))
    unended = lines.pop()
    for line in [*lines, *([unended, ""] if flush else [])]:
        if not line:
            if "".join(data) or len(data) > 1:
                events.append((name or "message", "\n".join(data).encode()))
            data, name = [], ""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


def read(parts: list[bytes]) -> tuple[list[SseEvent], list[SseEvent]]:
    """(events by the number of the part that completed them, events of the end)."""
    stream = EventStream()
    events = [event for number, part in enumerate(parts) for event in stream.feed(number, part)]
    return events, stream.finish(len(parts))


def said(events: list[SseEvent]) -> list[Said]:
    return [(name, data.decode(errors="replace").encode()) for _, name, data in events]


letters = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
json_like = st.builds(lambda text: f'{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}', letters)
values = st.one_of(letters, json_like, st.sampled_from(["", " ", "[DONE]", "\ufeffx", "a\u2028b", "\x85", ":", " x"]))
canonical = st.builds(lambda value: f"data: {value}\n", json_like)
any_line = st.one_of(
    st.builds(lambda value: f"data: {value}\n", values),
    st.builds(lambda value: f"data:{value}\n", values),
    st.builds(lambda value: f"event: {value}\n", values),
    st.builds(lambda value: f":{value}\n", values),
    st.sampled_from(["data\n", "event\n", "id: 7\n", "retry: 3\n", "foo: bar\n", "foo\n", " data: x\n", "Data: x\n"]),
    st.builds(lambda value: f"{value}\n", letters),
)
blank = st.just("\n")
lines = st.lists(st.one_of(canonical, any_line, blank, blank), max_size=24)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A body: lines of all kinds with LF, CRLF, CR or mixed endings, a byte-order mark or none, a tail or none."""
    style = draw(st.sampled_from(["\n", "\r\n", "\r", "mixed"]))
    text = ""
    for line in draw(lines):
        ending = draw(st.sampled_from(["\n", "\r\n", "\r"])) if style == "mixed" else style
        text += line[:-1] + ending
    tail = draw(st.sampled_from(["", "", "data: [DONE]", "data: {", "da"]))
    mark = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb"]))
    return mark + (text + tail).encode()


@st.composite
def cut_bodies(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    body = draw(bodies())
    places = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return body, [body[start:end] for start, end in itertools.pairwise([0, *places, len(body)])]


@settings(deadline=None)
@given(cut_bodies())
@example((b"data: a\r\n\r\ndata: b", [b"data: a\r\n\r", b"\ndata: b"]))
@example((b"data: a\n\r\ndata: b\r\rdata: c\r\n\r\n", [b"data: a\n\r", b"", b"\ndata: b\r\rdata: c\r\n\r\n"]))
def test_any_cut_gives_the_events_of_the_standard(cut: tuple[bytes, list[bytes]]) -> None:
    body, parts = cut
    events, rest = read(parts)
    assert said(events + rest) == by_the_standard(body, flush=True)
    # No event that was complete before the end waits for it.
    assert said(events) == by_the_standard(body)


@settings(deadline=None)
@given(bodies())
def test_byte_by_byte_each_event_has_the_time_of_the_byte_that_ended_it(body: bytes) -> None:
    events, rest = read([body[place : place + 1] for place in range(len(body))])
    assert said(events + rest) == by_the_standard(body, flush=True)
    for at, group in itertools.groupby(events, key=lambda event: event[0]):
        before = by_the_standard(body[:at])
        assert [(name, data) for _, name, data in group] == by_the_standard(body[: at + 1])[len(before) :]


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(cut_bodies())
def test_any_cut_at_length(cut: tuple[bytes, list[bytes]]) -> None:
    body, parts = cut
    events, rest = read(parts)
    assert said(events + rest) == by_the_standard(body, flush=True)
    assert said(events) == by_the_standard(body)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"data: a\n\r\n", b"data: b\r\r"], [(0, "message", b"a"), (1, "message", b"b")]),
        ([b"data: a\r\n\r", b"\ndata: b\r\n\r", b"\n"], [(0, "message", b"a"), (1, "message", b"b")]),
        ([b"data: a\r\r", b"data: b\r", b"\r"], [(0, "message", b"a"), (2, "message", b"b")]),
        ([b"\xef", b"\xbb", b"\xbfdata: a\n\n"], [(2, "message", b"a")]),
        ([b"\xef\xbb", b"\xbf", b"data: a\n", b"\n"], [(3, "message", b"a")]),
        ([b"data: a\n", b"\n", b"\n", b"data: b\n\n"], [(1, "message", b"a"), (3, "message", b"b")]),
        ([b"event: ping\n\nevent: x\ndata: y\n\ndata: z\n\n"], [(0, "x", b"y"), (0, "message", b"z")]),
        ([b"data: \xff\n\nevent: x\ndata: \xff\ndata: y\n\n"], [(0, "message", b"\xff"), (0, "x", b"\xef\xbf\xbd\ny")]),
    ],
    ids=["mixed", "CR|LF (D45d)", "CR|CR", "mark in three", "mark in two", "LF|LF", "names (D48)", "invalid UTF-8"],
)
def test_times_and_names(parts: list[bytes], expected: list[SseEvent]) -> None:
    assert read(parts) == (expected, [])


def test_five_megabytes_in_small_reads() -> None:
    """D53: a line of 5 MB in 4 KB reads is searched once, not at each read: each byte is copied a few times at most."""
    line = b"data: " + b"x" * 5_000_000
    parts = [line[place : place + 4096] for place in range(0, len(line), 4096)]
    events, rest = read([*parts, b"\n", b"\n"])
    assert (events, rest) == ([(len(parts) + 1, "message", line[6:])], [])


class CountingBytes(bytes):
    """Bytes that count how much of them is searched, to see that the cost is linear without a clock."""

    searched = 0

    def __contains__(self, key: object) -> bool:
        CountingBytes.searched += len(self)
        return super().__contains__(key)  # type: ignore[operator]


def test_only_new_bytes_are_searched() -> None:
    """D54: an event sent one byte a read costs as much as its size, not its square."""
    CountingBytes.searched = 0
    line = b"data: " + b"x" * 20_000 + b"\n\n"
    stream = EventStream()
    events = [event for byte in line for event in stream.feed(0, CountingBytes(bytes([byte])))]
    assert len(events) == 1
    assert CountingBytes.searched <= 3 * len(line)


LIMIT = 50


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("tail", [b"\n\n", b"\r\n\r\n", b"\n", b""])
@pytest.mark.parametrize("head", [b"data: ", b"data:", b": "])
def test_the_cap_is_the_same_however_the_bytes_come(head: bytes, tail: bytes, step: int) -> None:
    def lengths(body: bytes) -> int:
        stream = EventStream(max_event_bytes=LIMIT)
        events = [e for place in range(0, len(body), step) for e in stream.feed(0, body[place : place + step])]
        return len(events + stream.finish(0))

    fits = b"data: a\n\n" * 20 + head + b"x" * (LIMIT - len(head)) + tail
    assert lengths(fits) == 20 + (head != b": ")
    with pytest.raises(StreamTooLong):
        lengths(fits.removesuffix(tail) + b"x" + tail)


def test_comments_for_ever_hold_no_memory() -> None:
    stream = EventStream(max_event_bytes=LIMIT)
    assert [event for _ in range(1000) for event in stream.feed(0, b": ping\n\n")] == []


def test_the_cap_is_16_mib() -> None:
    assert MAX_EVENT_BYTES == 16 * 1024 * 1024
    stream = EventStream()
    for _ in range(16):
        stream.feed(0, b"x" * 1024 * 1024)
    with pytest.raises(StreamTooLong):
        stream.feed(0, b"xx")
