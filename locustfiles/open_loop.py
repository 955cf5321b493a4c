"""Open load: requests come at a rate, whether or not earlier ones have been answered.

locust -f locustfiles/open_loop.py --users 200 --spawn-rate 200 --llm-rate 12 --llm-arrivals poisson

`--users` is how many can be in flight at once; `--llm-rate` is the load.
"""

from locust import task

from locust_llm import OpenLoopUser


class OpenChatUser(OpenLoopUser):
    """Takes the next arrival of the schedule, asks, takes the next."""

    @task
    def chat(self):
        self.client.chat(self.prompt(), name="chat")
