"""One request's way back: tokens come from the engine, bytes go to the connection.

The hot path is one line of the server's loop: a plain streamed token is `head + word + tail`, prepared once per
request. All words, and all send times, have the same length, so that the size line of the HTTP chunk is part of `head`.
Whatever is not plain (the first and the last token, events that differ from each other, several tokens an event) has
`head` None and comes through `emit`.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from asyncio import Transport
from typing import Protocol

from locust_llm.sim.api import Writer
from locust_llm.sim.ask import Ask, Usage
from locust_llm.sim.http import LAST_CHUNK, api_error, chunk, error_response, stream_head, whole_response
from locust_llm.sim.sequence import Outcome, Sequence
from locust_llm.sim.settings import ServerSettings

_LIST = """river stone cloud ember grove lemon piano tiger ocean maple solar night frost cabin honey delta
          amber basil cedar daisy eagle fable giant hazel ivory jolly karma lunar mango noble olive pearl
          quilt raven sugar tulip umbra vivid wheat xenon yacht zebra acorn birch candy dusty early flame
          globe hover inlet joint knoll latch merry north orbit plaza quiet rural shore torch urban waltz"""
WORDS = tuple(b" " + word.encode() for word in _LIST.split())
assert len(WORDS) == 64
assert {len(word) for word in WORDS} == {6}
STAMP = b" %018d"  # nanoseconds of the monotonic clock: 31 years long the same length
_INJECTED = api_error(500, "InternalServerError", "Injected fault: the engine failed while generating.")


class Connection(Protocol):
    """What a reply needs of its connection."""

    transport: Transport
    keep_alive: bool

    def reply_done(self, keep_alive: bool) -> None: ...
    def reset(self) -> None: ...


class Reply(ABC):
    """What streamed and whole answers share. `head` and `tail` stand around a plain token; `head` None means `emit`."""

    __slots__ = ("_ask", "_connection", "_keep_alive", "_settings", "_writer", "head", "sent", "sequence", "tail",
                 "write")  # fmt: skip

    def __init__(self, connection: Connection, writer: Writer, ask: Ask, settings: ServerSettings) -> None:
        self._connection = connection
        self._keep_alive = connection.keep_alive
        self._writer = writer
        self._ask = ask
        self._settings = settings
        self.write = connection.transport.write
        self.head: bytes | None = None
        self.tail = b""
        self.sent = 0  # tokens given to the connection
        self.sequence: Sequence | None = None

    def begin(self, sequence: Sequence, content_type: str) -> None:
        """The engine took the request."""
        self.sequence = sequence

    @abstractmethod
    def emit(self, outcome: Outcome | None) -> None:
        """The general path of a token; the last one of a complete answer carries its finish reason."""

    def end(self, outcome: Outcome) -> None:
        """The sequence is over, its last token emitted: closes the answer, or breaks it as the fault wants."""
        if outcome == "reset":
            self._connection.reset()
            return
        self._close(outcome)
        self._connection.reply_done(self._keep_alive)

    @abstractmethod
    def _close(self, outcome: Outcome) -> None: ...

    def _usage(self, tokens: int) -> Usage:
        sequence = self.sequence
        assert sequence is not None
        reported = round(tokens * (1 + self._settings.overreport))
        return Usage(sequence.prompt_tokens, reported, sequence.cached_tokens)


class StreamedReply(Reply):
    """An answer sent event by event in a chunked body."""

    __slots__ = ("_buffered",)

    def __init__(self, connection: Connection, writer: Writer, ask: Ask, settings: ServerSettings) -> None:
        super().__init__(connection, writer, ask, settings)
        self._buffered = 0  # tokens produced and not yet sent

    def begin(self, sequence: Sequence, content_type: str) -> None:
        """The response head goes out at once, before any queueing, as vLLM does it."""
        super().begin(sequence, content_type)
        self.write(stream_head(content_type, keep_alive=self._keep_alive))

    def emit(self, outcome: Outcome | None) -> None:
        """Sends what is due: the first token alone, then `tokens_per_chunk` at a time, the rest with the last."""
        self._buffered += 1
        if self.sent and outcome is None and self._buffered < self._settings.tokens_per_chunk:
            return
        first = not self.sent
        opening = self._writer.opening(self._usage(0)) if first else b""
        finish = outcome if outcome in ("length", "stop") else None
        self._send_text(chunk(opening) if opening else b"", finish)
        if first and self._settings.tokens_per_chunk == 1:
            self._prepare_plain()

    def _prepare_plain(self) -> None:
        around = self._writer.plain
        if around is not None:
            head, tail = around
            word = STAMP % 0 if self._settings.emit_send_time else WORDS[0]
            self.head = b"%x\r\n%b" % (len(head) + len(word) + len(tail), head)
            self.tail = tail + b"\r\n"

    def _send_text(self, before: bytes, finish: str | None) -> None:
        count = self._buffered
        self._buffered = 0
        self.sent += count
        if self._settings.emit_send_time:
            text = STAMP % time.monotonic_ns() * count
        else:
            text = answer_text(self.sent - count, self.sent)
        self.write(before + chunk(self._writer.text(text, finish, self._usage(self.sent))))

    def _close(self, outcome: Outcome) -> None:
        if outcome in ("length", "stop"):
            self.write(chunk(self._writer.closing(self._usage(self.sent))) + LAST_CHUNK)
            return
        if outcome == "error":
            self.write(chunk(self._writer.failure(json.dumps(_INJECTED.body).encode())))
        self.write(LAST_CHUNK)


class WholeReply(Reply):
    """An answer sent in one piece when it is complete."""

    __slots__ = ()

    def emit(self, outcome: Outcome | None) -> None:
        """Only counts."""
        self.sent += 1

    def _close(self, outcome: Outcome) -> None:
        if outcome == "error":
            self.write(error_response(_INJECTED, keep_alive=self._keep_alive))
            return
        body = self._writer.whole(answer_text(0, self.sent), outcome, self._usage(self.sent))
        response = whole_response(200, body, keep_alive=self._keep_alive)
        if outcome == "truncate":
            self._keep_alive = False
            response = response[: -(len(body) // 2)]
        self.write(response)


def answer_text(start: int, stop: int) -> bytes:
    """Tokens `start` to `stop` of any answer."""
    return b"".join([WORDS[n & 63] for n in range(start, stop)])
