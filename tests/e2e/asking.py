"""Locustfiles that ask one thing again and again, named "ask": in closed loop, and as senders of open load."""

from __future__ import annotations

CLOSED = """
from locust import constant, task
from locust_llm import LLMUser

class Chat(LLMUser):
    wait_time = constant(0)
    @task
    def ask(self):
        self.client.chat(self.prompt(), name="ask")
"""
OPEN = """
from locust import task
from locust_llm import OpenLoopUser

class Open(OpenLoopUser):
    @task
    def ask(self):
        self.client.chat(self.prompt(), name="ask")
"""
