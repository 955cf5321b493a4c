"""The decode probe: long answers behind contexts of several lengths; what a token, context and company cost.

locust --config configs/decode.conf                             # against the embedded engine
locust --config configs/decode.conf --host http://127.0.0.1:8000 --llm-model NAME

The configuration adds users one by one, so that concurrency varies as well.
"""

from itertools import cycle

from locust import constant, task

from locust_llm import LLMUser

CONTEXTS = cycle((32, 1024, 4096))  # tokens before the answer
ANSWER = 128  # tokens


class DecodeUser(LLMUser):
    """Asks for a long answer, behind a context of the next length that no cache has seen."""

    llm_probe = True
    wait_time = constant(0.01)

    @task
    def ask(self):
        tokens = next(CONTEXTS)
        self.client.chat(self.prompt(tokens), name=f"decode {tokens}", max_tokens=ANSWER)
