"""The legacy completions API: raw text in, raw text out, no chat template between."""

from __future__ import annotations

from typing import Final

import msgspec

from locust_llm.measure.timeline import Timeline
from locust_llm.wire.access import OPENAI
from locust_llm.wire.call import Call, plain
from locust_llm.wire.openai_answer import END_HINT, OpenAIDecoder
from locust_llm.wire.openai_chat import body_fields

_json = msgspec.json.Encoder(enc_hook=plain)


class Completions:
    """A prompt in, its continuation out."""

    name: Final = "completions"
    path: Final = "completions"
    end_hint: Final = END_HINT
    access: Final = OPENAI
    lines: Final = False

    def encode(self, call: Call) -> bytes:
        """The JSON body of the request."""
        prompt = call.prompt if call.prompt is not None else call.text
        return _json.encode({"prompt": prompt, **body_fields(call), **call.extra})

    def decoder(self, timeline: Timeline, call: Call) -> OpenAIDecoder:
        """A decoder for the answer to `call`."""
        return OpenAIDecoder(timeline, prompts=call.prompts)


COMPLETIONS: Final = Completions()
