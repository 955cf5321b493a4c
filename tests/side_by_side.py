"""Tests that mostly wait for processes of their own run side by side.

    @side_by_side
    @pytest.mark.parametrize("mode", ["local", "processes"])
    def test_an_end(folder: Path, mode: str) -> None: ...

Theory of operation. The first such test of a module to run starts all of that module's that this session wants, AT_ONCE
at a time, each in a folder of its own (`folder`); every test then waits for its own and fails as that did. They take no
fixtures but `folder`, `stack` (an ExitStack, closed at the test's end) and their parameters, and must not count on the
time that anything takes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

AT_ONCE = 4
_RUNS = "side_runs"
_OURS = ("folder", "stack")

Runs = dict[str, "Future[None]"]


def side_by_side(body: Callable[..., None]) -> Callable[..., None]:
    """Make `body(folder, stack, **parameters)` a test that runs beside the others of its module."""

    @functools.wraps(body)
    def test(side_runs: Runs, request: pytest.FixtureRequest, **_: Any) -> None:
        side_runs[request.node.nodeid].result()

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter(name, kind) for name in (_RUNS, "request")]
    given = [each for name, each in inspect.signature(body).parameters.items() if name not in _OURS]
    test.__signature__ = inspect.Signature([*own, *given])  # type: ignore[attr-defined]
    test.side_body = body  # type: ignore[attr-defined]
    return test


@pytest.fixture(scope="module")
def side_runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """What the tests of this module wait for, by node id."""
    items = [item for item in request.session.items if item.path == request.path and _body(item) is not None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            item.nodeid: pool.submit(_run, _body(item), tmp_path_factory.mktemp("side"), _parameters(item))
            for item in items
        }
        pool.shutdown(cancel_futures=True)


def _run(body: Callable[..., None], folder: Path, parameters: dict[str, Any]) -> None:
    with ExitStack() as stack:
        given = {"folder": folder, "stack": stack}
        body(**{name: given[name] for name in inspect.signature(body).parameters if name in given}, **parameters)


def _body(item: pytest.Item) -> Any:
    return getattr(getattr(item, "function", None), "side_body", None)


def _parameters(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return dict(call.params) if call is not None else {}
