"""Scripted HTTP answers: which bytes a replaying server sends when, and how it ends."""

from __future__ import annotations

import enum
from dataclasses import dataclass

Step = tuple[float, bytes]


class End(enum.Enum):
    """How an answer ends, after its last send."""

    END = "the answer is complete; the connection is kept for the next request"
    FIN = "the connection is closed"
    RST = "the connection is reset"
    HOLD = "nothing more comes; the connection stays open until the client leaves"


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: raw bytes at their times, then the end, `end_ms` after the request or at once.

    `close_ms` closes the connection that long after a complete answer without having said so, as a server does whose
    idle time is over.
    """

    sends: tuple[Step, ...]
    end: End = End.END
    end_ms: float | None = None
    close_ms: float | None = None


def head(status: str = "200 OK", **fields: str) -> bytes:
    """A response head; `content_type="text/plain"` stands for `Content-Type: text/plain`."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """`data` as one chunk of the chunked transfer coding."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(
    *steps: Step,
    end: End = End.END,
    end_ms: float | None = None,
    close_ms: float | None = None,
    head_ms: float = 0.0,
    **fields: str,
) -> Script:
    """A chunked answer: its head at `head_ms`, then each step's bytes as one chunk.

    END adds the last chunk, to the last send or at `end_ms`. Content-Type is text/event-stream unless given.
    """
    headers = {"content_type": "text/event-stream", "transfer_encoding": "chunked"} | fields
    sends = [(head_ms, head(**headers)), *((at_ms, chunk(data)) for at_ms, data in steps)]
    if end is End.END:
        at_ms, last = sends.pop() if end_ms is None else (end_ms, b"")
        sends.append((at_ms, last + b"0\r\n\r\n"))
        end_ms = None
    return Script(tuple(sends), end, end_ms, close_ms)


def answer(status: str, body: bytes, *, at_ms: float = 0.0, close_ms: float | None = None, **fields: str) -> Script:
    """A whole answer with Content-Length in one send. Content-Type is application/json unless given."""
    headers = {"content_type": "application/json", "content_length": str(len(body))} | fields
    return Script(((at_ms, head(status, **headers) + body),), close_ms=close_ms)


def bytewise(data: bytes, start_ms: float, every_ms: float = 0.0) -> list[Step]:
    """The steps that send `data` byte by byte."""
    return [(start_ms + place * every_ms, data[place : place + 1]) for place in range(len(data))]
