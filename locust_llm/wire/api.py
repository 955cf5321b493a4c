"""What every API of an LLM server has in common: a request to encode, a stream to decode.

An Api knows one kind of endpoint (`chat/completions` …). Its `encode` turns a Call into the body of a POST, its
`decoder` writes what the answer says into a Timeline. Nothing here knows of HTTP, sockets or clocks. A new API is one
module and one line in APIS.
"""

from __future__ import annotations

from typing import Final, Protocol

from locust_llm.measure.timeline import Timeline
from locust_llm.wire.access import Access
from locust_llm.wire.anthropic_messages import MESSAGES
from locust_llm.wire.call import Call, Message, Prompt
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.ollama_chat import OLLAMA_CHAT
from locust_llm.wire.openai_chat import CHAT
from locust_llm.wire.openai_completions import COMPLETIONS
from locust_llm.wire.openai_responses import RESPONSES

__all__ = ["APIS", "Api", "Call", "Decoder", "Message", "Prompt"]


class Decoder(Protocol):
    """Writes one answer into its Timeline. Fed in order; what comes after the stream's own end is ignored."""

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """One event of the stream, complete at `at_ns`; `name` is "message" unless the server gave one."""

    def whole(self, at_ns: int, data: bytes) -> None:
        """One JSON document instead of a stream: not streamed, or not asked to be."""


class Api(Protocol):
    """One kind of endpoint. `path` follows the base URL; `end_hint` is what the last bytes of a stream hold.

    `access` is how its servers are reached; `lines`: its streams are lines of JSON, not server-sent events.
    """

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def end_hint(self) -> bytes: ...

    @property
    def access(self) -> Access: ...

    @property
    def lines(self) -> bool: ...

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request."""

    def decoder(self, timeline: Timeline, call: Call) -> Decoder:
        """A decoder for the answer to `call`."""


APIS: Final[dict[str, Api]] = {
    api.name: api for api in (CHAT, COMPLETIONS, MESSAGES, RESPONSES, OLLAMA_CHAT, EMBEDDINGS)
}
"""The APIs by name."""
