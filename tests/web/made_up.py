"""A web UI over a made-up view, served for a browser: no load is sent, a test says what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gevent.pywsgi import WSGIServer
from locust.env import Environment

from locust_llm.plugin import web
from locust_llm.report.run import RunView


class MadeUp:
    """`view` is what the page tells; `url` ends in a slash."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.url = ""

    def change(self, **fields: object) -> None:
        """From now on the view has these fields."""
        self.view = replace(self.view, **fields)  # type: ignore[arg-type]


@contextmanager
def made_up(view: RunView) -> Iterator[MadeUp]:
    """The page of a view, on a port of its own."""
    environment = Environment()
    environment.create_local_runner()
    ui = environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
    site = MadeUp(view)
    web.install(environment, lambda: site.view)
    server = WSGIServer(("127.0.0.1", 0), ui.app, log=None)
    server.start()
    site.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield site
    finally:
        server.stop()
        environment.runner.quit()
