"""POST /v1/embeddings: the prompt is prefilled, all texts of a request together, and nothing is decoded."""

from __future__ import annotations

import json
from typing import Any

from locust_llm.sim.api import EVENT_STREAM, Api
from locust_llm.sim.ask import Ask, Usage, required, token_limit
from locust_llm.sim.http import invalid_field

DIMENSIONS = 64


def read(body: dict[str, Any]) -> Ask:
    """Understands the body; raises HttpError 400."""
    given = required(body, "input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise invalid_field("input", "Input should be a valid string or a list of them")
    if body.get("encoding_format") not in (None, "float"):
        raise invalid_field("encoding_format", "The simulated engine gives floats")
    dimensions = token_limit(body, "dimensions")
    words = [word for text in texts for word in text.split()]
    return Ask(words, 0, vectors=len(texts), dimensions=dimensions if dimensions is not None else DIMENSIONS)


class Writer:
    """The bytes of one answer, which comes in one piece: as a stream it would be empty."""

    plain = None

    def __init__(self, number: str, model: str, created: int, ask: Ask) -> None:
        self._start = {"id": f"embd-{number}", "object": "list", "created": created, "model": model}
        self._vector = [round(1 / (1 + at), 6) for at in range(ask.dimensions)]
        self._vectors = ask.vectors

    def opening(self, usage: Usage) -> bytes:
        """Nothing."""
        return b""

    def text(self, text: bytes, finish: str | None, usage: Usage) -> bytes:
        """Nothing."""
        return b""

    def closing(self, usage: Usage) -> bytes:
        """Nothing."""
        return b""

    def failure(self, error: bytes) -> bytes:
        """Nothing."""
        return b""

    def whole(self, text: bytes, finish: str, usage: Usage) -> bytes:
        """The vectors, all alike."""
        data = [{"object": "embedding", "index": at, "embedding": self._vector} for at in range(self._vectors)]
        counts = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens, "completion_tokens": 0}
        return json.dumps({**self._start, "data": data, "usage": counts}).encode()


API = Api("/v1/embeddings", EVENT_STREAM, read, Writer)
