"""The embeddings API: texts in, one vector each out. Never streamed, and without output tokens.

The vectors are counted, not read: an answer may hold megabytes of them, and what they say matters to no load test.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from locust_llm.measure.record import Usage
from locust_llm.measure.timeline import Timeline
from locust_llm.wire import failures
from locust_llm.wire.access import OPENAI
from locust_llm.wire.call import Call, plain
from locust_llm.wire.document import as_count, as_object, as_text, read_document
from locust_llm.wire.event import is_error

_json = msgspec.json.Encoder(enc_hook=plain)
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Counts(msgspec.Struct, gc=False):
    prompt_tokens: Count | None = None


class _Vectors(msgspec.Struct, gc=False):
    """An answer: its vectors as they stand in the JSON."""

    data: list[msgspec.Raw] | None = None
    usage: _Counts | None = None
    model: str | None = None
    error: Any = None


_vectors = msgspec.json.Decoder(_Vectors)


class Embeddings:
    """Texts in, vectors out."""

    name: Final = "embeddings"
    path: Final = "embeddings"
    end_hint: Final = b""
    access: Final = OPENAI
    lines: Final = False

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request."""
        body: dict[str, Any] = {"input": call.prompt if call.prompt is not None else ""}
        if call.model:
            body["model"] = call.model
        return _json.encode({**body, **call.extra})

    def decoder(self, timeline: Timeline, call: Call) -> EmbeddingsDecoder:
        """A decoder for the answer to `call`."""
        return EmbeddingsDecoder(timeline, call.prompts)


EMBEDDINGS: Final = Embeddings()


class EmbeddingsDecoder:
    """Writes one answer of the embeddings API into its Timeline. `texts` = how many the request held."""

    __slots__ = ("_texts", "_timeline")

    def __init__(self, timeline: Timeline, texts: int) -> None:
        self._timeline = timeline
        self._texts = texts

    def event(self, at_ns: int, name: str, data: bytes) -> None:
        """An event of a stream that nobody asked for."""
        self._timeline.fail(failures.UNEXPECTED, failures.snippet(data))

    def whole(self, at_ns: int, data: bytes) -> None:
        """The answer, whole at `at_ns`. As many vectors as texts, or it failed."""
        timeline = self._timeline
        timeline.streamed = False
        answer = _read(data)
        if is_error(answer.error):
            timeline.fail(*failures.in_stream_failure(read_document(data)))
        elif answer.data is not None:
            timeline.model_answered = answer.model
            if answer.usage is not None:
                timeline.report(Usage(input_tokens=answer.usage.prompt_tokens))
            if len(answer.data) != self._texts:
                timeline.fail(failures.UNEXPECTED, f"{len(answer.data)} vectors for {self._texts} texts")
            timeline.done(at_ns)


def _read(data: bytes) -> _Vectors:
    """The answer, also where a field does not fit. ValueError when it is not JSON."""
    try:
        return _vectors.decode(data)
    except (msgspec.DecodeError, RecursionError):
        document = as_object(read_document(data))
    vectors, usage = document.get("data"), as_object(document.get("usage"))
    return _Vectors(
        data=[msgspec.Raw()] * len(vectors) if isinstance(vectors, list) else None,
        usage=_Counts(as_count(usage.get("prompt_tokens"))),
        model=as_text(document.get("model")),
        error=document.get("error"),
    )
