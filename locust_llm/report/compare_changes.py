"""Changes: what was set up differently on two sides of a comparison, so that a difference can be put down to something.

Only what may change the figures counts: not where outputs went, nor what was gated. What an older document does not
tell is unknown, and no change unless the other side has set it. A side whose own runs differ is told, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

UNTOLD: Final = "–"

_SILENT: Final = frozenset(
    "llm_json llm_html llm_records llm_junit llm_markdown llm_log llm_note llm_gate llm_strict llm_sim"
    " llm_model llm_api_key_env".split()
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
    """`between`: what differs between the sides. `within`: variables whose value differs among a side's own runs."""

    between: tuple[Change, ...]
    within: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Whether a difference can be put down to one variable."""
        if not self.between:
            return "nothing changed in the configuration"
        if len(self.between) == 1:
            return f"one variable changed: {self.between[0].variable}"
        return f"{len(self.between)} variables changed: not attributable"


def changes(base: Sequence[Mapping[str, Any]], run: Sequence[Mapping[str, Any]]) -> Changes:
    """What differs in the set-ups that the documents of two sides tell."""
    sides = [[facts(content) for content in side] for side in (base, run)]
    variables = dict.fromkeys(variable for side in sides for told in side for variable in told)
    between, within = [], []
    for variable in variables:
        base_values, run_values = ([told.get(variable) for told in side] for side in sides)
        if len(set(base_values)) > 1 or len(set(run_values)) > 1:
            within.append(variable)
        if set(base_values) != set(run_values):
            between.append(Change(variable, _values(base_values), _values(run_values)))
    return Changes(tuple(between), tuple(within))


def facts(content: Mapping[str, Any]) -> dict[str, str]:
    """The variables of one run that are set, as text."""
    return {variable: text for variable, value in _facts(content) if (text := _text(value))}


def _facts(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    configuration = _part(content, "configuration")
    options = _part(configuration, "options")
    yield "model", configuration.get("models") or options.get("llm_model")
    engine = list(configuration.get("engine_command") or ())
    target = str(configuration.get("target") or "")
    # the embedded engine takes any free port
    yield "target", _LOOPBACK_PORT.sub(r"\1", target) if engine else target
    yield from _flags(engine)
    yield from ((_flag(name), value) for name, value in sorted(options.items()) if name not in _SILENT)
    yield from ((_flag(name), value) for name, value in sorted(_part(configuration, "locust").items()))
    yield from ((f"version of {name}", value) for name, value in sorted(_part(content, "versions").items()))
    yield "machine", ", ".join(f"{name} {value}" for name, value in sorted(_part(content, "machine").items()))
    yield "simulated", _part(content, "run").get("simulated")
    yield "definitions", _part(content, "definitions").get("version")
    yield "clock of the stamps", content.get("clock")


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
