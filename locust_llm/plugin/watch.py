"""Watch: follows one request of a user into the figures and the events, and holds the user back after some failures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import gevent
from locust.user.task import LOCUST_STATE_STOPPING

from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.timeline import Timeline
from locust_llm.plugin import events

if TYPE_CHECKING:
    from locust_llm.plugin.user import LLMUser

BUSY: Final = (429, 503, 529)
PAUSE_S: Final = 1.0
"""Pause of a user after HTTP 429, 503 or 529 when the server names none, and where nothing could be sent: a server that
is gone is not asked thousands of times a second."""

PAUSE_STEP_S: Final = 0.25


class Watch:
    """Follows one request into the figures and the events.

    A request that is cut off counts at once, since nothing of its task runs after that. One that began in a test that
    is over by now is in no figures: those of its test have been told, and it is none of the next one's.
    """

    def __init__(self, user: LLMUser, context: dict[str, Any]) -> None:
        self._user = user
        self._session = user.session
        self._run = user.session.run
        self._context = context

    def started(self, timeline: Timeline) -> None:
        """It is handed to the client."""
        self._timeline = timeline
        self._session.listener.started(timeline)

    def ended(self, record: RequestRecord) -> None:
        """Its stream is over."""
        self._session.listener.left(self._timeline)
        if record.outcome is Outcome.CANCELLED:
            self.judged(record)

    def judged(self, record: RequestRecord, exception: BaseException | None = None) -> None:
        """Its verdict is final: count it, and fire its events."""
        session = self._session
        if session.run != self._run:
            return
        session.listener.ended(record, self._user.number)
        events.fire(
            self._user.environment, record, context=self._context, exception=exception, simulated=session.simulated
        )

    def pause(self, record: RequestRecord) -> None:
        """After 429, 503 or 529, and where nothing could be sent: wait, as long as the server asks, outside every
        latency, unless the user is stopped."""
        cap = self._session.settings.retry_after_cap
        unsent = record.outcome is Outcome.FAILED and record.transit.sent_ns is None
        if not (unsent or record.status in BUSY) or cap <= 0:
            return
        asked = record.retry_after_s if record.retry_after_s is not None else PAUSE_S
        until = time.monotonic() + min(asked, cap)
        while (left := until - time.monotonic()) > 0 and self._user._state != LOCUST_STATE_STOPPING:
            gevent.sleep(min(left, PAUSE_STEP_S))
