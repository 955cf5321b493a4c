"""Tap: an Api that also keeps every event of the streams it decodes, to show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.access import Access
from locust_llm.wire.api import Api, Call, Decoder
from locust_llm.wire.document import read_document

SHOWN: Final = 100
_NOISE: Final = ("id", "object", "created", "model", "system_fingerprint", "created_at", "item_id", "sequence_number")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream: when it was complete, what it said, and whether it is an output event."""

    at_ns: int
    name: str
    data: bytes
    output: bool

    def text(self, secrets: tuple[str, ...]) -> str:
        """What it said, without what is the same in every event, on one line of bounded length."""
        try:
            shown = _compact(_without_noise(read_document(self.data)))
        except ValueError:
            shown = self.data.decode(errors="replace")
        line = failures.redact(failures.snippet(shown), secrets)
        named = "" if self.name == "message" else f"{self.name} "
        return named + (line if len(line) <= SHOWN else line[: SHOWN - 1] + "…")


class Tap:
    """Behaves as `api` does; `events` are those of the last answer."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.events: list[StreamEvent] = []

    @property
    def name(self) -> str:
        return self._api.name

    @property
    def path(self) -> str:
        return self._api.path

    @property
    def end_hint(self) -> bytes:
        return self._api.end_hint

    @property
    def access(self) -> Access:
        return self._api.access

    @property
    def lines(self) -> bool:
        return self._api.lines

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request."""
        return self._api.encode(call)

    def decoder(self, timeline: Timeline, call: Call) -> Decoder:
        """A decoder whose events are kept."""
        self.events = []
        return _TappedDecoder(self._api.decoder(timeline, call), timeline, self.events)


class _TappedDecoder:
    def __init__(self, decoder: Decoder, timeline: Timeline, events: list[StreamEvent]) -> None:
        self._decoder = decoder
        self._timeline = timeline
        self._events = events

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        before = len(self._timeline.event_ns)
        self._decoder.event(at_ns, name, data)
        output = len(self._timeline.event_ns) > before
        self._events.append(StreamEvent(at_ns, name, bytes(data), output))

    def whole(self, at_ns: int, data: bytes) -> None:
        self._decoder.whole(at_ns, data)


def _without_noise(value: Any) -> Any:
    """Without what is empty, and without the fields that are the same in every event."""
    if isinstance(value, dict):
        kept = {key: _without_noise(inner) for key, inner in value.items() if key not in _NOISE}
        return {
            key: inner for key, inner in kept.items() if inner not in (None, {}, []) and (key, inner) != ("index", 0)
        }
    if isinstance(value, list):
        return [_without_noise(inner) for inner in value]
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
