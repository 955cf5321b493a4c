"""What an API is to the server: a path, how its requests are read, and how its answers are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from locust_llm.sim.ask import Ask, Usage

EVENT_STREAM = "text/event-stream; charset=utf-8"


class Writer(Protocol):
    """The bytes of one answer in one API's shapes.

    Text comes as JSON-safe bytes. `plain` is what stands before and after the text of an event that is neither the
    first nor the last, so that the server can prepare it; None when no two events are alike but for their text.
    """

    @property
    def plain(self) -> tuple[bytes, bytes] | None: ...

    def opening(self, usage: Usage) -> bytes:
        """What goes before the first text, sent together with it."""

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """An event with text; the last one of a complete answer is told its finish reason."""

    def closing(self, usage: Usage) -> bytes:
        """What follows the last text of a complete answer."""

    def failure(self, error: bytes) -> bytes:
        """An error in the middle of a stream, given as JSON."""

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The body of an answer that is not streamed."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API. `read` raises HttpError; `writer` takes a request's number, the model, the Unix time and the request."""

    path: str
    content_type: str  # of a stream
    read: Callable[[dict[str, Any]], Ask]
    writer: Callable[[str, str, int, Ask], Writer]
