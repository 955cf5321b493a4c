"""Sources: the file that a test's requests come from, a prompt, a data set or a trace; without one they are made up."""

from __future__ import annotations

import logging
import os

import gevent

from locust_llm.plugin.settings import Settings
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.dataset import Dataset, DatasetError
from locust_llm.workload.prompts import FixedPrompt, PromptFileError, read_prompt_file
from locust_llm.workload.trace import Trace, TraceError, read_trace

logger = logging.getLogger(__name__)

SLOW_BYTES_PER_S = 20e6
"""How fast a slow machine reads a data set through."""


class Sources:
    """The files of one process; at most one of the three is there."""

    def __init__(self) -> None:
        self.fixed: FixedPrompt | None = None
        self.dataset: Dataset | None = None
        self.trace: Trace | None = None
        self._dataset_key: tuple[object, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the file asks for answers of exact lengths."""
        return self.trace is not None or (self.dataset is not None and self.dataset.exact)

    @property
    def reading_s(self) -> float:
        """How long a slow worker may take to read the data set through."""
        return self.dataset.size / SLOW_BYTES_PER_S if self.dataset is not None else 0.0

    def open(self, settings: Settings, *, open_load: bool) -> None:
        """Read what the options name; a data set that has not changed is not read again.

        `open_load`: whether any user sends open load. Raises ConfigurationError.
        """
        given = [name for name in ("prompt_file", "dataset", "trace") if getattr(settings, name)]
        if len(given) > 1:
            flags = " and ".join(f"--llm-{name.replace('_', '-')}" for name in given)
            raise ConfigurationError(f"{flags} exclude each other: give one of them")
        if settings.trace and not open_load:
            raise ConfigurationError("--llm-trace needs an OpenLoopUser, such as that of locustfiles/open_loop.py")
        try:
            self.fixed = read_prompt_file(settings.prompt_file) if settings.prompt_file else None
            self._open_dataset(settings.dataset, settings.dataset_format)
            self.trace = read_trace(settings.trace, settings.trace_speed) if settings.trace else None
        except DatasetError as error:
            raise ConfigurationError(f"--llm-dataset {error}") from None
        except (PromptFileError, TraceError) as error:
            raise ConfigurationError(str(error)) from None

    def check_same(self, sha256: str) -> None:
        """Raise ConfigurationError when the master's data set, if it told of one, is another."""
        if self.dataset is not None and sha256 and self.dataset.sha256 != sha256:
            raise ConfigurationError(f"--llm-dataset {self.dataset.path} is not the file that the master has")

    def told(self) -> dict[str, object]:
        """What the run document says of them."""
        told: dict[str, object] = {}
        if (data := self.dataset) is not None:
            told["dataset"] = {
                "path": data.path,
                "format": data.format,
                "sha256": data.sha256,
                "requests": len(data),
                "left_out": data.left_out,
            }
        if self.trace is not None:
            told["trace"] = {"path": self.trace.path, "requests": len(self.trace)}
        return told

    def _open_dataset(self, path: str, format_: str) -> None:
        if not path:
            self.dataset, self._dataset_key = None, ()
            return
        try:
            status = os.stat(path)
        except OSError as error:
            raise DatasetError(f"{path}: {error.strerror}") from None
        key = (path, format_, status.st_mtime_ns, status.st_size)
        if key == self._dataset_key:
            return
        self.dataset, self._dataset_key = Dataset(path, format_, lambda: gevent.sleep(0)), key
        left = self.dataset.left_out
        without = f"; {left:,} in which no user says anything are left out" if left else ""
        logger.info("%s: %d requests (%s)%s", path, len(self.dataset), self.dataset.format, without)
