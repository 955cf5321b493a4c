"""`locust-llm rerun RUN.json`: the command line that repeats the run, without its secrets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from locust_llm.report.document import DocumentError, read_document
from locust_llm.report.files import sha256_of
from locust_llm.report.origin import origin_of
from locust_llm.report.rerun import command_line, remarks, variables


def run(arguments: Sequence[str]) -> int:
    """Print the command to the output, and what to see to first to the error output."""
    parser = argparse.ArgumentParser(prog="locust-llm rerun", description=__doc__)
    parser.add_argument("document", metavar="RUN.json", help="a run document (locust … --llm-json RUN.json)")
    given = parser.parse_args(arguments)
    try:
        content = read_document(given.document)
        if content.get("origin") is None:
            raise DocumentError(f"{given.document} does not tell its command: an older locust_llm wrote it.")
        origin = origin_of(content["origin"])
        if not origin.command:
            raise DocumentError(f"{given.document} has no command: a program used Locust as a library.")
        notes = [*variables(origin), *remarks(content, origin, sha256_of)]
    except DocumentError as error:
        sys.stderr.write(f"locust-llm rerun: {error}\n")
        return 2
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.stderr.write(f"locust-llm rerun: {given.document} is damaged: {type(error).__name__} at {error}.\n")
        return 2
    print(command_line(origin), flush=True)
    sys.stderr.writelines(f"note: {note}.\n" for note in notes)
    return 0
