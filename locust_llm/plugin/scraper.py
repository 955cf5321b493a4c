"""Scraper: looks at the server's own metrics once a second (`--llm-server-metrics`), in local or master.

A page that cannot be read is said once, and tried again each second: the run goes on without it. Our key goes along
only where the page stands on the target's own origin. The last look comes when all has been drained, so that what the
server counted between the first and the last is the run's requests, and those of others.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import gevent
import gevent.event

from locust_llm.measure.server_sample import ServerSeries
from locust_llm.wire import failures
from locust_llm.wire.client import ClientConfig, LLMClient
from locust_llm.wire.credentials import Credentials
from locust_llm.wire.server_metrics import PageError, fetch, metrics_url
from locust_llm.wire.target import Target

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

EVERY_S: Final = 1.0
LAST_LOOK_S: Final = 2.0
"""How long the end of a test waits for the last look."""

logger = logging.getLogger(__name__)


class Scraper:
    """One per Session. `series` is None when no page is asked for."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.series: ServerSeries | None = None
        self._warned = False
        self._greenlet: gevent.Greenlet | None = None
        self._over = gevent.event.Event()

    def check(self) -> None:
        """Raise ConfigurationError when the option makes no sense."""
        if self.session.settings.server_metrics:
            metrics_url(self.session.settings.server_metrics, "http://localhost")

    def begin(self) -> None:
        """A test starts in this process."""
        self.end()
        self.series, self._warned = None, False
        if self.session.settings.server_metrics and not self.session.is_worker:
            config = self._config()
            self.series = ServerSeries(config.target.root)
            self._over.clear()
            self._greenlet = gevent.spawn(self._run, config, self.series)

    def end(self) -> None:
        """The test is over: look once more, and no further."""
        if self._greenlet is not None:
            self._over.set()
            self._greenlet.join(LAST_LOOK_S)
            self._greenlet.kill(block=False)
            self._greenlet = None

    def _config(self) -> ClientConfig:
        """How the page is asked for: as the first target, in `target.root` the page's own URL."""
        targets = self.session.targets
        usual = targets.config_for(*targets.pairs()[0])
        url = metrics_url(self.session.settings.server_metrics, usual.target.origin)
        page = Target(url)
        own = page.origin == usual.target.origin
        return replace(usual, target=page, credentials=usual.credentials if own else Credentials((), (), "none"))

    def _run(self, config: ClientConfig, series: ServerSeries) -> None:
        client = LLMClient(config)
        next_s = time.monotonic()
        try:
            while not self._over.wait(max(next_s - time.monotonic(), 0)):
                self._look(client, series)
                next_s = max(next_s + EVERY_S, time.monotonic())
            self._look(client, series)
        finally:
            client.close()

    def _look(self, client: LLMClient, series: ServerSeries) -> None:
        try:
            sample = fetch(client.http, series.url)
        except PageError as error:
            self._warn(series.url, str(error))
        except Exception as error:  # whatever it is, the run matters more
            label, _ = failures.exception_failure(error, client.config.credentials.secrets)
            self._warn(series.url, label)
        else:
            series.add(time.time(), sample)

    def _warn(self, url: str, why: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("--llm-server-metrics %s: %s; the run goes on without it.", url.split("?", 1)[0], why)
