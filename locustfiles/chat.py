"""Chat completions, streamed: the file to start from.

locust -f locustfiles/chat.py                                   # against the embedded engine
locust -f locustfiles/chat.py --host http://127.0.0.1:8000 --llm-model NAME
"""

from locust import constant, task

from locust_llm import LLMUser


class ChatUser(LLMUser):
    """Asks, waits for the whole answer, asks again."""

    wait_time = constant(0)

    @task
    def chat(self):
        self.client.chat(self.prompt(), name="chat")
