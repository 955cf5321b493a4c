"""The real llama.cpp server of the end-to-end tests, as a process that the tests start, ask and stop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from tests.service import Service, clean_environment, free_port

_PROJECT = Path(__file__).resolve().parents[2]
_PYTHON = _PROJECT / ".engine" / "bin" / "python"
_MODEL = _PROJECT / ".engine" / "tiny.gguf"
_SERVE = Path(__file__).with_name("serve_llama.py")

ALIAS = "tiny"
API_KEY = "sk-test-tiny-key"
SLOTS = 4


@dataclass(slots=True)
class Llama:
    """A running llama.cpp server with the tiny model: `url` has no path; the model is named ALIAS.

    Without `api_key` it asks for none.
    """

    service: Service
    folder: Path
    api_key: str | None
    _argv: list[str]

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        api_key: str | None = None,
        slots: int = SLOTS,
        port: int | None = None,
        embeddings: bool = False,
    ) -> Llama:
        """Start one on a free loopback port (or `port`) with one thread; its log stands in `folder`."""
        assert _MODEL.exists(), "The real engine is not installed: run `make engine`"
        argv = [str(_PYTHON), str(_SERVE), str(_MODEL), "--alias", ALIAS, "--threads", "1", "--parallel", str(slots)]
        argv += ["--port", str(port if port is not None else free_port())]
        argv += ["--api-key", api_key] if api_key is not None else []
        argv += ["--embeddings"] if embeddings else []
        return cls(cls._launch(folder, argv), folder, api_key, argv)

    @staticmethod
    def _launch(folder: Path, argv: list[str]) -> Service:
        return Service.start("llama", argv, folder=folder, environment=clean_environment(folder))

    @property
    def url(self) -> str:
        return self.service.url

    @property
    def pid(self) -> int:
        return self.service.pid

    def stop(self) -> None:
        self.service.stop()

    def kill(self) -> None:
        """SIGKILL in the middle of whatever it does."""
        self.service.kill()

    def restart(self) -> None:
        """Start it again on the same port, after `kill` or `stop`; its counts start at 0."""
        self.service.stop()
        self.service = self._launch(self.folder, self._argv)

    def metrics(self) -> dict[str, float]:
        """The server's own Prometheus metrics, without the prefix: tokens_predicted_total, requests_processing …"""
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key is not None else {}
        direct = build_opener(ProxyHandler({}))
        with direct.open(Request(f"{self.url}/metrics", headers=headers), timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.removeprefix("llamacpp:").split() for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def requests_started(self) -> int:
        """How many requests were given a slot since the start, by the server's own log (a few ms behind)."""
        return len(re.findall(r"launch_slot_: .* processing task, is_child = 0", self.service.log()))

    def requests_ended(self) -> int:
        """How many of them have left their slot since: answered, or cut off by their client."""
        return len(re.findall(r"release: .* stop processing", self.service.log()))
