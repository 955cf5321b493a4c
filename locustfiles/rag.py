"""Retrieval-augmented generation: long prompts of instructions and found passages, short answers.

locust -f locustfiles/rag.py --host sim --llm-sim '--prefix-cache-tokens 100000'
locust -f locustfiles/rag.py --host http://127.0.0.1:8000 --llm-model NAME --llm-prefixes 32

Requests about the same documents begin alike; a prefix cache spares the server that part of the work.
"""

from locust import between, task

from locust_llm import LLMUser

CONTEXT_TOKENS = 3000
SHARED = 0.8  # of which the instructions and the documents are


class RagUser(LLMUser):
    """Asks about one of --llm-prefixes sets of documents, which others ask about, too."""

    wait_time = between(0.1, 0.5)

    @task
    def answer(self):
        self.client.chat(self.prompt(CONTEXT_TOKENS, shared=SHARED), name="rag", max_tokens=100)
