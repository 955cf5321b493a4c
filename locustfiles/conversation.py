"""Conversations of several turns: each question goes with all that was said before; every turn has its own row.

locust -f locustfiles/conversation.py --host sim --llm-turns uniform:2-6 --llm-think-time 2
locust -f locustfiles/conversation.py --host http://127.0.0.1:8000 --llm-model NAME --llm-dataset sharegpt.json
"""

from locust import constant, task

from locust_llm import LLMUser


class ConversationUser(LLMUser):
    """Talks with the model, then begins a new conversation."""

    wait_time = constant(0)

    @task
    def talk(self):
        conversation = self.conversation(name="chat", tokens=50)  # what is asked after the first question is short
        for _ in conversation:
            conversation.ask()
