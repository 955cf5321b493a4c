"""Hooks into Locust when a locustfile imports us: our options, and everything else at `init`."""

from __future__ import annotations

import logging
import sys
from typing import Any

from locust import events

from locust_llm.plugin import options, shapes, web
from locust_llm.plugin.gc_quiet import QuietGC
from locust_llm.plugin.lifecycle import Lifecycle
from locust_llm.plugin.outputs import Outputs
from locust_llm.plugin.session import session_of
from locust_llm.plugin.view import view_of
from locust_llm.wire.target import ConfigurationError


def _add_options(parser: Any, **_: Any) -> None:
    options.add_to(parser)


def _on_init(environment: Any, **_: Any) -> None:
    try:
        session = session_of(environment)
    except ConfigurationError as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    try:
        shapes.install(environment, session)
    except ConfigurationError as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    session.open_load.install()
    session.step_rows.install()
    session.probing.install()
    session.brakes.install()
    outputs = Outputs(session)
    outputs.install()
    web.install(environment, lambda: view_of(session))
    QuietGC().install(environment.events)
    Lifecycle(session, outputs).install()


events.init_command_line_parser.add_listener(_add_options)
events.init.add_listener(_on_init)
