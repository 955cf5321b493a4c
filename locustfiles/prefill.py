"""The prefill probe: long prompts of several lengths, answers of one token; what entry and prefill cost.

locust --config configs/prefill.conf                            # against the embedded engine
locust --config configs/prefill.conf --host http://127.0.0.1:8000 --llm-model NAME

One user, so that nobody waits for others; more users show what waiting adds.
"""

from itertools import cycle

from locust import constant, task

from locust_llm import LLMUser

LENGTHS = cycle((128, 512, 1024, 2048, 4096))  # input tokens


class PrefillUser(LLMUser):
    """Asks for one token, with a prompt of the next length that no cache has seen."""

    llm_probe = True
    wait_time = constant(0.01)

    @task
    def ask(self):
        tokens = next(LENGTHS)
        self.client.chat(self.prompt(tokens), name=f"prefill {tokens}", max_tokens=1)
