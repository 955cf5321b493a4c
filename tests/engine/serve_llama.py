#!/usr/bin/env python3
"""Run llama.cpp's own HTTP server (from the xllamacpp wheel, in .engine) until SIGTERM or the parent's death.

Prints one line "READY http://127.0.0.1:PORT" once the model is loaded:
serve_llama.py MODEL.gguf [--port 0] [--parallel 4] [--ctx 8192] [--threads 1] [--alias NAME] [--api-key KEY]
               [--embeddings]
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from types import FrameType

import xllamacpp


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--parallel", type=int, default=4, help="slots: requests served at once")
    parser.add_argument("--ctx", type=int, default=8192, help="KV cells in all, shared by the slots")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alias")
    parser.add_argument("--api-key")
    parser.add_argument(
        "--embeddings", action="store_true", help="answer /v1/embeddings too, by the mean of all tokens"
    )
    parser.add_argument("--sse-ping", type=int, help="seconds between SSE comments while nothing is sent (default 30)")
    return parser.parse_args()


def server_parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx = options.ctx
    params.n_parallel = options.parallel
    params.n_predict = -1
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.cont_batching = True
    params.warmup = True
    params.sampling.seed = 1
    if options.alias is not None:
        params.model_alias = {options.alias}
    if options.sse_ping is not None:
        params.sse_ping_interval = options.sse_ping
    if options.embeddings:
        params.embedding = True
        params.pooling_type = 1
    if options.api_key is not None:
        params.api_keys = [options.api_key]
    return params


def main() -> None:
    stop = threading.Event()

    def on_signal(_signum: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    parent = os.getppid()
    server = xllamacpp.Server(server_parameters(parse_options()))
    print(f"READY {server.listening_address}", flush=True)
    # A test run that is killed cannot stop its servers, so they look whether it still lives.
    while not stop.wait(0.2) and os.getppid() == parent:
        pass


if __name__ == "__main__":
    main()
