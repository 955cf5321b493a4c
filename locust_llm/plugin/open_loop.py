"""OpenLoopUser: a sender of open load."""

from __future__ import annotations

from locust.exception import StopUser

from locust_llm.plugin.user import LLMUser


class OpenLoopUser(LLMUser):
    """A sender of open load: each run of a task takes the next arrival of the schedule (`--llm-rate` and friends).

    The first request of a task is the arrival's: its `scheduled_ns` is the arrival's time. Call `super().on_start()`
    when you override that; `wait_time` is the schedule's.
    """

    abstract = True
    open_loop = True

    def on_start(self) -> None:
        """Wait for the first arrival."""
        self.wait()  # type: ignore[no-untyped-call]

    def wait_time(self) -> float:
        """Sleep until an arrival is this user's. Locust lets a user be stopped while it waits."""
        at_ns = self.session.open_load.schedule.wait()
        if at_ns is None:
            raise StopUser
        self.client.scheduled_ns = at_ns
        return 0.0
