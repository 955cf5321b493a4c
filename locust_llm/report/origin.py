"""Origin: what a run was started with, so that it can be repeated, and what it read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that the run read: the option that named it, its path as given, its SHA-256 (None: not readable)."""

    option: str
    path: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Origin:
    """`command` are the words after `locust`, with *** for secrets; empty when a program used Locust as a library.

    `key` is where the key came from: the name of a variable, of a header, or `none`. `path_ms` has the durations of
    opening the first connection (dns, tcp, tls), of which tcp is a round trip; empty when nothing was sent.
    """

    command: tuple[str, ...] = ()
    user_classes: tuple[str, ...] = ()
    files: tuple[InputFile, ...] = ()
    key: str = "none"
    note: str = ""
    path_ms: Mapping[str, float] = field(default_factory=dict)


def origin_dict(origin: Origin) -> dict[str, Any]:
    """As plain values."""
    return {
        "command": list(origin.command),
        "user_classes": list(origin.user_classes),
        "files": [{"option": f.option, "path": f.path, "sha256": f.sha256} for f in origin.files],
        "key": origin.key,
        "note": origin.note,
        "path_ms": dict(origin.path_ms),
    }


def origin_of(told: Mapping[str, Any]) -> Origin:
    """The origin that `origin_dict` described; raises KeyError or TypeError for something else."""
    return Origin(
        command=tuple(told["command"]),
        user_classes=tuple(told["user_classes"]),
        files=tuple(InputFile(**each) for each in told["files"]),
        key=told["key"],
        note=told["note"],
        path_ms=told["path_ms"],
    )
