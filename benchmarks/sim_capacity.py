"""How many streams the embedded engine carries from one core, and how true its schedule stays.

    python benchmarks/sim_capacity.py [--streams 200 1000] [--seconds 8] [--spread] [--realtime]

Starts the engine on one core (`--profile steady`: a step every 20 ms, 50 tok/s a stream, each token saying when it was
sent) and a plain epoll client on another. Prints tokens sent a second, the server's CPU time per token, and how late
tokens were sent against the engine's schedule, a grid of 20 ms: in one burst a step (the default) all streams share the
grid, whose phase is that of the promptest token, so that the last stream of a burst is late by the whole burst; with
`--spread` each stream has a grid of its own. "waited" is the share of the time in which the server could have run but
the core was taken: beyond some percent, the lateness is the machine's and not the engine's. On a shared machine,
`--realtime` gives both processes precedence (SCHED_FIFO; needs root).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from typing import IO, Any
from urllib.request import urlopen

STEP_NS = 20_000_000
_STAMP = re.compile(rb'"content":" (\d+)"')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1000])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--spread", action="store_true", help="tokens of a step apart instead of in one burst")
    parser.add_argument("--plain", action="store_true", help="words instead of send times: CPU only, no lateness")
    parser.add_argument("--realtime", action="store_true", help="precedence over everything else (root only)")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        print(json.dumps(run_client(options.client, options.streams[0], options.seconds, options.spread)))
        return
    columns = ("streams", 8), ("tok/s", 9), ("CPU us/token", 13), ("core %", 7), ("waited %", 9), ("late p50 ms", 12)
    print("".join(f"{name:>{width}}" for name, width in (*columns, ("p99", 9), ("max", 9))))
    for streams in options.streams:
        print(row(streams, measure(streams, options)), flush=True)


def row(streams: int, result: dict[str, Any]) -> str:
    late_p50_ms, late_p99_ms, late_max_ms = result["late_ms"]
    cost = f"{result['cpu_us_per_token']:>13.1f}{result['core_share'] * 100:>7.0f}{result['waited'] * 100:>9.1f}"
    late = f"{late_p50_ms:>12.2f}{late_p99_ms:>9.2f}{late_max_ms:>9.2f}"
    return f"{streams:>8}{result['tokens_per_s']:>9.0f}{cost}{late}"


def measure(streams: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run: server and client as two processes on two cores."""
    command = [sys.executable, "-m", "locust_llm.sim", "--profile", "steady", "--end-with-stdin"]
    if not options.plain:
        command.append("--emit-send-time")
    if options.spread:
        command.append("--spread")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            return _measure(server.pid, server.stdout, streams, options)
        finally:
            server.stdin.close()


def _measure(pid: int, ready: IO[str], streams: int, options: argparse.Namespace) -> dict[str, Any]:
    url = ready.readline().split()[1]
    pin(pid, 0, options.realtime)
    arguments = ["--client", url, "--streams", str(streams), "--seconds", str(options.seconds)]
    arguments += ["--spread"] if options.spread else []
    client = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    pin(client.pid, 1, options.realtime)
    time.sleep(2.5)  # connections are up and every stream runs
    before = look(pid, url)
    time.sleep(options.seconds - 3.0)
    after = look(pid, url)
    wall_s, used_s, waited_s, tokens = (end - start for start, end in zip(before, after, strict=True))
    out, _ = client.communicate(timeout=options.seconds + 20)
    result: dict[str, Any] = json.loads(out)
    result["tokens_per_s"] = tokens / wall_s
    if not tokens:
        sys.exit("No token was sent while it was measured: the machine is too busy.")
    result["cpu_us_per_token"] = used_s / tokens * 1e6
    result["core_share"] = used_s / wall_s
    result["waited"] = waited_s / wall_s
    return result


def pin(pid: int, core: int, realtime: bool) -> None:
    """Keeps a process on one core, where the platform can and has more than one."""
    if realtime:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(20))
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(pid, {core})


def look(pid: int, url: str) -> tuple[float, float, float, int]:
    """The server's clock, the seconds it has run and has waited for a core (Linux), and the tokens it has sent."""
    with urlopen(f"{url}/sim/counts", timeout=10) as answer:
        counts = json.load(answer)
    with open(f"/proc/{pid}/schedstat") as stat:
        run_ns, wait_ns, _ = stat.read().split()
    return counts["now_ns"] / 1e9, int(run_ns) / 1e9, int(wait_ns) / 1e9, counts["tokens_sent"]


def run_client(url: str, streams: int, seconds: float, spread: bool) -> dict[str, Any]:
    """Opens the streams over one second, reads until the time is up; the stamps are looked at afterwards."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1_000_000, "stream": True})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    reads: dict[int, list[bytes]] = {}
    start_s = time.monotonic()
    while (elapsed_s := time.monotonic() - start_s) < seconds:
        while len(sockets) < min(streams, streams * elapsed_s):
            sock = socket.create_connection((host, int(port)))
            sock.sendall((head + body).encode())
            sockets[sock.fileno()] = sock
            reads[sock.fileno()] = []
            poll.register(sock, select.EPOLLIN)
        for number, _ in poll.poll(0.005):
            reads[number].append(sockets[number].recv(65536))
    return {"late_ms": lateness_ms([b"".join(parts) for parts in reads.values()], spread)}


def lateness_ms(streams: list[bytes], spread: bool) -> list[float]:
    """p50, p99 and max of how late tokens were sent; nan when they carry no stamps (--plain)."""
    grids = []  # of each stream, its tokens' offsets in its own grid
    for stream in streams:
        stamps = [int(match) for match in _STAMP.findall(stream)]
        if stamps:
            grids.append([stamp - index * STEP_NS for index, stamp in enumerate(stamps)])
    if not grids:
        return [float("nan")] * 3
    bases = [min(grid) for grid in grids]
    if not spread:  # the streams' phases differ by less than half a step, around that of the first
        half_ns = STEP_NS // 2
        apart = [(base - bases[0] + half_ns) % STEP_NS - half_ns for base in bases]
        bases = [base - (own - min(apart)) for base, own in zip(bases, apart, strict=True)]
    late_ns = sorted(offset - base for grid, base in zip(grids, bases, strict=True) for offset in grid)
    return [late_ns[int(share * (len(late_ns) - 1))] / 1e6 for share in (0.5, 0.99, 1.0)]


if __name__ == "__main__":
    main()
