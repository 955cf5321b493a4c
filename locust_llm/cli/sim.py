"""`locust-llm sim`: the embedded engine alone."""

from __future__ import annotations

from collections.abc import Sequence

from locust_llm.sim.options import parse
from locust_llm.sim.run import run as serve


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    return serve(*parse(arguments, prog="locust-llm sim"))
