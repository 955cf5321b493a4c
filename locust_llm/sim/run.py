"""Runs the simulated server in the foreground until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable

from locust_llm.sim.server import Server
from locust_llm.sim.settings import EngineSettings, ServerSettings

Make = Callable[[EngineSettings, ServerSettings], Server]


def run(engine: EngineSettings, settings: ServerSettings, make: Make = Server) -> int:
    """Serves until SIGTERM, SIGINT or, when asked for, the end of standard input. Returns the exit code."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(engine, settings, make))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(engine, settings, make))


async def _serve(engine: EngineSettings, settings: ServerSettings, make: Make) -> int:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = make(engine, settings)
    try:
        url = await server.start()
    except OSError as error:
        sys.stderr.write(f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}.\n")
        return 1
    if settings.end_with_stdin:
        threading.Thread(target=_watch_stdin, args=(loop, ended), daemon=True).start()
    # Nothing made so far will ever be garbage; a collection in the middle of a step would delay every stream.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    print(f"READY {url}", flush=True)
    await ended.wait()
    server.close()
    return 0


def _watch_stdin(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Reads standard input to its end: a parent that dies, however it dies, closes it."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(ended.set)
