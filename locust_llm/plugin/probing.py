"""Probing: whether users ask for longer answers than usual, in every process.

The probe step of a knee search asks for answers twice as long, to tell slots from KV capacity (`analysis.cause`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from locust_llm.wire.call import Call

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

PROBE = "llm_probe"
MIN_TOKENS = "min_tokens"


class Probing:
    """The factor of one process; on a master it is told to the workers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.factor = 1.0

    def install(self) -> None:
        """Listen to the master."""
        if self.session.is_worker:
            self.session.environment.runner.register_message(PROBE, self._on_probe)

    def begin(self) -> None:
        """A test starts in this process."""
        self.factor = 1.0

    def ask(self, factor: float) -> None:
        """From now on, requests of all processes ask for `factor` times their usual length. Local or master."""
        self.factor = factor
        if self.session.is_master:
            runner = self.session.environment.runner
            for client in runner.clients.all:
                runner.send_message(PROBE, {"run": self.session.run, "factor": factor}, client.id)

    def lengthened(self, call: Call) -> Call:
        """The call as it is to be sent now."""
        if self.factor == 1.0 or call.max_tokens is None:
            return call
        extra = dict(call.extra)
        if isinstance(extra.get(MIN_TOKENS), int):
            extra[MIN_TOKENS] = round(extra[MIN_TOKENS] * self.factor)
        return replace(call, max_tokens=round(call.max_tokens * self.factor), extra=extra)

    def _on_probe(self, msg: Any, **_: Any) -> None:
        if msg.data["run"] == self.session.run:
            self.factor = msg.data["factor"]
