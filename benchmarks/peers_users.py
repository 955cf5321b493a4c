"""The users of the stack `ours` in benchmarks/peers.py: as anybody would write them."""

from __future__ import annotations

from locust import constant, task
from plan import PROMPT, Plan

from locust_llm import LLMUser

PLAN = Plan.given()


class Peer(LLMUser):
    """One chat after the other."""

    wait_time = constant(0)

    @task
    def chat(self) -> None:
        self.client.chat(PROMPT, max_tokens=PLAN.tokens)
