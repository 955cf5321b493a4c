"""The users of the stack `plain`: what one writes without us, keeping every token's arrival beside its send time.

httpx.Client.stream, sseclient-py and json, the time taken at each event before its JSON is read. They share one SSL
context (a client builds one otherwise, at 30 ms of CPU), have no connection limit, and fire one event a request, not
one a token. Nothing of locust_llm is imported, which would quiet Python's garbage collector for them too.
"""

from __future__ import annotations

import json
import ssl
import time

import httpx
import sseclient
from locust import User, constant, task
from window import PLAN, answers, failures, spread_start

_context: list[ssl.SSLContext] = []


def shared_context() -> ssl.SSLContext:
    if not _context:
        _context.append(ssl.create_default_context())
    return _context[0]


class Plain(User):
    """One chat after the other through httpx, sseclient and json."""

    wait_time = constant(0)

    def on_start(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.http = httpx.Client(timeout=60, verify=shared_context(), limits=limits, trust_env=False)
        spread_start()

    @task
    def chat(self) -> None:
        start_ns = time.monotonic_ns()
        arrivals: list[int] = []
        texts: list[str] = []
        tokens = 0
        try:
            with self.http.stream("POST", PLAN.url + "/v1/chat/completions", json=PLAN.body) as response:
                for event in sseclient.SSEClient(response.iter_bytes()).events():
                    at_ns = time.monotonic_ns()
                    if event.data == "[DONE]":
                        continue
                    chunk = json.loads(event.data)
                    if chunk["choices"]:
                        text = chunk["choices"][0]["delta"].get("content")
                        if text:
                            arrivals.append(at_ns)
                            texts.append(text)
                    elif chunk.get("usage"):
                        tokens = chunk["usage"]["completion_tokens"]
        except Exception as error:
            failures.append(repr(error))
            return
        e2e_ms = (arrivals[-1] - start_ns) / 1e6
        self.environment.events.request.fire(
            request_type="E2E", name="chat", response_time=e2e_ms, response_length=tokens, exception=None, context={}
        )
        answers.append((start_ns, arrivals, "".join(texts)))
