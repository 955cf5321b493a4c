"""LLMUser: a Locust user whose client streams completions."""

from __future__ import annotations

from typing import Any

from locust import User
from locust.user.task import LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

from locust_llm.plugin import setup as _setup  # noqa: F401 - hooks into Locust
from locust_llm.plugin.calls import UserCalls
from locust_llm.plugin.conversation import Conversation, ThinkTime
from locust_llm.plugin.session import session_of
from locust_llm.plugin.workload import Workload, aim_of
from locust_llm.workload.prompt import Messages, Prompt


class LLMUser(User):
    """A simulated user of an LLM endpoint.

    Subclass it, add tasks, and call `self.client.chat(messages, …)`, `self.client.complete(prompt, …)` or
    `self.client.embed(texts, …)`; each returns a RequestRecord. `self.prompt()` gives a fresh prompt as the options ask
    for. `host` may be set on the class as for any Locust user; `--host` wins over it.
    """

    abstract = True
    open_loop = False
    """Whether requests come by a schedule (OpenLoopUser) instead of one after the other."""

    llm_api = ""
    """What `self.client.chat` speaks and the target is checked with: `--llm-api`, unless the class names an API here.
    `embeddings` is for users that only embed."""

    llm_probe = False
    """Whether its requests are a probe, of several lengths: the run then tells what a request's time is made of."""

    client: UserCalls
    """Sends this user's requests, one after the other, over one kept connection."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.session = session_of(environment)
        if not self.session.run:  # a program that uses Locust without its `locust` command
            self.session.begin()
        self.number = self.session.next_user()
        self.client = UserCalls(self)
        self._aim = aim_of(self.asked_host, self.llm_api or self.session.settings.api)

    @property
    def asked_host(self) -> str | None:
        """The host that this user asks: its own, or with `--llm-ab` maybe the second one."""
        side = self.session.sides.of(self.number)
        return side.host if side is not None and side.host is not None else self.host

    @property
    def workload(self) -> Workload:
        """Where its requests come from: with `--llm-ab` each side has the same ones for itself."""
        side = self.session.sides.of(self.number)
        return side.workload if side is not None else self.session.workload

    def prompt(self, tokens: int | None = None, *, shared: float | None = None) -> Prompt:
        """The next prompt: of `--llm-dataset`, the file of `--llm-prompt-file`, or generated words that no cache has
        seen. With `tokens` it is generated and has that length; `shared` is the share that it has in common with
        others (else `--llm-shared-prefix`)."""
        return self.workload.prompt(self._aim, tokens, shared)

    def messages(self) -> Messages:
        """The next prompt as a list of messages, all of them where the data set has several."""
        return self.prompt().messages

    def conversation(
        self,
        *,
        name: str = "conversation",
        turns: int | None = None,
        tokens: int | None = None,
        think_time: ThinkTime | None = None,
        system: str | None = None,
    ) -> Conversation:
        """A new conversation of this user: see Conversation."""
        return Conversation(self, name=name, turns=turns, tokens=tokens, think_time=think_time, system=system)

    def stop(self, force: bool = False) -> bool:
        """As Locust's; a user that waits and wakes up just as it is stopped begins no request, to be cut off in it."""
        if not force and self._state == LOCUST_STATE_WAITING:
            self._state = LOCUST_STATE_STOPPING
            self._group.killone(self._greenlet)
            return True
        return bool(super().stop(force))

    def start(self, group: Any) -> Any:
        """Start the user's greenlet; its connections close with it."""
        greenlet = super().start(group)
        greenlet.link(lambda _: self.client.close())
        return greenlet
