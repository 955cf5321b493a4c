"""JUnit: the gates as test cases, for a pipeline's test report (`--llm-junit FILE`).

One case for each gate: a breach is a `failure`, a gate that could not be judged an `error`, so that neither passes as
"skipped". Overload, which is a breach whatever the gates say, has a case of its own. What the console prints is in
`system-out`. The form is that of Ant's JUnit task, which GitLab, Jenkins and GitHub's actions read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from locust_llm.analysis.judgement import GateStatus, Judgement
from locust_llm.report.console import summary_text
from locust_llm.report.gates import gate_lines, verdict_text
from locust_llm.report.run import RunView, shown_url

SUITE: Final = "locust_llm"

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def junit_xml(view: RunView, judgement: Judgement) -> str:
    """The whole file."""
    cases = list(_cases(view, judgement))
    failures, errors = (sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error"))
    count = {"tests": str(len(cases)), "failures": str(failures), "errors": str(errors)}
    root = Element("testsuites", {"name": SUITE, **count})
    suite = SubElement(root, "testsuite", {"name": SUITE, **count, "skipped": "0", **_when(view)})
    properties = SubElement(suite, "properties")
    for name, value in _properties(view, judgement):
        SubElement(properties, "property", {"name": name, "value": _clean(value)})
    suite.extend(cases)
    SubElement(suite, "system-out").text = _clean(summary_text(view))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _cases(view: RunView, judgement: Judgement) -> Iterator[Element]:
    suite = ".".join((SUITE, *view.marks))
    for line in gate_lines(judgement):
        case = Element("testcase", {"classname": suite, "name": _clean(line.gate), "time": "0"})
        if line.status is GateStatus.BREACHED:
            _told(case, "failure", "breached", line.figure)
        elif line.status is GateStatus.UNJUDGED:
            _told(case, "error", "not judged", line.reason or verdict_text(judgement), line.figure)
        else:
            SubElement(case, "system-out").text = _clean(line.figure)
        yield case
    if judgement.overloaded is not None:
        case = Element("testcase", {"classname": suite, "name": "the service keeps up with the load", "time": "0"})
        _told(case, "failure", "overloaded", judgement.overloaded)
        yield case


def _told(case: Element, kind: str, type_: str, message: str, text: str = "") -> None:
    element = SubElement(case, kind, {"type": type_, "message": _clean(message)})
    element.text = _clean(text or message)


def _when(view: RunView) -> dict[str, str]:
    if view.started_wall_s is None:
        return {"time": "0"}
    stopped_s = view.stopped_wall_s if view.stopped_wall_s is not None else view.started_wall_s
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(view.started_wall_s))
    return {"time": f"{stopped_s - view.started_wall_s:.3f}", "timestamp": stamp}


def _properties(view: RunView, judgement: Judgement) -> Iterator[tuple[str, str]]:
    yield "run", view.run
    yield "target", shown_url(view.target)
    yield "model", ", ".join(view.models)
    yield "marks", " ".join(view.marks)
    yield "verdict", verdict_text(judgement)
    yield "exit code", str(judgement.exit_code)
    for finding in view.findings:
        yield f"{finding.severity.value}: {finding.key}", finding.sentence


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
