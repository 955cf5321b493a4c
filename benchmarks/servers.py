"""The servers that benchmarks run against, each on a core of its own: the embedded engine, and the one in C."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

HERE = Path(__file__).parent
TTFT_MS, ITL_MS = 100, 20
NICENESS = -19


class NoCompiler(Exception):
    """There is no C compiler here, or no Linux."""


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """`command` on one core, where there are several and `taskset` is here."""
    if (os.cpu_count() or 1) < 2 or shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", str(core), *command]


def ahead_of_others() -> None:
    """Run all that this process starts ahead of everything else on the machine (needs root); for busy machines.

    Not by real-time priority: the kernel stops a real-time process for 50 ms of each second that it would fill.
    """
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    group = Path("/proc/self/autogroup")  # where sessions share the machine, each counts as one
    if group.exists():
        group.write_text(str(NICENESS))


def build(name: str, folder: Path, *, tls: bool = False) -> Path:
    """Compile benchmarks/NAME.c, with OpenSSL for `tls`; raises NoCompiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        raise NoCompiler(f"{name}.c needs a C compiler and Linux")
    program = folder / name
    command = [compiler, "-O2", "-o", str(program), str(HERE / f"{name}.c")]
    if tls:
        command += ["-DWITH_TLS", "-lssl", "-lcrypto"]
    if subprocess.run(command).returncode:
        raise NoCompiler(f"{name}.c does not compile here{'; TLS needs OpenSSL with its headers' if tls else ''}")
    return program


@contextmanager
def running(command: Sequence[str], core: int) -> Iterator[str]:
    """The URL of a server that says READY and ends with its standard input."""
    with subprocess.Popen(pinned(core, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[1]
        finally:
            server.stdin.close()
            server.wait(10)


@contextmanager
def truth_server(core: int, *, bursts: bool, certificate: Path | None = None) -> Iterator[str]:
    """The C server: 100 ms to the first token, 20 ms between tokens; in steps of all streams with `bursts`, through
    TLS with a `certificate` (a PEM file that holds its key, too)."""
    with tempfile.TemporaryDirectory() as folder:
        program = build("truth_server", Path(folder), tls=certificate is not None)
        command = [str(program), "-t", str(TTFT_MS * 1000), "-i", str(ITL_MS * 1000)]
        command += ["-b"] * bursts + (["-c", str(certificate)] if certificate is not None else [])
        with running(command, core) as url:
            yield url


def make_certificates(folder: Path) -> tuple[Path, Path]:
    """(what a client has to trust, the server's certificate and key), for the loopback address; needs trustme."""
    import trustme

    authority = trustme.CA()
    trusted, own = folder / "authority.pem", folder / "server.pem"
    authority.cert_pem.write_to_path(str(trusted))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    return trusted, own


@contextmanager
def embedded_engine(core: int) -> Iterator[str]:
    """The embedded engine in steps of 20 ms, its tokens telling when they were sent. All streams step together."""
    command = [sys.executable, "-m", "locust_llm.sim", "--profile", "steady", "--entry-ms", str(TTFT_MS)]
    with running([*command, "--any-model", "--emit-send-time", "--end-with-stdin"], core) as url:
        yield url


def truth_stats(url: str) -> dict[str, Any]:
    """What the C server really sent."""
    context = ssl._create_unverified_context() if url.startswith("https") else None  # it is ours, on loopback
    with urlopen(f"{url}/stats", timeout=10, context=context) as answer:
        stats: dict[str, Any] = json.load(answer)
    return stats
