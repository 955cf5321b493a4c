"""The `locust-llm` command: one file per subcommand, each with `run(arguments) -> exit code`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "sim": "run the embedded engine alone: a simulated server with an OpenAI-compatible API",
    "doctor": "check an endpoint stage by stage: what fails, why, and what to do",
    "calibrate": "how true this machine's figures are, and up to how many streams; or what a path to a server is like",
    "report": "print or write the outputs of a finished run from its document",
    "compare": "compare runs with others, from their documents: better, worse, or no difference shown",
    "rerun": "print the command line that repeats a finished run",
    "verify": "compute a run document's figures again from its records, and compare",
    "options": "list the options that locust_llm adds to `locust`",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        from locust_llm import __version__

        print(f"locust-llm {__version__}")
        return 0
    if not given or given[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if given[0] not in COMMANDS:
        sys.stderr.write(f"locust-llm: no command {given[0]!r}; there are: {', '.join(COMMANDS)}.\n")
        return 2
    try:
        exit_code: int = import_module(f"locust_llm.cli.{given[0]}").run(given[1:])
    except BrokenPipeError:  # the reader, such as `head`, has what it wanted
        sys.stdout = None
        return 141
    return exit_code


def _usage() -> str:
    lines = ["usage: locust-llm COMMAND [options]", ""]
    lines += [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    lines += ["", "`locust-llm COMMAND --help` tells more. Load tests themselves are run by `locust -f FILE`."]
    return "\n".join(lines)
