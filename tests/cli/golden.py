"""Golden files: what a command printed once and a person found right. Times and ports are replaced.

With WRITE_GOLDEN=1 in the environment the files are written instead of compared; read the difference before committing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "data"

_REPLACED = (
    (re.compile(r" *\b\d+\.\d ms"), " # ms"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)


def steady(text: str) -> str:
    """The text with times and ports replaced."""
    for pattern, word in _REPLACED:
        text = pattern.sub(word, text)
    return text


def is_golden(name: str, printed: str) -> bool:
    """Whether it is what the file of that name below tests/data holds."""
    path = _FOLDER / name
    return path.exists() and steady(printed) == path.read_text()


def assert_golden(name: str, printed: str) -> None:
    """Compare with the file of that name below tests/data."""
    path = _FOLDER / name
    told = steady(printed)
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(told)
    assert told == path.read_text()
