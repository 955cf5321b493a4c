"""The fixtures that every room's tests share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gevent.hub import Hub

from tests.engine.llama import API_KEY, Llama
from tests.service import Service, clean_environment

# A failure raised inside a greenlet (pytest-timeout does, in whatever runs when time is up) must fail the test, not
# just that greenlet.
Hub.SYSTEM_ERROR = (*Hub.SYSTEM_ERROR, pytest.fail.Exception)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """One real llama.cpp server for the whole test run: read its counts as differences, and never stop it."""
    server = Llama.start(tmp_path_factory.mktemp("llama"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def llama_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """The same behind the key `tests.engine.llama.API_KEY`."""
    server = Llama.start(tmp_path_factory.mktemp("llama-key"), api_key=API_KEY)
    yield server
    server.stop()


@pytest.fixture
def own_llama(tmp_path: Path) -> Iterator[Llama]:
    """A real llama.cpp server for one test, which may count from 0, kill it and restart it."""
    server = Llama.start(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def sim_server(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """`sim_server("--slots", "4")` starts the embedded engine on a free port with those options; its Service."""
    with ExitStack() as running:

        def start(*options: str) -> Service:
            argv = [sys.executable, "-m", "locust_llm.sim", "--port", "0", *options]
            server = Service.start("sim", argv, folder=tmp_path, environment=clean_environment(tmp_path))
            running.callback(server.stop)
            return server

        yield start
