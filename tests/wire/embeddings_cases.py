"""Embeddings: E2E and input tokens, and no other figure; as many vectors as texts, or it failed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, failed
from tests.wire_events import DONE

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}
ONE = Call(prompt="a", stream=False)
TWO = Call(prompt=["a", "b"], stream=False)
NO_FIGURES = {"TTFT": None, "TTFC": None, "TPOT": None, "ITL": [], "N": None, "source": None, "streamed": False}


def vectors(count: int, **fields: Any) -> bytes:
    """An answer with that many vectors."""
    data = [{"object": "embedding", "index": at, "embedding": [0.5, -1.25e-3, float(at)]} for at in range(count)]
    usage = {"prompt_tokens": 18, "total_tokens": 18}
    return json.dumps({"object": "list", "model": "m", "data": data, "usage": usage} | fields).encode()


ANSWERS = [
    Case("one text", [(30, vectors(1))], OK | NO_FIGURES | {"E2E": 30, "prompt": 18, "model": "m"}, call=ONE),
    Case("two texts", [(30, vectors(2)[:40]), (50, vectors(2)[40:])], OK | NO_FIGURES | {"E2E": 50}, call=TWO),
    Case("token ids", [(30, vectors(1))], OK, call=Call(prompt=[1, 2, 3], stream=False)),
    Case("base64", [(30, vectors(1, data=[{"embedding": "AACAPw=="}]))], OK | {"E2E": 30}, call=ONE),
    Case("no usage", [(30, vectors(1, usage=None))], OK | {"prompt": None}, call=ONE),
    Case("usage that does not fit", [(30, vectors(1, usage={"prompt_tokens": "x"}, model=7))], OK, call=ONE),
    Case("an empty error is none", [(30, vectors(1, error=None))], OK, call=ONE),
    Case(
        "fewer vectors than texts",
        [(30, vectors(1))],
        failed("unexpected answer", detail="1 vectors for 2 texts"),
        call=TWO,
    ),
    Case("no vectors", [(30, b'{"object":"list","model":"m"}')], failed("unexpected answer"), call=ONE),
    Case(
        "an error under status 200",
        [(30, b'{"error":{"message":"no such model","type":"NotFoundError"}}')],
        failed("in-stream error: NotFoundError: no such model"),
        call=ONE,
    ),
    Case("a body that breaks off", [(30, vectors(1)[:50])], failed("truncated stream"), clean=False, call=ONE),
    Case(
        "a stream",
        [(30, b"data: " + vectors(1) + b"\n\n" + DONE)],
        failed("unexpected answer", events=0),
        call=ONE,
    ),
]

CASES = [
    replace(case, id=f"embeddings {case.id}", api="embeddings", headers=STREAM if case.id == "a stream" else JSON)
    for case in ANSWERS
]
