"""OpenLoopUser: a sender of open load."""

from __future__ import annotations

from locust.exception import StopUser

from locust_llm.plugin.user import LLMUser
from locust_llm.workload.prompt import Prompt


class OpenLoopUser(LLMUser):
    """A sender of open load: each run of a task takes the next arrival of the schedule (`--llm-rate` and friends).

    The first request of a task is the arrival's: its `scheduled_ns` is the arrival's time. Call `super().on_start()`
    when you override that; `wait_time` is the schedule's.
    """

    abstract = True
    open_loop = True
    _arrived: Prompt | None = None

    def on_start(self) -> None:
        """Wait for the first arrival."""
        self.wait()  # type: ignore[no-untyped-call]

    def wait_time(self) -> float:
        """Sleep until an arrival is this user's. Locust lets a user be stopped while it waits."""
        at_ns = self.session.open_load.schedule.wait(self._prepare)
        if at_ns is None:
            raise StopUser
        self.client.scheduled_ns = at_ns
        return 0.0

    def prompt(self, tokens: int | None = None, *, shared: float | None = None) -> Prompt:
        """As LLMUser's; with `--llm-trace` the first one of a task is that of the arrival."""
        prompt, self._arrived = self._arrived, None
        return prompt if prompt is not None and tokens is None else super().prompt(tokens, shared=shared)

    def _prepare(self, offset_ns: int) -> None:
        """Make the prompt of an arrival while there is time: a long one takes longer than a request may be late."""
        self._arrived = self.workload.recorded(self._aim, offset_ns)
