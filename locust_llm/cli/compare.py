"""`locust-llm compare BASE.json… -- RUN.json…`: whether runs are better or worse than others, from their documents."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Final

from locust_llm.analysis.compare import Rules, Verdict
from locust_llm.analysis.compare_subject import Subject, parse_subject
from locust_llm.measure.expression import parse_share
from locust_llm.plugin.options import OPTIONS
from locust_llm.report.compare import Compared, compare_files
from locust_llm.report.compare_html import comparison_html
from locust_llm.report.compare_json import comparison_dict
from locust_llm.report.compare_markdown import comparison_markdown
from locust_llm.report.compare_text import comparison_text
from locust_llm.report.document import DocumentError
from locust_llm.report.files import trouble, write_whole

WORSE_CODE: Final = 1
MISTAKE_CODE: Final = 2
UNKNOWN_CODE: Final = 3

_CODES: Final = {Verdict.WORSE: WORSE_CODE, Verdict.UNKNOWN: UNKNOWN_CODE}
_FAIL_ON: Final = {"worse": Verdict.WORSE, "cannot-say": Verdict.UNKNOWN}

_EPILOG: Final = """\
Worse or better is said when it is known how runs of the same set-up differ: from three runs a side made in turns (base,
run, base, run …), or from a stored baseline of three runs or more. Two documents alone need no `--`.
Exit code: 0; with --fail-on 1 for worse, 3 for cannot say; 2 for a mistake or a file that cannot be read."""


def run(arguments: Sequence[str]) -> int:
    """Print the comparison and write what is asked for; returns the exit code."""
    parser = _parser()
    given = _given(parser, arguments)
    try:
        rules = Rules(min_effect=given.min_effect, stored=given.baseline_spread)
        defaults = {option.dest: option.default for option in OPTIONS}
        compared = compare_files(given.base, given.run, given.metric, rules, defaults)
    except DocumentError as error:
        sys.stderr.write(f"locust-llm compare: {error}\n")
        return MISTAKE_CODE
    if "-" not in (given.json, given.markdown, given.html):
        print(comparison_text(compared))
    for file, text in ((given.json, _json), (given.markdown, comparison_markdown), (given.html, comparison_html)):
        try:
            _write(file, text, compared)
        except OSError as error:
            sys.stderr.write(f"locust-llm compare: {trouble(file, error)}.\n")
            return MISTAKE_CODE
    verdict = compared.comparison.verdict
    return _CODES[verdict] if verdict in [_FAIL_ON[each] for each in given.fail_on or ()] else 0


def _given(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The options, and the documents as `base` and `run`. Options may stand on both sides of the `--`."""
    if "--" in arguments:
        border = list(arguments).index("--")
        if "--" in arguments[border + 1 :]:
            parser.error("-- stands there twice: it parts the documents of the base from those of the run")
        given = parser.parse_intermixed_args(arguments[:border])
        base, given.documents = given.documents, None
        parser.parse_intermixed_args(arguments[border + 1 :], given)
        given.base, given.run = base, given.documents
    else:
        given = parser.parse_intermixed_args(arguments)
        if len(given.documents) != 2:
            parser.error(
                f"{len(given.documents)} documents: write -- between those of the base and those of the run"
                if len(given.documents) > 2
                else "two documents are needed: BASE.json RUN.json"
            )
        given.base, given.run = given.documents[:1], given.documents[1:]
    for side, files in (("base", given.base), ("run", given.run)):
        if not files:
            parser.error(f"no document of the {side}: locust-llm compare BASE.json … -- RUN.json …")
    return given


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="locust-llm compare",
        usage="locust-llm compare [options] BASE.json [BASE.json …] -- RUN.json [RUN.json …]",
        description="Compare runs with others, from their documents (locust … --llm-json RUN.json).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("documents", metavar="BASE.json -- RUN.json", nargs="*", help="run documents of both sides")
    parser.add_argument(
        "--metric",
        action="append",
        type=_subject,
        metavar="METRIC",
        help="a figure to judge, such as ttft:p95, chat/e2e:p99, errors, output_throughput, goodput%%; repeatable"
        " (default: those of the documents' gates, else ttft:p50, ttft:p95, tpot:p50, output_throughput, errors)",
    )
    parser.add_argument(
        "--min-effect",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="the least change that counts (default: 5%%); of shares such as errors at least half a point, too",
    )
    parser.add_argument(
        "--baseline-spread",
        action="store_true",
        help="the base is a stored baseline, three runs or more made at different times: judge by their spread",
    )
    parser.add_argument(
        "--fail-on", action="append", choices=sorted(_FAIL_ON), help="what gives an exit code; repeatable"
    )
    parser.add_argument("--json", metavar="FILE", help="write the comparison as JSON ('-': print it instead)")
    parser.add_argument("--markdown", metavar="FILE", help="write it as Markdown ('-': print it instead)")
    parser.add_argument(
        "--html", metavar="FILE", help="write a self-contained page with charts ('-': print it instead)"
    )
    return parser


def _subject(text: str) -> Subject:
    try:
        return parse_subject(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _share(text: str) -> float:
    try:
        return parse_share(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _write(file: str | None, text: Callable[[Compared], str], compared: Compared) -> None:
    """Raises OSError."""
    if file == "-":
        print(text(compared), end="")
    elif file:
        write_whole(file, [text(compared)])


def _json(compared: Compared) -> str:
    return json.dumps(comparison_dict(compared), allow_nan=False, ensure_ascii=False, indent=1) + "\n"
