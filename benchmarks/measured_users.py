"""The locustfile of the client benchmark: users of one stack, which keep every token's arrival beside its send time.

`benchmarks/client.py` runs it as `locust -f measured_users.py --headless …` with a plan in $BENCH_PLAN (JSON; see
`Plan`) and reads the result from the file named there. Servers put the time of each token's send into its text, so
that the error of every stamp is known.

`ours` is LLMUser as anybody would use it. `plain` is what one writes without us: httpx.Client.stream, sseclient-py,
json, the time taken at each event before its JSON is read; it shares one SSL context (a client builds one otherwise,
at 30 ms of CPU) and has no connection limit, and it fires one event a request, not one a token.
"""

from __future__ import annotations

import json
import os
import random
import resource
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import httpx
import sseclient
from locust import User, constant, events, task

from locust_llm import LLMUser

PROMPT = "Tell me a story about a fox and a dog. " * 8


@dataclass(frozen=True)
class Plan:
    """What to run. Users start spread over `ramp_s`; figures are of the `window_s` after `ramp_s + warm_s`."""

    stack: str
    url: str
    out: str
    tokens: int
    ramp_s: float
    warm_s: float
    window_s: float


PLAN = Plan(**json.loads(os.environ["BENCH_PLAN"]))
NEED = {"ours": "LLMUser", "plain": "User"}

#: One entry a request: (sent_ns, arrivals in ns, text that holds the send times).
answers: list[tuple[int | None, list[int], str]] = []
failures: list[str] = []
clocks: dict[str, int] = {}
lags_ns: list[int] = []
marks: dict[str, float] = {}
_spread = random.Random(1)
_context: list[ssl.SSLContext] = []


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def shared_context() -> ssl.SSLContext:
    if not _context:
        _context.append(ssl.create_default_context())
    return _context[0]


class Ours(LLMUser):
    """One chat after the other through locust_llm."""

    abstract = PLAN.stack != "ours"
    wait_time = constant(0)

    def on_start(self) -> None:
        gevent.sleep(_spread.random() * PLAN.ramp_s)

    @task
    def chat(self) -> None:
        record = self.client.chat(PROMPT, max_tokens=PLAN.tokens)
        if not record.success:
            failures.append(record.error or "?")
            return
        clock = str(record.transit.clock)
        clocks[clock] = clocks.get(clock, 0) + 1
        if record.transit.max_lag_ns is not None:
            lags_ns.append(record.transit.max_lag_ns)
        answers.append((record.sent_ns, record.event_ns, record.text))  # type: ignore[arg-type]


class Plain(User):
    """One chat after the other through httpx, sseclient and json."""

    abstract = PLAN.stack != "plain"
    wait_time = constant(0)

    def on_start(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.http = httpx.Client(timeout=60, verify=shared_context(), limits=limits, trust_env=False)
        self.body = {
            "model": "m",
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": PLAN.tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        gevent.sleep(_spread.random() * PLAN.ramp_s)

    @task
    def chat(self) -> None:
        start_ns = time.monotonic_ns()
        arrivals: list[int] = []
        texts: list[str] = []
        tokens = 0
        try:
            with self.http.stream("POST", PLAN.url + "/v1/chat/completions", json=self.body) as response:
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
    Path(PLAN.out).write_text(json.dumps(result()))


def result() -> dict[str, Any]:
    """The figures of the window."""
    since, until = marks["from_ns"], marks["to_ns"]
    handled = 0
    errors_us: list[float] = []
    gap_errors_us: list[float] = []
    ttfts_ms: list[float] = []
    gaps_ms: list[float] = []
    coalesced = mismatched = 0
    for start_ns, arrivals, text in answers:
        sends = [int(word) for word in text.split()]
        mismatched += len(sends) != len(arrivals)
        if start_ns is not None and since <= start_ns < until:
            ttfts_ms.append((arrivals[0] - start_ns) / 1e6)
        before: tuple[int, int] | None = None
        for at_ns, send_ns in zip(arrivals, sends, strict=False):
            handled += since <= at_ns < until
            if since <= send_ns < until:
                errors_us.append((at_ns - send_ns) / 1e3)
                if before is not None:
                    gap, true_gap = at_ns - before[0], send_ns - before[1]
                    gaps_ms.append(gap / 1e6)
                    gap_errors_us.append(abs(gap - true_gap) / 1e3)
                    coalesced += gap < 0.1 * true_gap
            before = at_ns, send_ns
    window_s = (until - since) / 1e9
    used_s = marks["to_cpu_s"] - marks["from_cpu_s"]
    return {
        "tokens_per_s": round(handled / window_s),
        "cpu_us_per_token": round(used_s * 1e6 / max(handled, 1), 2),
        "core_share": round(used_s / window_s, 3),
        "stamp_error_us": spread(errors_us),
        "itl_error_us": spread(gap_errors_us),
        "ttft_ms": spread(ttfts_ms),
        "itl_ms": spread(gaps_ms),
        "coalesced_share": round(coalesced / max(len(gap_errors_us), 1), 5),
        "requests": len(answers),
        "failed": len(failures),
        "failures": sorted(set(failures))[:5],
        "mismatched": mismatched,
        "clocks": clocks,
        "lag_ms": spread([lag / 1e6 for lag in lags_ns]),
    }


def spread(values: list[float]) -> dict[str, float] | None:
    """p50, p99 and max."""
    if not values:
        return None
    ordered = sorted(values)
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[int(share * (len(ordered) - 1))], 3) for name, share in places.items()}
