"""A fast engine shared by the tests of this room that only look at single answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.service import Service, clean_environment
from tests.sim.talking import FAST


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an engine with no queueing and steps of 1 ms. Read its counts as differences."""
    folder = tmp_path_factory.mktemp("sim")
    argv = [sys.executable, "-m", "locust_llm.sim", *FAST]
    server = Service.start("sim", argv, folder=folder, environment=clean_environment(folder))
    yield server.url
    server.stop()
