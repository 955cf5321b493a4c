"""`locust-llm verify RUN.json --records F [F …]`: does the document say what the records of its requests say?"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from locust_llm.measure.record import RequestRecord
from locust_llm.report.document import DocumentError, read_document
from locust_llm.report.records import RecordsError, read_records
from locust_llm.report.verify import RATE, RATES, Compared, Unverifiable, Value, verify

_ROW = "{name:<{width}}  {metric:<34} {told:>14} {found:>14} {difference:>12}  {ok}"


def run(arguments: Sequence[str]) -> int:
    """Compare and print; 0 when all agrees, 1 when something differs, 2 when there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="locust-llm verify", description=__doc__)
    parser.add_argument("document", metavar="RUN.json", help="a run document (locust … --llm-json RUN.json)")
    parser.add_argument(
        "--records",
        metavar="FILE",
        nargs="+",
        required=True,
        help="the records of the same run (--llm-records), of every worker: FILE.worker*.jsonl",
    )
    given = parser.parse_args(arguments)
    try:
        content = read_document(given.document)
        records, processes = _read_all(given.records, content["run"]["id"])
        if not records:
            raise RecordsError(f"{', '.join(given.records)}: no request is in there, so there is nothing to compare.")
        compared = verify(content, records, processes=processes)
    except (DocumentError, RecordsError, Unverifiable) as error:
        sys.stderr.write(f"locust-llm verify: {error}\n")
        return 2
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.stderr.write(f"locust-llm verify: {given.document} is damaged: {type(error).__name__} at {error}.\n")
        return 2
    return _print(compared, content, len(records), processes)


def _read_all(paths: Sequence[str], run_id: str) -> tuple[list[RequestRecord], int]:
    """All requests of all files, and how many processes wrote them; raises RecordsError."""
    records: list[RequestRecord] = []
    seen: dict[str, str] = {}
    for path in paths:
        name = os.path.basename(path)

        def check(told: dict[str, Any], name: str = name) -> None:
            if told.get("run") != run_id:
                raise RecordsError(
                    f"{name} holds the records of run {told.get('run')!r}, the document is of run {run_id!r}: give the"
                    " files that were written beside it."
                )
            process = str(told.get("process"))
            if process in seen:
                raise RecordsError(f"{name} and {seen[process]} both hold the records of {process}: give each once.")
            seen[process] = name

        records += read_records(path, note=lambda text: print(f"note: {text}"), header=check)
    return records, len(seen)


def _print(compared: Sequence[Compared], content: dict[str, Any], records: int, processes: int) -> int:
    """The table: what differs of any name, and all that there is of all requests together."""
    wrong = [each for each in compared if not each.ok]
    plain = {(each.name, each.metric): each.told for each in compared}
    shown = [each for each in compared if not each.ok or (each.name is None and _tells(each, plain))]
    width = max([len(_label(each)) for each in shown] + [4])
    print(
        _ROW.format(
            width=width, name="name", metric="metric", told="document", found="recomputed", difference="diff", ok="ok"
        )
    )
    for each in shown:
        print(
            _ROW.format(
                width=width,
                name=_label(each),
                metric=each.metric,
                told=_cell(each.told),
                found=_cell(each.found),
                difference=_cell(each.difference),
                ok="ok" if each.ok else "DIFFERS",
            )
        )
    rate = RATE if processes <= 1 else RATES
    print(
        f"\n{len(compared)} figures from {records} records of {processes} process{'es' * (processes != 1)}. Allowed:"
        f" counts 0, percentiles 0.1 %, times 1 us, rates {rate:.1%}."
    )
    if not wrong:
        print("All agree." + _of_names(compared))
        return 0
    ended = sum(_number(content, key) for key in ("succeeded", "failed", "cancelled"))
    if ended != records:
        print(f"The document counts {ended} requests that ended, the records {records}: is a file missing?")
    if content["run"]["incomplete"]:
        print("The document is marked INCOMPLETE: it lacks what lost workers did not report.")
    print(f"{len(wrong)} differ.")
    return 1


def _of_names(compared: Sequence[Compared]) -> str:
    names = len({each.name for each in compared if each.name is not None})
    return f" Those of the {names} single names do too and are not shown." if names > 1 else ""


def _number(content: dict[str, Any], key: str) -> int:
    (every,) = (each for each in content["names"] if each["name"] is None)
    return int(every["counts"].get(key, 0))


def _tells(each: Compared, plain: Mapping[tuple[str | None, str], Value]) -> bool:
    """Whether there is anything to see; a percentile with failures only where these change it."""
    without = each.metric.removesuffix(" with failures")
    repeats = without != each.metric and plain.get((each.name, without)) == each.told
    return (each.told, each.found) not in ((None, None), (0, 0)) and not repeats


def _label(each: Compared) -> str:
    return "(all)" if each.name is None else each.name


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
