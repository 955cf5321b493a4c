"""`locust-llm options`: what Locust's own --help cannot show, since it prints before it loads the locustfile."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from locust_llm.plugin.options import describe


def run(arguments: Sequence[str]) -> int:
    """Print the options."""
    if arguments:
        sys.stderr.write("locust-llm options: takes no arguments.\n")
        return 2
    print(describe())
    return 0
