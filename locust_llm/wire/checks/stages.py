"""The list of all stages. A new check is one function and one entry; with `preflight` it is made before each test."""

from __future__ import annotations

from typing import Final

from locust_llm.wire.checks import asking, reaching
from locust_llm.wire.checks.stage import Stage

MODELS: Final = Stage("models", reaching.find_model, preflight=True)

STAGES: Final = (
    Stage("proxy", reaching.look_at_proxy),
    Stage("resolve", reaching.resolve),
    Stage("connect", reaching.connect),
    Stage("TLS", reaching.handshake),
    Stage("auth", reaching.authenticate),
    MODELS,
    Stage("answer", asking.whole_answer),
    Stage("stream", asking.streamed_answer, preflight=True),
    Stage("usage", asking.compare_usage, needs=("answer", "stream")),
    Stage("keep-alive", asking.keep_alive, needs=("stream",)),
    Stage("clock", asking.clock, needs=("stream",)),
)
