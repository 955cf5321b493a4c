"""The users of the stack `ours`: LLMUser as anybody would use it; each token's arrival is kept beside its send time."""

from __future__ import annotations

from locust import constant, task
from plan import PROMPT
from window import PLAN, answers, clocks, failures, lags_ms, spread_start

from locust_llm import LLMUser


class Ours(LLMUser):
    """One chat after the other through locust_llm."""

    wait_time = constant(0)

    def on_start(self) -> None:
        spread_start()

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
