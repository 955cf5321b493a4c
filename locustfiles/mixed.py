"""A mixed population: chats, long prompts with documents, embeddings, and plain HTTP, in these weights.

locust -f locustfiles/mixed.py --host sim --users 12
"""

from locust import FastHttpUser, between, constant, task

from locust_llm import LLMUser


class MixedChatUser(LLMUser):
    weight, wait_time = 6, between(0.5, 2)

    @task
    def chat(self):
        self.client.chat(self.prompt(), name="chat")


class MixedDocumentUser(LLMUser):
    weight, wait_time = 2, constant(1)

    @task
    def summarise(self):
        self.client.chat(self.prompt(3000, shared=0.5), name="document", max_tokens=100)


class MixedEmbeddingUser(LLMUser):
    weight, wait_time, llm_api = 3, constant(1), "embeddings"

    @task
    def embed(self):
        self.client.embed([self.prompt(200) for _ in range(8)], name="embedding")


class MixedPageUser(FastHttpUser):
    weight, wait_time = 1, constant(1)

    @task
    def look(self):
        self.client.get("/health", name="/health")
