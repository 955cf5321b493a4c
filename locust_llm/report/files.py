"""Files: written whole or not at all, and what goes wrong said in one sentence."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: Iterable[str]) -> None:
    """Write UTF-8 text so that a reader finds the old file or the new one, never a part; raises OSError.

    A pipe or device (/dev/stdout, wherever it leads) is written straight.
    """
    if os.fspath(path).startswith("/dev/") or (os.path.exists(path) and not os.path.isfile(path)):
        _write(path, text)
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _write(beside, text)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def append(path: str | os.PathLike[str], text: str) -> None:
    """Add UTF-8 text at the end of a file that is not ours alone; raises OSError."""
    with open(path, "a", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(text)


def _write(path: str | os.PathLike[str], text: Iterable[str]) -> None:
    # Lone surrogates of a server's text cannot be encoded; they are written as \udc00.
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.writelines(text)


def trouble(path: str | os.PathLike[str], error: OSError) -> str:
    """Why a file could not be written or read, in one sentence."""
    return f"{os.fspath(path)}: {error.strerror or error}"


def sha256_of(path: str | os.PathLike[str]) -> str | None:
    """The SHA-256 of a file's content; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def numbered(path: str, test: int) -> str:
    """The file of a later test of one session: `run.json` of the second test is `run.2.json`."""
    if test <= 1:
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}.{test}{ending}"
