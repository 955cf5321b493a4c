"""Conversation: several turns, each sent with all that was said before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import gevent
from locust.user.task import LOCUST_STATE_STOPPING

from locust_llm.measure.record import RequestRecord
from locust_llm.workload.prompt import Messages

if TYPE_CHECKING:
    from locust_llm.plugin.user import LLMUser

NAMED_TURNS: Final = 10
"""Turns with a row of their own in the statistics; later ones share one."""

_STEP_S: Final = 0.25

ThinkTime = float | Callable[[Any], float]


class Conversation:
    """One talk of an LLMUser with the model. Use it within a task:

        talk = self.conversation(turns=4)
        for _ in talk:  # pauses for the think time between turns
            talk.ask()

    `ask` sends what the user says next after all that was said before, under the name "NAME turn 1", "NAME turn 2" …,
    so that each turn has figures of its own. What is said comes from the data set's next record, else it is generated.
    A turn that fails ends the conversation, and so does the user's stop; neither ends the user.
    """

    def __init__(
        self,
        user: LLMUser,
        *,
        name: str = "conversation",
        turns: int | None = None,
        tokens: int | None = None,
        think_time: ThinkTime | None = None,
        system: str | None = None,
    ) -> None:
        """`turns` and `think_time` (seconds, or a wait_time of Locust's) default to --llm-turns and --llm-think-time.
        `tokens` is the length of generated questions after the first; `system` a system message."""
        settings, item = user.session.settings, user.workload.item()
        self._user = user
        self.name = name
        self.turns = turns if turns is not None else user.workload.turns()
        self.think_time = think_time if think_time is not None else settings.think_time
        self._tokens = tokens
        self._says: Iterator[str] | None = None
        self.messages: list[Mapping[str, Any]] = [{"role": "system", "content": system}] if system else []
        """All that was said so far, as it is sent."""
        if item is not None:
            self.messages += item.opening
            self._says = iter(item.turns)
            self.turns = min(self.turns, len(item.turns))
        self.turn = 0
        """How many questions have been asked."""
        self.over = False
        """Whether a turn has failed."""

    def __iter__(self) -> Iterator[int]:
        """The turns that are left, by number from 1, as long as none fails and the user is not stopped."""
        while self._goes_on():
            if self.turn:
                self._think()
                if not self._goes_on():
                    break
            asked = self.turn
            yield asked + 1
            if self.turn == asked:
                break  # nobody asked

    def ask(self, says: str | None = None, **options: Any) -> RequestRecord:
        """Send the next question, `says` or what comes next by itself; `options` are those of `self.client.chat`.

        Returns its record. The answer belongs to the conversation from then on.
        """
        self.turn += 1
        said = says if says is not None else self._next()
        asked = Messages(
            [*self.messages, {"role": "user", "content": str(said)}],
            output_tokens=getattr(said, "output_tokens", None),
            exact=getattr(said, "exact", False),
        )
        turn = f"{self.turn}" if self.turn < NAMED_TURNS else f"{NAMED_TURNS}+"
        record: RequestRecord = self._user.client.chat(asked, name=f"{self.name} turn {turn}", **options)
        self.messages = list(asked)
        if record.text:
            self.messages.append({"role": "assistant", "content": record.text})
        self.over = self.over or not record.success
        return record

    def _next(self) -> str:
        if self._says is not None:
            return next(self._says, "Go on.")
        return self._user.prompt(self._tokens if self.turn > 1 else None)

    def _goes_on(self) -> bool:
        return self.turn < self.turns and not self.over and self._user._state != LOCUST_STATE_STOPPING

    def _think(self) -> None:
        """Pause, unless the user is stopped."""
        pause = self.think_time
        until = time.monotonic() + (pause(self._user) if callable(pause) else pause)
        while (left := until - time.monotonic()) > 0 and self._user._state != LOCUST_STATE_STOPPING:
            gevent.sleep(min(left, _STEP_S))
