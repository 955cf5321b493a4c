"""An event of a stream as a JSON object: what the decoders share, whatever the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.document import read_document


def read_event(timeline: Timeline, at_ns: int, name: str, data: bytes) -> dict[str, Any] | None:
    """The object that an event holds; None where there is nothing (more) to read.

    What the data says without being an object (the end mark, an error in plain text) is noted in `timeline`.
    """
    if timeline.done_ns is not None:
        return None
    try:
        document = read_document(data)
    except ValueError:
        note_unreadable(timeline, at_ns, name, data)
        return None
    if isinstance(document, dict):
        return document
    if name == "error":
        timeline.fail(*failures.in_stream_failure(str(document)))
    return None


def note_unreadable(timeline: Timeline, at_ns: int, name: str, data: bytes) -> None:
    """An event whose data is not JSON: the end, a bare error text, broken JSON, or a keep-alive word."""
    if data.strip() == b"[DONE]":
        timeline.done(at_ns)
    elif name == "error":
        timeline.fail(*failures.in_stream_failure(data.decode(errors="replace")))
    elif data.lstrip()[:1] == b"{":
        timeline.fail(failures.MALFORMED, failures.snippet(data))


def tells_error(document: Mapping[str, Any], name: str = "") -> bool:
    """Whether an event is an error: by its name, by what it calls itself, or by its `error`."""
    calls_itself = document.get("type"), document.get("object")
    return name == "error" or "error" in calls_itself or is_error(document.get("error"))


def is_error(error: object) -> bool:
    """Whether an event's `error` tells of one; some servers send an empty object with every event."""
    return any(error.values()) if isinstance(error, dict) else bool(error)
