"""Rerun: the shell command that repeats a run, without secrets, and what has to be seen to first."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from locust_llm.report.origin import InputFile, Origin
from locust_llm.report.run import MASK

_OUTPUTS: Final = ("--llm-json", "--llm-html", "--llm-records", "--llm-junit", "--llm-markdown", "--csv", "--html")
_NO_HASH: Final = "(it could not be read then either)"


def command_line(origin: Origin) -> str:
    """One command for a POSIX shell; a secret is the variable that `variables` names."""
    words, flag = ["locust"], ""
    for word in origin.command:
        if word.startswith("--"):
            flag = word.partition("=")[0]
        words.append(_quoted(word, flag))
    return " ".join(words)


def variables(origin: Origin) -> list[str]:
    """The variables that the command needs, each with what to put there."""
    found, flag = [], ""
    for word in origin.command:
        if word.startswith("--"):
            flag = word.partition("=")[0]
        if MASK in word:
            found.append(f"set {_variable(word, flag)}: the secret given to {flag}, which no document holds")
    if re.fullmatch(r"[A-Z_][A-Z0-9_]*", origin.key):
        found.append(f"set {origin.key}: the API key, which no document holds")
    return found


def _variable(word: str, flag: str) -> str:
    """`Name: ***` is $NAME; the secret of an option is named like that."""
    name = word.partition(":")[0] if flag.endswith("header") else flag
    return re.sub(r"\W+", "_", name).strip("_").upper()


def _quoted(word: str, flag: str) -> str:
    if MASK not in word:
        return shlex.quote(word)
    safe = re.sub(r'(["\\$`])', r"\\\1", word)
    return f'"{safe.replace(MASK, "${" + _variable(word, flag) + "}")}"'


def remarks(content: Mapping[str, Any], origin: Origin, sha256_of: Callable[[str], str | None]) -> Iterator[str]:
    """What makes the next run another one: files that changed, prompts without a seed, files written over.

    `sha256_of(path)` is the hash of a file as it is now, None when it cannot be read.
    """
    yield from (said for file in origin.files if (said := _changed(file, sha256_of(file.path))))
    options = content["configuration"]["options"]
    fixed = options.get("llm_prompt_file") or options.get("llm_dataset") or options.get("llm_trace")
    if options.get("llm_seed") is None and not fixed:
        yield "it had no --llm-seed, so the prompts will be others of the same lengths"
    if "--master" in origin.command:
        workers = len([lag for lag in content["lag"] if lag["process"] != "master"])
        yield f"it had {workers} workers of their own: start as many with `locust --worker`, each with its locustfile"
    written = [flag for flag in _OUTPUTS if flag in origin.command]
    if written:
        yield f"it writes the files of {', '.join(written)} again: name others to keep those"


def _changed(file: InputFile, now: str | None) -> str | None:
    if now is None:
        tail = "" if file.sha256 is not None else f" {_NO_HASH}"
        return f"{file.path} ({file.option}) is not here: go where it is{tail}"
    if file.sha256 is not None and now != file.sha256:
        return f"{file.path} ({file.option}) has changed since"
    return None
