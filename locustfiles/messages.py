"""Anthropic's Messages API, streamed. Key and endpoint may come from ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.

locust -f locustfiles/messages.py --host sim                    # against the embedded engine
locust -f locustfiles/messages.py --host https://api.anthropic.com --llm-model NAME
"""

from locust import constant, task

from locust_llm import LLMUser


class MessagesUser(LLMUser):
    """Asks, waits for the whole message, asks again."""

    llm_api = "messages"
    wait_time = constant(0)

    @task
    def message(self):
        self.client.chat(self.prompt(), name="message")
