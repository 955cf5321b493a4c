"""The fast, typed way to read an event's JSON and the tolerant one mean the same, whatever a server sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_llm.wire.document import read_document
from locust_llm.wire.openai_chunks import Chunk, Logprobs, read_chunk, tolerant_chunk

texts = st.text(max_size=4)
odd = st.one_of(st.none(), st.booleans(), st.integers(-2, 2**70), st.floats(), texts, st.just([]), st.just({}))


def either(*usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly a value that fits, at times one that does not."""
    return st.one_of(*usual, *usual, st.none(), odd)


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields, and perhaps an unknown one."""
    return st.fixed_dictionaries({}, optional={name: either(values) for name, values in usual.items()} | {"x": odd})


counts = st.integers(0, 10**6)
function = fields(name=texts, arguments=texts)
tools = st.lists(either(fields(index=counts, id=texts, function=function)), max_size=2)
parts = st.lists(either(fields(type=texts, text=texts, thinking=texts), texts), max_size=3)
delta = fields(
    role=texts, content=st.one_of(texts, parts), reasoning_content=texts, reasoning=texts,
    reasoning_details=st.lists(fields(text=texts), max_size=2), tool_calls=tools, function_call=function, refusal=texts,
    audio=fields(data=texts, transcript=texts),
)  # fmt: skip
logprobs = fields(content=st.lists(st.just({"token": "t"}), max_size=3), tokens=st.lists(texts, max_size=3))
choice = fields(
    index=counts, delta=delta, message=delta, text=texts, finish_reason=texts, logprobs=logprobs,
    token_ids=st.lists(counts, max_size=3),
)  # fmt: skip
usage = fields(
    prompt_tokens=counts, completion_tokens=counts, reasoning_tokens=counts,
    prompt_tokens_details=fields(cached_tokens=counts), completion_tokens_details=fields(reasoning_tokens=counts),
)  # fmt: skip
chunks = fields(
    choices=st.lists(either(choice), max_size=3), usage=usage, model=texts, object=texts, error=odd,
    timings=fields(predicted_n=counts),
)  # fmt: skip


def comparable(chunk: Chunk | None) -> Any:
    """Logprobs are counted, never read: only how many there are matters. NaN equals nothing, so texts are compared."""
    for one in (chunk.choices or []) if chunk is not None else []:
        kept = one.logprobs
        if kept is not None:
            one.logprobs = Logprobs(
                None if kept.content is None else [len(kept.content)],  # type: ignore[list-item]
                None if kept.tokens is None else [len(kept.tokens)],  # type: ignore[list-item]
            )
    return repr(chunk)


@settings(deadline=None)
@given(chunks)
def test_both_ways_agree(document: dict[str, Any]) -> None:
    data = json.dumps(document).encode()
    assert comparable(read_chunk(data)) == comparable(tolerant_chunk(read_document(data)))


@pytest.mark.parametrize("data", [b"", b"{", b"ping", b"{'a': 1}", b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_chunk(data)


@pytest.mark.parametrize("data", [b"null", b"1", b'"x"', b"[1]", b"true"])
def test_what_is_no_object(data: bytes) -> None:
    assert read_chunk(data) is None


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (rb'{"choices":[{"delta":{"content":"\ud83d"}}]}', "\ud83d"),
        (b'{"choices":[{"delta":{"content":"a\xff"}}]}', "a\ufffd"),
        (b'{"choices":[{"delta":{"content":"a\x0bb"}}]}', "a\x0bb"),
        (b'{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}', "a"),
        (b'{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":NaN}]}}]}', "a"),
    ],
    ids=["lone surrogate", "invalid UTF-8", "raw control", "infinity", "NaN"],
)
def test_json_that_is_none_by_the_letter(data: bytes, content: str) -> None:
    chunk = read_chunk(data)
    assert chunk is not None
    assert [choice.delta and choice.delta.content for choice in chunk.choices or ()] == [content]
