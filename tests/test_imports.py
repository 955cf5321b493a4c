"""The rooms' arrows, and that importing the package starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import locust_llm
from tests.import_rules import EVERYTHING, PACKAGE, faults
from tests.service import clean_environment

FOLDER = Path(locust_llm.__file__).parent


def module_name(path: Path) -> str:
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join([PACKAGE, *(part for part in parts if part != "__init__")])


FILES = {module_name(path): path for path in sorted(FOLDER.rglob("*.py"))}


def test_the_walk_finds_every_room() -> None:
    assert {name.split(".")[1] for name in FILES if "." in name} == EVERYTHING
    assert f"{PACKAGE}.measure.record" in FILES


@pytest.mark.parametrize("module", FILES)
def test_no_arrow_outside_the_table(module: str) -> None:
    assert faults(module, FILES[module].read_text(), FILES) == []


KNOWN = [
    PACKAGE,
    *(f"{PACKAGE}.{room}" for room in sorted(EVERYTHING)),
    *(f"{PACKAGE}.{name}" for name in ("measure.record", "sim.engine", "wire.sse", "wire.transport", "plugin.user")),
]

FORBIDDEN = [
    # (module, source, what the fault says)
    ("measure.record", "import locust_llm.wire.sse", "measure may not import wire"),
    ("measure.record", "from locust_llm import __version__", "measure may not import locust_llm.__version__"),
    ("measure.record", "import locust_llm", "measure may not import locust_llm"),
    ("measure.record", "from gevent import sleep", "measure may not import gevent"),
    ("measure.record", "import numpy, httpx", "measure may not import httpx"),
    ("measure.record", "from locust.stats import RequestStats", "measure may not import locust"),
    ("measure.record", "def late():\n    import locust", ":2: measure may not import locust"),
    (
        "measure.record",
        "try:\n    import gevent as g\nexcept ImportError:\n    g = None",
        "measure may not import gevent",
    ),
    ("measure.record", "from ..wire import sse", "measure may not import wire (locust_llm.wire.sse)"),
    ("measure.record", "from .. import plugin", "measure may not import plugin"),
    ("measure", "from ..wire.sse import parse", "measure may not import wire"),
    ("measure.record", "from importlib import import_module\nimport_module('locust')", "may not import locust"),
    ("measure.record", "import importlib\nimportlib.import_module('locust_llm.sim')", "measure may not import sim"),
    ("measure.record", "__import__('httpx')", "measure may not import httpx"),
    ("measure.record", "import importlib\nimportlib.import_module(name)", "a name that cannot be read"),
    ("workload.prompt", "from locust_llm.wire import sse", "workload may not import wire"),
    ("workload.pacing", "import gevent", "workload may not import gevent"),
    ("analysis.knee", "from locust_llm.report import html", "analysis may not import report"),
    ("report.html", "from locust_llm.wire.sse import Event", "report may not import wire"),
    ("report.html", "import locust_llm.plugin.user", "report may not import plugin"),
    ("report.html", "from locust_llm import LLMUser", "report may not import locust_llm.LLMUser"),
    ("wire.sse", "import gevent.socket", "wire may not import gevent"),
    ("wire.sse", "import httpx", "wire may not import httpx"),
    ("wire.client", "from greenlet import GreenletExit", "wire may not import greenlet"),
    ("wire.connect", "import httpx", "wire may not import httpx"),
    ("wire.transport", "import locust", "wire may not import locust"),
    ("wire.transport", "import asyncio", "wire may not import asyncio"),
    ("wire.sse", "from locust_llm.workload.prompt import Prompt", "wire may not import workload"),
    ("sim.engine", "from locust_llm.measure.record import RequestRecord", "sim may not import measure"),
    ("sim.engine", "import gevent", "sim may not import gevent"),
    ("sim.engine", "from ..wire.sse import x", "sim may not import wire"),
    ("plugin.user", "from locust_llm.sim.engine import Engine", "the insides of sim (locust_llm.sim.engine.Engine)"),
    ("plugin.user", "from locust_llm.sim import engine", "the insides of sim (locust_llm.sim.engine)"),
    ("plugin.user", "import locust_llm.sim.engine", "the insides of sim (locust_llm.sim.engine)"),
    ("plugin.user", "import httpx", "plugin may not import httpx"),
    ("plugin.user", "import torch.nn", "plugin may not import torch"),
    (
        "wire.sse",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import locust",
        ":3: wire may not import locust",
    ),
    (
        "wire.sse",
        "import typing\nif typing.TYPE_CHECKING:\n    from locust_llm.plugin.user import LLMUser",
        "wire may not import plugin",
    ),
    ("", "from locust_llm.wire.sse import parse", " may not import wire"),
    ("", "import gevent", " may not import gevent"),
    ("helpers.text", "import os", "'helpers' is no room"),
    ("stray", "import os", "'stray' is no room"),
]


@pytest.mark.parametrize(("module", "source", "said"), FORBIDDEN, ids=[f"{row[0]}: {row[1]}" for row in FORBIDDEN])
def test_a_forbidden_arrow_is_found(module: str, source: str, said: str) -> None:
    [fault] = faults(f"{PACKAGE}.{module}".rstrip("."), source, KNOWN)
    assert said in fault


ALLOWED = [
    ("measure.record", "import numpy\nimport json\nfrom . import clock\nfrom .clock import now_ns"),
    ("measure.record", "from locust_llm.measure.clock import now_ns"),
    ("measure.record", "def gevent(): ...\nlocust = 'import locust'"),
    ("workload.prompt", "from locust_llm.measure.record import RequestRecord"),
    ("analysis.knee", "from ..measure import record"),
    ("report.html", "from locust_llm import __version__\nfrom locust_llm.analysis.knee import Knee"),
    ("wire.transport", "import httpx\nimport gevent.socket\nfrom locust_llm.measure.record import RequestRecord"),
    ("wire.client", "import httpx"),
    ("wire.collector", "from gevent import socket"),
    ("wire.connect", "import gevent\nimport greenlet"),
    ("sim.engine", "import asyncio\nimport uvloop\nfrom locust_llm.sim import settings"),
    (
        "sim.engine",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from locust_llm.measure.record import RequestRecord",
    ),
    ("plugin.user", "import locust\nimport gevent\nfrom locust_llm.wire.sse import x\nfrom locust_llm.cli import main"),
    ("plugin.user", "import locust_llm\nfrom locust_llm import LLMUser\nfrom locust_llm.sim import serve"),
    ("plugin.user", "import locust_llm.sim"),
    ("cli.sim", "import locust, gevent, httpx, asyncio\nfrom locust_llm.sim.engine import Engine"),
    ("", "from importlib import import_module\nimport_module(home)"),
    ("", "from locust_llm.plugin.user import LLMUser as LLMUser"),
]


@pytest.mark.parametrize(("module", "source"), ALLOWED, ids=[f"{row[0]}: {row[1]}" for row in ALLOWED])
def test_an_allowed_arrow_is_let_pass(module: str, source: str) -> None:
    assert faults(f"{PACKAGE}.{module}".rstrip("."), source, KNOWN) == []


def in_a_new_interpreter(tmp_path: Path, program: str) -> str:
    """What `program` prints, with every warning an error."""
    argv = [sys.executable, "-W", "error", "-c", program]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=clean_environment(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


LOADED = """
import importlib, json, sys, threading
for name in {names!r}:
    importlib.import_module(name)
heavy = sorted({{"gevent", "locust", "httpx"}} & {{name.split(".")[0] for name in sys.modules}})
print(json.dumps([heavy, threading.active_count()]))
"""


def test_importing_the_package_starts_nothing(tmp_path: Path) -> None:
    printed = in_a_new_interpreter(tmp_path, LOADED.format(names=[PACKAGE]))
    assert json.loads(printed) == [[], 1]


@pytest.mark.parametrize("room", ["measure", "workload", "analysis", "report"])
def test_a_room_without_network_loads_no_network_library(tmp_path: Path, room: str) -> None:
    """The arrows taken together: no chain of allowed ones leads there either."""
    names = [name for name in FILES if name.startswith(f"{PACKAGE}.{room}")]
    assert json.loads(in_a_new_interpreter(tmp_path, LOADED.format(names=names))) == [[], 1]
