"""What tests of the sending half share: a client for a server's URL, its call, and the count of open descriptors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gevent

from locust_llm.measure.record import RequestRecord
from locust_llm.wire.api import APIS, Call
from locust_llm.wire.client import ClientConfig, LLMClient, ssl_context
from locust_llm.wire.credentials import Credentials
from locust_llm.wire.target import parse_target
from tests.replay import Replay, Script

CALL = Call(messages=[{"role": "user", "content": "hi"}], model="m", max_tokens=8)
NO_CREDENTIALS = Credentials((), (), "none")
PATIENCE_S = 10.0


def client_of(url: str, api: str = "chat", **settings: Any) -> LLMClient:
    """A client of the server at `url`; `settings` are fields of ClientConfig."""
    fields: dict[str, Any] = {
        "credentials": NO_CREDENTIALS,
        "context": ssl_context(),
        "stall_timeout_s": PATIENCE_S,
        "total_timeout_s": 3 * PATIENCE_S,
        "connect_timeout_s": PATIENCE_S,
    }
    return LLMClient(ClientConfig(api=APIS[api], target=parse_target(url), **(fields | settings)))


def asked(script: Script, call: Call = CALL, **settings: Any) -> tuple[RequestRecord, Replay]:
    """The record of one request that is answered so, and the server that was asked."""
    with Replay(script) as server:
        client = client_of(server.url, **settings)
        record = client.request(call)
        client.close()
        return record, server


def open_descriptors() -> int:
    """How many descriptors this process holds (Linux)."""
    return len(os.listdir("/proc/self/fd"))


def eventually(happened: Callable[[], object], what: str) -> None:
    """Give other greenlets and threads time until `happened()`; AssertionError when it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}"
        gevent.sleep(0.005)
