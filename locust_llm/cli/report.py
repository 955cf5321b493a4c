"""`locust-llm report RUN.json`: the outputs of a finished run again, offline, from its document."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from locust_llm.report import console, csv, step_tables
from locust_llm.report.dialect_table import dialect_text
from locust_llm.report.dialects import DIALECTS
from locust_llm.report.document import DocumentError, read_document, view_of
from locust_llm.report.files import trouble, write_whole
from locust_llm.report.html import html_report
from locust_llm.report.markdown import summary_markdown
from locust_llm.report.records import RecordsError, read_records
from locust_llm.report.run import RunView


def run(arguments: Sequence[str]) -> int:
    """Print the table, or write what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="locust-llm report", description=__doc__)
    parser.add_argument("document", metavar="RUN.json", help="a run document (locust … --llm-json RUN.json)")
    parser.add_argument("--html", metavar="FILE", help="write the self-contained report")
    parser.add_argument("--csv", metavar="PREFIX", help="write PREFIX_llm_stats.csv, …_history.csv, …_errors.csv")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as Markdown ('-': print it)")
    parser.add_argument(
        "--dialect", choices=sorted(DIALECTS), help="print the requests of --records by another tool's definitions"
    )
    parser.add_argument(
        "--records", metavar="FILE", nargs="+", help="for --dialect: what --llm-records wrote, of all workers"
    )
    given = parser.parse_args(arguments)
    if bool(given.dialect) != bool(given.records):
        parser.error("--dialect and --records belong together: give both")
    try:
        content = read_document(given.document)
        view = view_of(content)
    except DocumentError as error:
        sys.stderr.write(f"locust-llm report: {error}\n")
        return 2
    if given.dialect:
        return _dialect(view, given.dialect, given.records)
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


def _dialect(view: RunView, name: str, paths: Sequence[str]) -> int:
    """Print the requests in another tool's words; returns the exit code."""

    def note(sentence: str) -> None:
        sys.stderr.write(f"locust-llm report: {sentence}\n")

    try:
        records = [record for path in paths for record in read_records(path, note)]
    except RecordsError as error:
        note(str(error))
        return 2
    if view.marks:
        print(" · ".join(view.marks))
    print(dialect_text(DIALECTS[name], records, view.stats.min_tokens))
    return 0
