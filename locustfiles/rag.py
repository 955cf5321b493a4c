"""Retrieval-augmented generation: long prompts of instructions and found passages, short answers.

locust -f locustfiles/rag.py --host sim --llm-sim '--prefix-cache-tokens 100000'
locust -f locustfiles/rag.py --host http://127.0.0.1:8000 --llm-model NAME --llm-shared-prefix 0.8 --llm-prefixes 32

Requests about the same documents begin alike; a prefix cache spares the server that part of the work.
"""

from locust import between, task

from locust_llm import LLMUser

CONTEXT_TOKENS = 3000


class RagUser(LLMUser):
    """Asks about documents that others ask about, too."""

    wait_time = between(0.1, 0.5)

    @task
    def answer(self):
        shared = self.session.settings.shared_prefix
        prompt = self.prompt(CONTEXT_TOKENS, shared=shared if shared > 0 else 0.5)
        self.client.chat(prompt, name="rag", max_tokens=100)
