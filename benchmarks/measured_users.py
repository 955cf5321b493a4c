"""The locustfile of the client benchmarks: users of one stack, which keep every token's arrival beside its send time.

`ours` is LLMUser as anybody would use it. `plain` is what one writes without us: httpx.Client.stream, sseclient-py,
json, the time taken at each event before its JSON is read; it shares one SSL context (a client builds one otherwise,
at 30 ms of CPU) and has no connection limit, and it fires one event a request, not one a token.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from typing import Any

import gevent
import httpx
import sseclient
from locust import User, constant, events, task
from plan import PROMPT, Plan, cpu_s
from stamps import Answer, figures, spread

from locust_llm import LLMUser

PLAN = Plan.given()

answers: list[Answer] = []
failures: list[str] = []
clocks: dict[str, int] = {}
lags_ms: list[float] = []
marks: dict[str, float] = {}
_starts = random.Random(1)
_context: list[ssl.SSLContext] = []


def shared_context() -> ssl.SSLContext:
    if not _context:
        _context.append(ssl.create_default_context())
    return _context[0]


class Ours(LLMUser):
    """One chat after the other through locust_llm."""

    abstract = PLAN.stack != "ours"
    wait_time = constant(0)

    def on_start(self) -> None:
        gevent.sleep(_starts.random() * PLAN.ramp_s)

    @task
    def chat(self) -> None:
        record = self.client.chat(PROMPT, max_tokens=PLAN.tokens)
        if not record.success:
            failures.append(record.error or "?")
            return
        clock = str(record.transit.clock)
        clocks[clock] = clocks.get(clock, 0) + 1
        if record.transit.max_lag_ns is not None:
            lags_ms.append(record.transit.max_lag_ns / 1e6)
        answers.append((record.sent_ns, record.event_ns, record.text))


class Plain(User):
    """One chat after the other through httpx, sseclient and json."""

    abstract = PLAN.stack != "plain"
    wait_time = constant(0)

    def on_start(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.http = httpx.Client(timeout=60, verify=shared_context(), limits=limits, trust_env=False)
        gevent.sleep(_starts.random() * PLAN.ramp_s)

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


@events.init.add_listener
def _init(environment: Any, **_: Any) -> None:
    environment.events.spawning_complete.add_listener(
        lambda user_count, **_: gevent.spawn(_measure, environment.runner)
    )


def _measure(runner: Any) -> None:
    gevent.sleep(PLAN.ramp_s + PLAN.warm_s)
    marks["from_cpu_s"], marks["from_ns"] = cpu_s(), time.monotonic_ns()
    gevent.sleep(PLAN.window_s)
    marks["to_cpu_s"], marks["to_ns"] = cpu_s(), time.monotonic_ns()
    runner.quit()


@events.quit.add_listener
def _report(**_: Any) -> None:
    used_s = marks["to_cpu_s"] - marks["from_cpu_s"]
    PLAN.report(
        {
            **figures(answers, int(marks["from_ns"]), int(marks["to_ns"]), used_s),
            "requests": len(answers),
            "failed": len(failures),
            "failures": sorted(set(failures))[:5],
            "clocks": clocks,
            "lag_ms": spread(lags_ms),
        }
    )
