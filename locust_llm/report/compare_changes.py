"""Changes: what was set up differently on two sides of a comparison, so that a difference can be put down to something.

Only what may change the figures counts: not where outputs went, nor what was gated. Whole parts that an older document
does not have are left out and named. A side whose own runs differ is told, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

UNTOLD: Final = "–"

_SILENT: Final = frozenset(
    "llm_json llm_html llm_records llm_junit llm_markdown llm_log llm_note llm_gate llm_strict llm_sim"
    " llm_model llm_api_key_env llm_price_in llm_price_out llm_price_cached".split()
)
"""Options that do not change the figures, or that are told by another entry (the engine's command, the model)."""

_FREE_FLAGS: Final = ("--port", "--end-with-stdin")
_LOOPBACK_PORT: Final = re.compile(r"(//(?:127\.0\.0\.1|localhost|\[::1\])):\d+")


@dataclass(frozen=True, slots=True)
class Change:
    """One variable and its value on each side, as text; several where the runs of a side differ."""

    variable: str
    base: str
    run: str


@dataclass(frozen=True, slots=True)
class Changes:
    """`between`: what differs between the sides. `within`: variables whose value differs among a side's own runs.

    `untold`: parts that some document (of an older version) does not have, so that nobody knows whether they differ.
    """

    between: tuple[Change, ...]
    within: tuple[str, ...]
    untold: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Whether a difference can be put down to one variable."""
        if not self.between:
            return f"nothing changed in {'what all documents tell' if self.untold else 'the configuration'}"
        if len(self.between) == 1:
            return f"one variable changed: {self.between[0].variable}"
        return f"{len(self.between)} variables changed: not attributable"


def changes(
    base: Sequence[Mapping[str, Any]], run: Sequence[Mapping[str, Any]], defaults: Mapping[str, Any] | None = None
) -> Changes:
    """What differs in the set-ups that the documents of two sides tell.

    `defaults`: what our options are where a document, older than they, does not tell them.
    """
    documents = (*base, *run)
    untold = [part for part in _PARTS if any(not content.get(part) for content in documents)]
    sides = [[facts(content, defaults, untold) for content in side] for side in (base, run)]
    variables = dict.fromkeys(variable for side in sides for told in side for variable in told)
    between, within = [], []
    for variable in variables:
        base_values, run_values = ([told.get(variable) for told in side] for side in sides)
        if len(set(base_values)) > 1 or len(set(run_values)) > 1:
            within.append(variable)
        if set(base_values) != set(run_values):
            between.append(Change(variable, _values(base_values), _values(run_values)))
    return Changes(tuple(between), tuple(within), tuple(untold))


def facts(
    content: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, untold: Collection[str] = ()
) -> dict[str, str]:
    """The variables of one run that are set, as text, without those of the parts `untold`."""
    found = {}
    for part, tell in _PARTS.items():
        if part not in untold:
            told = content.get(part)
            if part == "configuration" and isinstance(told, Mapping):
                told = {**told, "options": {**(defaults or {}), **_part(told, "options")}}
            found.update({variable: text for variable, value in tell(told) if (text := _text(value))})
    return found


Facts = Iterator[tuple[str, Any]]


def _configuration(told: Any) -> Facts:
    options, workload = _part(told, "options"), _part(told, "workload")
    yield "model", told.get("models") or options.get("llm_model")
    engine = list(told.get("engine_command") or ())
    target = str(told.get("target") or "")
    # the embedded engine takes any free port
    yield "target", _LOOPBACK_PORT.sub(r"\1", target) if engine else target
    yield from _flags(engine)
    yield from ((_flag(name), value) for name, value in sorted(options.items()) if name not in _SILENT)
    yield from ((_flag(name), value) for name, value in sorted(_part(told, "locust").items()))
    yield "contents of the data set", _part(workload, "dataset").get("sha256")


def _origin(told: Any) -> Facts:
    yield "user classes", told.get("user_classes")
    files = [file for file in told.get("files") or () if isinstance(file, Mapping)]
    for option in dict.fromkeys(str(file.get("option")) for file in files):
        hashes = sorted(str(file.get("sha256"))[:12] for file in files if file.get("option") == option)
        yield f"contents of {option}", hashes


_PARTS: Final[dict[str, Callable[[Any], Facts]]] = {
    "configuration": _configuration,
    "origin": _origin,
    "versions": lambda told: ((f"version of {name}", value) for name, value in sorted(told.items())),
    "machine": lambda told: iter([("machine", ", ".join(f"{name} {value}" for name, value in sorted(told.items())))]),
    "run": lambda told: iter([("simulated", told.get("simulated"))]),
    "definitions": lambda told: iter([("definitions", told.get("version"))]),
    "clock": lambda told: iter([("clock of the stamps", told)]),
}
"""Parts of a document → the variables that they tell."""


def _part(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = content.get(key)
    return part if isinstance(part, Mapping) else {}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flags(command: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The embedded engine's options, one by one; flags that are given more than once together."""
    found: dict[str, list[str]] = {}
    flag = None
    for word in command:
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            found.setdefault(flag, []).append(value)
        elif flag is not None:
            found[flag][-1] = f"{found[flag][-1]} {word}".strip()
    for flag, values in found.items():
        if flag not in _FREE_FLAGS:
            yield f"engine {flag}", ", ".join(value or "yes" for value in values)


def _text(value: Any) -> str:
    """A value as text; empty for what is not set."""
    if value is None or value is False or value == "":
        return ""
    if value is True:
        return "yes"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return json.dumps(value, sort_keys=True, default=str)
    return ", ".join(map(_text, value)) if isinstance(value, Iterable) else str(value)


def _values(values: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(value if value is not None else UNTOLD for value in values))
