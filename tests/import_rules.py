"""Who may import whom: the rooms' arrows, read from the syntax tree of a module.

Theory of operation. Every import statement, wherever it stands in the file, and every call of `import_module` or
`__import__` with a written-out name is an arrow to a full module name. An arrow within a room is free; one to another
room must stand in `ROOMS`, one to a guarded library must come from a place in `LIBRARIES`. An import for type
checking alone is an arrow too, because it makes a reader follow it, but any room may name measure's types in its
annotations.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PACKAGE = "locust_llm"
EVERYTHING = frozenset({"measure", "workload", "analysis", "report", "wire", "sim", "plugin", "cli"})
# The package's own __init__ is the room "": it may name what it hands out.
ROOMS: dict[str, frozenset[str]] = {
    "": frozenset({"measure", "plugin"}),
    "measure": frozenset(),
    "workload": frozenset({"measure"}),
    "analysis": frozenset({"measure"}),
    "report": frozenset({"measure", "analysis"}),
    "wire": frozenset({"measure"}),
    "sim": frozenset(),
    "plugin": EVERYTHING,
    "cli": EVERYTHING,
}
# Rooms that stand alone may not even ask the package for its version.
ALONE = frozenset({"measure", "sim"})
# Guarded library → the rooms or modules that may import it. The command line may import anything.
LIBRARIES: dict[str, frozenset[str]] = {
    "locust": frozenset({"plugin"}),
    "gevent": frozenset({"plugin", "wire.transport", "wire.collector", "wire.connect"}),
    "greenlet": frozenset({"plugin", "wire.transport", "wire.collector", "wire.connect"}),
    "httpx": frozenset({"wire.transport", "wire.client"}),
    "httpcore": frozenset({"wire.transport", "wire.client"}),
    "asyncio": frozenset({"sim"}),
    "uvloop": frozenset({"sim"}),
    "torch": frozenset(),
    "transformers": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Arrow:
    """An import: the full name it asks for ("" where that cannot be read), its line, whether for types alone."""

    target: str
    line: int
    for_types: bool = False


def faults(module: str, source: str, modules: Collection[str]) -> list[str]:
    """What the rules forbid in a module of that full name, a sentence each; `modules` are all of the package's."""
    room, place = _room_of(module), module.removeprefix(f"{PACKAGE}.")
    if room not in ROOMS:
        return [f"{module}: {room!r} is no room"]
    if room == "cli":
        return []
    arrows = _arrows(module, source, modules)
    found = ((arrow.line, _fault(room, place, arrow, modules)) for arrow in arrows)
    return [f"{module}:{line}: {fault}" for line, fault in found if fault is not None]


def _room_of(name: str) -> str:
    """The room of a full module name; "" for the package itself."""
    _, *inner = name.split(".")
    return inner[0] if inner else ""


def _fault(room: str, place: str, arrow: Arrow, modules: Collection[str]) -> str | None:
    if arrow.target == "":
        return None if room in ("", "plugin") else "imports a name that cannot be read here"
    library = arrow.target.split(".")[0]
    if library != PACKAGE:
        allowed = LIBRARIES.get(library)
        return None if allowed is None or {room, place} & allowed else f"{room} may not import {library}"
    asked = _room_of(arrow.target)
    if asked in EVERYTHING:
        if asked == room or (arrow.for_types and asked == "measure"):
            return None
        if room == "plugin" and any(_lies_in(arrow.target, m) for m in modules if m.startswith(f"{PACKAGE}.sim.")):
            return f"plugin may not import the insides of sim ({arrow.target})"
        return None if asked in ROOMS[room] else f"{room} may not import {asked} ({arrow.target})"
    if asked == "__version__" and room not in ALONE:
        return None
    return None if ROOMS[room] == EVERYTHING else f"{room} may not import {arrow.target}"


def _lies_in(target: str, module: str) -> bool:
    return target == module or target.startswith(f"{module}.")


def _arrows(module: str, source: str, modules: Collection[str]) -> Iterator[Arrow]:
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr))
    for node in nodes:
        for target in _targets(module, node, modules):
            yield Arrow(target, node.lineno, id(node) in for_types)


def _targets(module: str, node: ast.AST, modules: Collection[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = _absolute(module, node, modules)
        return [f"{origin}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if called in ("import_module", "__import__"):
            name = node.args[0] if node.args else None
            return [name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""]
    return []


def _absolute(module: str, node: ast.ImportFrom, modules: Collection[str]) -> str:
    """The full name of what a `from` statement imports from."""
    if node.level == 0:
        return node.module or ""
    is_package = any(other.startswith(f"{module}.") for other in modules)
    parts = module.split(".") if is_package else module.split(".")[:-1]
    origin = parts[: len(parts) - node.level + 1]
    return ".".join([*origin, *([node.module] if node.module else [])])
