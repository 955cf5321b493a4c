"""The engine of `locust-llm calibrate`: the embedded engine, which also tells how long each first token took it.

Started as a process of its own with the options of `locust-llm sim`. `GET /truth` gives, and then forgets, the time
from reading each request to sending its first token, and how much CPU this process has used.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from locust_llm.sim.connection import Connection, Request
from locust_llm.sim.http import whole_response
from locust_llm.sim.options import parse
from locust_llm.sim.run import run
from locust_llm.sim.server import Server
from locust_llm.sim.settings import EngineSettings, ServerSettings

PATH = "/truth"


class TruthfulServer(Server):
    """Notes when the first token of each stream was written."""

    def __init__(self, engine: EngineSettings, settings: ServerSettings) -> None:
        super().__init__(engine, settings)
        self._ttfts_ns: list[int] = []

    def handle(self, connection: Connection, request: Request) -> None:
        """As the server's, and the page of the truth."""
        if request.path == PATH:
            connection.transport.write(whole_response(200, self._truth(), keep_alive=request.keep_alive))
            connection.reply_done(request.keep_alive)
            return
        super().handle(connection, request)
        reply = connection.reply
        if reply is None:
            return
        write = reply.write

        def write_first(data: Any) -> None:
            self._ttfts_ns.append(time.monotonic_ns() - request.received_ns)
            reply.write = write
            write(data)

        reply.write = write_first

    def _truth(self) -> bytes:
        ttfts_ms = [ttft_ns / 1e6 for ttft_ns in self._ttfts_ns]
        self._ttfts_ns.clear()
        return json.dumps({"ttfts_ms": ttfts_ms, "cpu_s": time.process_time()}).encode()


if __name__ == "__main__":
    sys.exit(run(*parse(sys.argv[1:], prog="calibrate_engine"), make=TruthfulServer))
