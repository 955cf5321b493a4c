"""A process that reads one stream of stamped tokens with the kernel's receive times (Linux).

    python watch_stream.py PORT MAX_TOKENS

Reads until the stream or its own standard input ends, then prints a JSON list of [time in the token, time of arrival],
both in nanoseconds of the monotonic clock. It is a process because pytest's own is patched by gevent.
"""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import sys
import time

_STAMP = re.compile(rb'"content":" (\d+)"')
_SO_TIMESTAMPNS = 35
_DEADLINE_S = 20.0


def main(port: int, max_tokens: int) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": max_tokens, "stream": True})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    sock = socket.create_connection(("127.0.0.1", port), timeout=_DEADLINE_S)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.sendall((head + body).encode())
    pairs = []
    while sys.stdin not in (ready := select.select([sock, sys.stdin], [], [], _DEADLINE_S)[0]):
        if not ready:
            sys.exit("the stream fell silent")
        data, ancillary, _, _ = sock.recvmsg(65536, 128)
        if not data:
            break
        stamps = [int(match) for match in _STAMP.findall(data)]
        if len(stamps) == 1 and ancillary:  # several in one read carry the last one's time
            offset_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
            pairs.append((stamps[0], seconds * 1_000_000_000 + nanoseconds - offset_ns))
    print(json.dumps(pairs))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
