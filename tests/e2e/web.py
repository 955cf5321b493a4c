"""Locust's web UI as a browser uses it, without a browser."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

from tests.locust_process import LocustProcess, start_locust
from tests.service import free_port

DEADLINE_S = 60.0


class Web:
    """A Locust with its web UI. `page` is its address with the base path, without a slash at the end."""

    def __init__(self, locust: LocustProcess, page: str) -> None:
        self.locust = locust
        self.page = page
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))

    def get(self, path: str = "") -> str:
        with self._opener.open(f"{self.page}/{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def post(self, path: str, **fields: Any) -> Any:
        with self._opener.open(
            Request(f"{self.page}/{path}", urlencode(fields, doseq=True).encode()), timeout=60
        ) as it:
            return json.loads(it.read().decode())

    def swarm(self, host: str, *, users: int = 1, starts: bool = True, **fields: Any) -> None:
        """The form's Start button; as in a browser every option of the form is sent. Returns when it has started.

        Locust answers with statistics that are up to 2 s old: they may be the last test's.
        """
        shown = {name: _as_sent(option["default_value"]) for name, option in self.form().items()}
        answer = self.post("swarm", user_count=users, spawn_rate=users, host=host, **shown | fields)
        assert answer["success"], answer
        if starts:
            self.await_true(lambda: self.state() in ("spawning", "running"))

    def stop(self) -> None:
        """The Stop button; returns when the statistics are the last ones."""
        assert self.post("stop")["success"]
        self.await_true(lambda: self.state() in ("stopping", "stopped"))

    def template_args(self) -> dict[str, Any]:
        found = re.search(r"templateArgs = (\{.*?\})\s*(?:</script>|;?\n)", self.get(), re.DOTALL)
        assert found is not None
        return dict(json.loads(found.group(1)))

    def form(self) -> dict[str, dict[str, Any]]:
        """The options that the form shows, by name."""
        return dict(self.template_args()["extra_options"])

    def rows(self) -> dict[str, tuple[int, int]]:
        """Requests and failures by "TYPE name", Aggregated among them."""
        rows = self.json("stats/requests")["stats"]
        return {
            f"{row['method'] or ''} {row['name']}".strip(): (row["num_requests"], row["num_failures"]) for row in rows
        }

    def state(self) -> str:
        return str(self.json("stats/requests")["state"])

    def exceptions(self) -> list[str]:
        return [each["msg"] for each in self.json("exceptions")["exceptions"]]

    def await_true(self, what: Callable[[], Any]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < deadline, f"{self.rows()} {self.exceptions()}\n{self.locust.stderr()}"
            time.sleep(0.1)

    def await_requests(self, row: str, count: int = 1) -> None:
        self.await_true(lambda: self.rows().get(row, (0, 0))[0] >= count)


def _as_sent(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def start_web(
    stack: ExitStack, folder: Path, *args: str, base_path: str = "", env: dict[str, str] | None = None, workers: int = 0
) -> Web:
    """Start Locust with its web UI in `folder` (a locustfile.py is there) until `stack` is closed."""
    port = free_port()
    given = ["-f", "locustfile.py", "--web-host", "127.0.0.1", "--web-port", str(port), *args]
    if workers:
        given += ["--processes", str(workers)]
    if base_path:
        given += ["--web-base-path", base_path]
    locust = stack.enter_context(start_locust(given, cwd=folder, env=env))
    web = Web(locust, f"http://127.0.0.1:{port}{base_path}")
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            if not workers or len(web.json("stats/requests")["workers"]) == workers:
                web.get()
                return web
        except OSError:
            pass
        assert time.monotonic() < deadline, locust.stderr()
        assert locust.process.poll() is None, locust.stderr()
        time.sleep(0.1)
