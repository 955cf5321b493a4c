"""`locust-llm report RUN.json`: the outputs of a finished run again, offline, from its document."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from locust_llm.report import console, csv, step_tables
from locust_llm.report.document import DocumentError, read_document, view_of
from locust_llm.report.files import trouble, write_whole
from locust_llm.report.html import html_report
from locust_llm.report.markdown import summary_markdown


def run(arguments: Sequence[str]) -> int:
    """Print the table, or write what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="locust-llm report", description=__doc__)
    parser.add_argument("document", metavar="RUN.json", help="a run document (locust … --llm-json RUN.json)")
    parser.add_argument("--html", metavar="FILE", help="write the self-contained report")
    parser.add_argument("--csv", metavar="PREFIX", help="write PREFIX_llm_stats.csv, …_history.csv, …_errors.csv")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as Markdown ('-': print it)")
    given = parser.parse_args(arguments)
    try:
        content = read_document(given.document)
        view = view_of(content)
    except DocumentError as error:
        sys.stderr.write(f"locust-llm report: {error}\n")
        return 2
    try:
        if given.html:
            write_whole(given.html, [html_report(content)])
        if given.csv:
            csv.write_files(given.csv, view)
            csv.HistoryWriter(csv.path_of(given.csv, "stats_history", view.test)).finish(view)
        if given.markdown and given.markdown != "-":
            write_whole(given.markdown, [summary_markdown(view)])
    except OSError as error:
        sys.stderr.write(f"locust-llm report: {trouble(error.filename or given.document, error)}\n")
        return 1
    if given.markdown == "-":
        print(summary_markdown(view))
    elif not (given.html or given.csv or given.markdown):
        print(console.summary_text(view))
        if view.steps:
            print("\n" + step_tables.table_text(view))
    return 0
