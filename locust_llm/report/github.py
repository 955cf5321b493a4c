"""GitHub: the gates as its workflow commands, which show as annotations of a job in Actions.

A breach is an error, what could not be judged a warning, a gate that is met nothing. See "Workflow commands for GitHub
Actions": a command is one line, `%`, CR and LF in its message are escaped, in a property also `:` and `,`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from locust_llm.analysis.judgement import GateStatus, Judgement
from locust_llm.report.gates import gate_lines, verdict_text

ACTIONS: Final = "GITHUB_ACTIONS"
"""The environment variable that is "true" in a job of Actions."""

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file of the job's summary, to append Markdown to."""

_KINDS: Final = {GateStatus.BREACHED: "error", GateStatus.UNJUDGED: "warning"}


def workflow_commands(judgement: Judgement, marks: tuple[str, ...] = ()) -> Iterator[str]:
    """One line for each gate that is not met; for a run that could not be judged at all, one that says why."""
    title = " ".join(("LLM gate", *marks))
    if judgement.reason is not None or judgement.overloaded is not None:
        yield _command(_KINDS[judgement.status], title, verdict_text(judgement))
    if judgement.reason is not None:
        return
    for line in gate_lines(judgement):
        if line.status in _KINDS:
            yield _command(_KINDS[line.status], f"{title} {line.status.value}", line.text)


def _command(kind: str, title: str, message: str) -> str:
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
