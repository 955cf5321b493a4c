"""Lines of JSON: times, cuts and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_llm.wire.lines import LineStream
from locust_llm.wire.sse import StreamTooLong


def test_a_line_has_the_time_of_the_read_that_held_its_end() -> None:
    stream = LineStream()
    assert stream.feed(1, b'{"a":') == []
    assert stream.feed(2, b'1}\n{"b":2}\n{"c"') == [(2, "message", b'{"a":1}'), (2, "message", b'{"b":2}')]
    assert stream.feed(3, b":3}") == []
    assert stream.feed(4, b"\r\n\n") == [(4, "message", b'{"c":3}')]
    assert stream.finish(5) == []


def test_a_last_line_without_its_end() -> None:
    stream = LineStream()
    stream.feed(1, b'{"a":1}')
    assert stream.finish(2) == [(2, "message", b'{"a":1}')]
    assert stream.finish(3) == []


lines = st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b" ").replace(b"\xef", b"x").strip()))


@given(lines, st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.lists(st.integers(0, 60)))
def test_cutting_changes_nothing(texts: list[bytes], ending: bytes, places: list[int]) -> None:
    body = b"".join(text + ending for text in texts)
    stream = LineStream()
    seen = []
    for begin, end in zip([0, *sorted(places)], [*sorted(places), len(body)], strict=True):
        seen += stream.feed(1, body[begin:end])
    assert [line for _, _, line in seen] == [text for text in texts if text]
    assert stream.finish(2) == []


@pytest.mark.parametrize("reads", [[b"x" * 9], [b"x" * 9 + b"\n"], [b"x" * 5, b"x" * 4], [b"x" * 5, b"x" * 4 + b"\n"]])
def test_d53_too_long(reads: list[bytes]) -> None:
    stream = LineStream(8)
    with pytest.raises(StreamTooLong):
        _ = [stream.feed(1, data) for data in reads]
    assert stream.finish(2) == []


def test_d53_as_long_as_may_be() -> None:
    stream = LineStream(8)
    assert stream.feed(1, b"x" * 8 + b"\n" + b"y" * 8) == [(1, "message", b"x" * 8)]
    assert stream.finish(2) == [(2, "message", b"y" * 8)]
