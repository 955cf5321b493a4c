"""`python -m locust_llm.sim`: the embedded engine alone, in the foreground."""

from __future__ import annotations

import sys

from locust_llm.sim.options import parse
from locust_llm.sim.run import run

if __name__ == "__main__":
    sys.exit(run(*parse(sys.argv[1:], prog="python -m locust_llm.sim")))
