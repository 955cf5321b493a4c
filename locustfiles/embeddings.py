"""Embeddings, a batch of texts each time: E2E and input tokens per second; nothing is streamed.

locust -f locustfiles/embeddings.py --host sim                  # against the embedded engine
locust -f locustfiles/embeddings.py --host http://127.0.0.1:8000 --llm-model NAME --llm-input-tokens 200
"""

from locust import constant, task

from locust_llm import LLMUser

TEXTS = 8


class EmbeddingsUser(LLMUser):
    """Embeds a batch, waits for its vectors, embeds the next."""

    llm_api = "embeddings"
    wait_time = constant(0)

    @task
    def embed(self):
        self.client.embed([self.prompt() for _ in range(TEXTS)], name="embedding")
