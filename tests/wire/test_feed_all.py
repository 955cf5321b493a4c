"""The shorter way of an event that has a read of its own: the same record as by the general one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.measure.timeline import Timeline
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import APIS
from locust_llm.wire.sse import EventStream
from tests.replay import DONE, ROLE, STOP, C, R, U
from tests.wire.asking import CALL

ALONE: list[tuple[str, bytes, bytes | None]] = [
    ("one event", b"data: x\n\n", b"x"),
    ("a space more", b"data:  x\n\n", b" x"),
    ("no data", b"data: \n\n", None),
    ("no space", b"data:x\n\n", None),
    ("CRLF", b"data: x\r\n\r\n", None),
    ("a CR within", b"data: x\ry\n\n", None),
    ("two lines", b"data: x\ndata: y\n\n", None),
    ("two events", b"data: x\n\ndata: y\n\n", None),
    ("a line end more", b"data: x\n\n\n", None),
    ("not whole", b"data: x\n", None),
    ("named", b"event: a\ndata: x\n\n", None),
    ("a comment", b": ping\n\n", None),
    ("nothing", b"", None),
]


@pytest.mark.parametrize(("data", "text"), [case[1:] for case in ALONE], ids=[case[0] for case in ALONE])
def test_alone(data: bytes, text: bytes | None) -> None:
    stream = EventStream()
    stream.feed(1, b"data: before\n\n")
    assert stream.alone(data) == text
    if text is not None:
        assert stream.feed(2, data) == [(2, "message", text)]


@pytest.mark.parametrize("before", [b"", b"data: a", b"data: a\n", b"data: a\n\n\r"], ids=repr)
def test_not_while_something_is_pending(before: bytes) -> None:
    """At the beginning a byte-order mark may come, after a CR an LF that belongs to it."""
    stream = EventStream()
    stream.feed(1, before)
    assert stream.alone(b"data: x\n\n") is None


def test_not_when_it_is_too_long() -> None:
    stream = EventStream(max_event_bytes=20)
    stream.feed(1, b"data: before\n\n")
    assert stream.alone(b"data: " + b"x" * 14 + b"\n\n") == b"x" * 14
    assert stream.alone(b"data: " + b"x" * 15 + b"\n\n") is None


events = st.lists(
    st.sampled_from(
        [
            ROLE, C("a"), C("b\u2028"), R("t"), C("x", index=1), STOP, U(3, 4), b": ping\n\n", b"data:y\n\n",
            b"data: {\n\n", b"data: null\n\n", C("c").replace(b"\n", b"\r\n"), b"event: error\ndata: {}\n\n",
            b'data: {"error":{"message":"died"}}\n\n', b"\n", b"\r", b"{}", b"<html>", b"\xef\xbb\xbf", DONE,
        ]
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    events, st.lists(st.integers(0, 400), max_size=4), st.sampled_from(["chat", "ollama"]), st.sampled_from([200, 500])
)
def test_feed_all_is_feed(parts: list[bytes], cuts: list[int], api: str, status: int) -> None:
    """Whether a read is an event, a part of one or several, in whatever state the answer is."""
    reads = list(parts)
    for cut in cuts:  # join two neighbours, or cut one
        place = cut % max(len(reads), 1)
        if cut % 2 and place + 1 < len(reads):
            reads[place : place + 2] = [reads[place] + reads[place + 1]]
        elif reads:
            half = cut % (len(reads[place]) + 1)
            reads[place : place + 1] = [reads[place][:half], reads[place][half:]]
    timed = list(enumerate(reads, 1))

    def record(feed_all: bool) -> Any:
        timeline = Timeline("t", started_ns=0, api=api)
        answer = Answer(APIS[api], timeline, CALL, status=status, headers={"content-type": "text/event-stream"})
        if feed_all:
            answer.feed_all(timed)
        else:
            for at_ns, data in timed:
                answer.feed(at_ns, data)
        answer.end(1_000)
        return timeline.freeze(1_000)

    assert record(True) == record(False)
