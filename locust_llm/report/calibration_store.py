"""Where the calibration of a machine is kept: one small JSON file of the user's, an entry for each set-up.

A set-up is what the safe number depends on: machine, processor, Python, and the versions that the figures rest on. A
set-up that was not calibrated has no safe number; nobody's is guessed.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from locust_llm import __version__
from locust_llm.report.files import write_whole

PACKAGES: Final = ("locust", "gevent", "httptools", "msgspec", "numpy")


@dataclass(frozen=True, slots=True)
class Safe:
    """Streams per process up to which the figures were right within 1 and 5 % (None: not even the fewest), and the
    tokens a second that each stream had."""

    streams: int | None
    streams_5: int | None
    stream_tokens_per_s: float
    date: str


def store_path() -> Path:
    """$XDG_STATE_HOME/locust-llm/calibration.json."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "locust-llm" / "calibration.json"


def set_up() -> dict[str, Any]:
    """What a calibration belongs to."""
    return {
        "host": platform.node(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "locust_llm": __version__,
        **{package: metadata.version(package) for package in PACKAGES},
    }


def cpu_model() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if sys.platform == "linux" and info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def save(safe: Safe) -> Path:
    """Keep what was found for this set-up, in the place of what was; raises OSError."""
    path = store_path()
    kept = {**_read(path), _key(): asdict(safe)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [json.dumps(kept, indent=1, sort_keys=True), "\n"])
    saved.cache_clear()
    return path


@cache
def saved() -> Safe | None:
    """What calibration found for this set-up, read once; None when there was none, or nothing that can be read."""
    entry = _read(store_path()).get(_key())
    try:
        return Safe(**entry) if entry is not None else None
    except TypeError:
        return None


def _key() -> str:
    return " · ".join(f"{name} {value}" for name, value in set_up().items())


def _read(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
