"""Text completions, streamed: raw text in, no chat template between; for base models.

locust -f locustfiles/completions.py --host sim                 # against the embedded engine
locust -f locustfiles/completions.py --host http://127.0.0.1:8000 --llm-model NAME
"""

from locust import constant, task

from locust_llm import LLMUser


class CompletionsUser(LLMUser):
    """Has a text continued, waits for the whole of it, asks again."""

    llm_api = "completions"
    wait_time = constant(0)

    @task
    def complete(self):
        self.client.complete(self.prompt(), name="completion")
