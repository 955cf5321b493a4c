"""What a run leaves behind: CSV, JSON, HTML and records files, and the console's table.

Local or master write the files, at the end of each test when all has been drained and merged (Locust's `test_stop`),
so that they hold everything whatever ended it; the history grows live as well. Each process that sends requests writes
its own records file. The table is printed after Locust's own (its `quit` event); in headless runs a line comes every
few seconds unless `--only-summary` is given. Later tests of one session get numbered files.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from locust_llm.analysis.step import StepResult
from locust_llm.plugin import locust_csv
from locust_llm.plugin.session import Session
from locust_llm.plugin.view import view_of
from locust_llm.report import console, csv, step_tables
from locust_llm.report.compare_sides import sides_text
from locust_llm.report.document import document, write_document
from locust_llm.report.files import append, numbered, trouble, write_whole
from locust_llm.report.github import ACTIONS, STEP_SUMMARY, workflow_commands
from locust_llm.report.junit import junit_xml
from locust_llm.report.markdown import summary_markdown
from locust_llm.report.records import RecordWriter, records_path
from locust_llm.report.run import RunView
from locust_llm.wire.target import ConfigurationError

logger = logging.getLogger(__name__)
table = logging.getLogger("locust.stats_logger")
"""Where Locust prints its tables: they go out without a time and a level."""


class Outputs:
    """The outputs of one process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment
        self._history: csv.HistoryWriter | None = None
        self._records: RecordWriter | None = None
        self._said_s = 0.0
        self._open = False

    def install(self) -> None:
        """Add the listeners."""
        events = self.environment.events
        self.session.listener.on_ended.append(self._keep_record)
        self.session.listener.on_tick.append(self._tick)
        self.session.on_step.append(self._on_step)
        events.test_stop.add_listener(self._on_test_stop)
        if not self.session.is_worker:
            events.quit.add_listener(self._on_quit)

    def check(self) -> None:
        """Raise ConfigurationError when a file could not be written, before any load is sent."""
        settings = self.session.settings
        for flag, path in (
            ("--llm-json", settings.json),
            ("--llm-html", settings.html),
            ("--llm-records", settings.records),
            ("--llm-log", settings.log),
            ("--llm-junit", settings.junit),
            ("--llm-markdown", settings.markdown),
        ):
            folder = os.path.dirname(path) or "."
            if path and os.path.isdir(path):
                raise ConfigurationError(f"{flag} {path} is a folder: name a file")
            if path and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
                raise ConfigurationError(f"{flag} {path}: the folder {folder} is not there or not writable")

    def begin(self) -> None:
        """A test starts in this process."""
        session = self.session
        self._open = True
        self._said_s = time.monotonic()
        prefix = self._csv_prefix
        self._history = csv.HistoryWriter(csv.path_of(prefix, "stats_history", session.test)) if prefix else None
        self._records = None
        if session.settings.records and not session.is_master:
            worker = f"worker{self.environment.runner.worker_index}" if session.is_worker else None
            self._records = RecordWriter(
                records_path(session.settings.records, worker, session.test),
                run=session.run,
                process=worker if worker is not None else "local",
                simulated=session.simulated,
            )

    @property
    def _csv_prefix(self) -> str:
        options = self.environment.parsed_options
        prefix = getattr(options, "csv_prefix", None)
        return str(prefix) if prefix and not self.session.is_worker else ""

    def _keep_record(self, record: Any, user: int) -> None:
        if self._records is not None:
            self._records.add(record)

    def _tick(self) -> None:
        """Once a second."""
        if self._records is not None:
            self._records.flush()
        if self.environment.runner is None or self.environment.runner.state not in ("spawning", "running"):
            return
        if self._history is not None:
            self._history.append(view_of(self.session))
        if self._prints_live and time.monotonic() - self._said_s >= console.LIVE_S:
            self._said_s = time.monotonic()
            table.info(console.live_line(view_of(self.session)))

    @property
    def _prints_live(self) -> bool:
        options = self.environment.parsed_options
        return (
            options is not None
            and not self.session.is_worker
            and not options.only_summary
            and bool(options.headless or options.print_stats)
        )

    def _on_step(self, step: StepResult) -> None:
        """A step of a sweep or search has ended."""
        if self.session.steps is not None and len(self.session.steps.results) == 1:
            for head in step_tables.table_head([step]):
                table.info(head)
        table.info(step_tables.table_line(step))

    def _on_test_stop(self, environment: Any, **_: Any) -> None:
        if not self._open:  # ended before it began, or asked to end twice: the last test's files stay
            return
        self._open = False
        self.session.listener.finish()
        self.session.scraper.end()
        if self.session.steps is not None:
            self.session.steps.finish()
        self.session.over = True
        if self._records is not None:
            self._records.close()
            self._records = None
        if not self.session.is_worker:
            findings = view_of(self.session).findings
            self.session.gates.judge(findings)
            self.session.sides.judge(findings)
            self._write_all()

    def _write_all(self) -> None:
        """Write every file that is asked for; one that fails says so and keeps none of the others."""
        settings, prefix, test = self.session.settings, self._csv_prefix, self.session.test
        view = view_of(self.session)
        history = self._history
        if prefix:
            self._write(prefix, lambda: csv.write_files(prefix, view))
            if view.steps:
                path = csv.path_of(prefix, "steps", test)
                self._write(path, lambda: write_whole(path, step_tables.csv_lines(view)))
        if settings.log and view.steps:
            self._write(settings.log, lambda: step_tables.append_log(settings.log, view))
        if history is not None:
            self._write(history.path, lambda: history.finish(view))
        self._write_gates(view)
        if settings.json or settings.html:
            content = document(view)
            if settings.json:
                self._write(
                    numbered(settings.json, test), lambda: write_document(numbered(settings.json, test), content)
                )
            if settings.html:
                from locust_llm.report.html import html_report  # carries the page's bundle: load it when asked for

                self._write(
                    numbered(settings.html, test),
                    lambda: write_whole(numbered(settings.html, test), [html_report(content)]),
                )

    def _write_gates(self, view: RunView) -> None:
        """What pipelines read: JUnit, Markdown, and the summary of a GitHub job."""
        settings, judgement = self.session.settings, view.judgement
        if settings.junit and judgement is not None:
            path = numbered(settings.junit, view.test)
            self._write(path, lambda: write_whole(path, [junit_xml(view, judgement)]))
        if settings.markdown:
            markdown_path = numbered(settings.markdown, view.test)
            self._write(markdown_path, lambda: write_whole(markdown_path, [summary_markdown(view)]))
        summary = os.environ.get(STEP_SUMMARY)
        if summary and (settings.markdown or judgement is not None):
            self._write(summary, lambda: append(summary, summary_markdown(view)))

    def _write(self, path: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            logger.error("%s", trouble(path, error))

    def _on_quit(self, exit_code: int, **_: Any) -> None:
        if self.session.run:
            prefix = self._csv_prefix
            if prefix:
                self._write(prefix, lambda: locust_csv.rewrite(self.environment, prefix))
            view = view_of(self.session)
            if view.judgement is not None and os.environ.get(ACTIONS) == "true":
                sys.stdout.writelines(f"{line}\n" for line in workflow_commands(view.judgement, view.marks))
                sys.stdout.flush()
            table.info(console.summary_text(view))
            if view.sides is not None:
                table.info("\n%s", sides_text(view.sides))
            if view.steps:
                table.info("")
                table.info(step_tables.table_text(view))
            table.info("")
