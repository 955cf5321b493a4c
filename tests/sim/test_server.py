"""The server's life: connections, disconnects, faults, send times, counts and metrics, start and end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, IncompleteRead

import pytest

from tests.service import Service
from tests.sim.talking import (
    CHAT,
    COMPLETIONS,
    DEADLINE_S,
    FAST,
    ask,
    chat,
    connect,
    counts,
    events,
    get,
    port_of,
    post,
    raw,
    wait_for_counts,
)

Start = Callable[..., Service]
ENDLESS = chat(max_tokens=1_000_000, stream=True)
_STAMP = re.compile(r'"content":" (\d+)"')


def request_bytes(path: str, body: dict[str, object], *headers: str) -> bytes:
    data = json.dumps(body)
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(data)}", *headers, "", data]
    return "\r\n".join(lines).encode()


def test_one_connection_serves_many_requests(url: str) -> None:
    connection = connect(url)
    connection.connect()
    port = connection.sock.getsockname()[1]
    for number in range(6):
        response = post(connection, CHAT, chat(max_tokens=3, stream=number % 2 == 0))
        assert response.status == 200
        assert b"cloud" in response.read()
        assert connection.sock.getsockname()[1] == port
    connection.close()


def test_pipelined_requests_are_answered_in_order(url: str) -> None:
    first, second = chat(max_tokens=3), {"prompt": "x", "max_tokens": 2}
    answer = raw(url, request_bytes(CHAT, first) + request_bytes(COMPLETIONS, second, "connection: close"))
    assert [line for line in answer.split(b'"') if line in (b"chat.completion", b"text_completion")] == [
        b"chat.completion",
        b"text_completion",
    ]
    assert answer.count(b"HTTP/1.1 200 OK") == 2


ODD = [
    pytest.param(b"GARBAGE\r\n\r\n", b"HTTP/1.1 400 Bad Request", id="not HTTP"),
    pytest.param(b"GET /health HTTP/1.0\r\n\r\n", b"HTTP/1.1 505 ", id="HTTP/1.0"),
    pytest.param(
        b"GET /health HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", b"HTTP/1.1 ", id="upgrade"
    ),
    pytest.param(
        request_bytes(CHAT, chat(max_tokens=1), "expect: 100-continue", "connection: close"),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
        id="expect continue",
    ),
]


@pytest.mark.parametrize(("sent", "start"), ODD)
def test_odd_requests_are_answered_and_closed(url: str, sent: bytes, start: bytes) -> None:
    assert raw(url, sent).startswith(start)
    assert get(url, "/health") == b""


def test_garbage_during_an_answer_never_lands_in_it(sim_server: Start) -> None:
    url = sim_server(*FAST).url
    with socket.create_connection(("127.0.0.1", port_of(url)), timeout=DEADLINE_S) as sock:
        sock.sendall(request_bytes(CHAT, ENDLESS))
        wait_for_counts(url, running=1)
        sock.sendall(b"GARBAGE\r\n\r\n")
        answer = b""
        while part := sock.recv(65536):
            answer += part
    assert answer.count(b"HTTP/1.1") == 1
    wait_for_counts(url, running=0, cancelled=1)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot_at_once(sim_server: Start, stream: bool) -> None:
    """With one slot, the next in line is answered although the first had hours to go."""
    url = sim_server(*FAST, "--slots", "1").url
    gone = connect(url)
    gone.request("POST", CHAT, json.dumps({**ENDLESS, "stream": stream}))
    wait_for_counts(url, running=1)
    next_one = connect(url)
    next_one.request("POST", CHAT, json.dumps(chat(max_tokens=2)))
    wait_for_counts(url, running=1, waiting=1)
    gone.close()
    left_s = time.monotonic()
    assert next_one.getresponse().status == 200
    assert time.monotonic() - left_s < DEADLINE_S / 2  # it would be 1,000 s
    next_one.close()
    told = wait_for_counts(url, received=2, finished=1, cancelled=1, in_flight=0, running=0, waiting=0)
    assert told["tokens_sent"] >= 2


def test_one_that_leaves_the_queue_is_forgotten(sim_server: Start) -> None:
    url = sim_server(*FAST, "--slots", "1").url
    running, waiting = connect(url), connect(url)
    running.request("POST", CHAT, json.dumps(ENDLESS))
    wait_for_counts(url, running=1)
    waiting.request("POST", CHAT, json.dumps(ENDLESS))
    wait_for_counts(url, running=1, waiting=1)
    waiting.close()
    wait_for_counts(url, running=1, waiting=0, cancelled=1, in_flight=1)
    running.close()
    wait_for_counts(url, running=0, cancelled=2, in_flight=0)


def test_counts_add_up(sim_server: Start) -> None:
    url = sim_server(*FAST, "--fault", "truncate:0.4", "--max-queue", "2", "--slots", "2", "--seed", "4").url
    open_ones: list[HTTPConnection] = []
    for number in range(12):
        connection = connect(url)
        connection.request("POST", CHAT, json.dumps(chat(max_tokens=400 if number % 2 else 3, stream=True)))
        open_ones.append(connection)
    ask(url, CHAT, {"model": "sim"})
    wait_for_counts(url, received=13)
    open_ones.pop().close()
    told = wait_for_counts(url, in_flight=0)
    for connection in open_ones:
        connection.close()
    fates = ("finished", "faulted", "cancelled", "rejected", "invalid", "in_flight")
    assert told["received"] == 13 == sum(told[name] for name in fates)
    assert min(told["finished"], told["faulted"], told["rejected"], told["invalid"]) >= 1


def test_a_reset_breaks_the_connection(sim_server: Start) -> None:
    url = sim_server(*FAST, "--fault", "reset:1").url
    for stream in (True, False):
        connection = connect(url)
        with pytest.raises((ConnectionResetError, IncompleteRead)):
            post(connection, CHAT, chat(max_tokens=50, stream=stream)).read()
        connection.close()
    assert counts(url)["faulted"] == 2


def test_a_truncated_stream_ends_without_a_finish(sim_server: Start) -> None:
    url = sim_server(*FAST, "--fault", "truncate:1", "--seed", "2").url
    found = [json.loads(event) for event in events(url, CHAT, chat(max_tokens=50))]
    assert 2 <= len(found) < 51
    assert {event["choices"][0]["finish_reason"] for event in found} == {None}
    connection = connect(url)
    with pytest.raises(IncompleteRead):
        post(connection, CHAT, chat(max_tokens=50)).read()
    connection.close()


def test_an_error_stands_in_the_stream(sim_server: Start) -> None:
    url = sim_server(*FAST, "--fault", "error:1", "--seed", "2", "--tokens-per-chunk", "4").url
    *texts, error, done = events(url, CHAT, chat(max_tokens=50))
    assert json.loads(error)["error"]["code"] == 500
    assert done == "[DONE]"
    assert counts(url)["tokens_sent"] == sum(text.count(' "') + text.count(" ") for text in map(_content, texts))
    status, answer = ask(url, CHAT, chat(max_tokens=50))
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")


def _content(event: str) -> str:
    content: str = json.loads(event)["choices"][0]["delta"]["content"]
    return content


def test_tokens_say_when_they_were_sent(sim_server: Start) -> None:
    url = sim_server(*FAST, "--decode-ms", "5", "--emit-send-time").url
    start_ns = time.monotonic_ns()
    found = events(url, CHAT, chat(max_tokens=20, stream_options={"include_usage": True}))
    end_ns = time.monotonic_ns()
    ids = {json.loads(event)["id"] for event in found if event != "[DONE]"}
    assert len(ids) == 1
    number, received_hex = re.fullmatch(r"chatcmpl-(\d+)-([0-9a-f]+)", ids.pop()).groups()  # type: ignore[union-attr]
    assert number == "1"
    stamps_ns = [int(match) for event in found for match in _STAMP.findall(event)]
    assert len(stamps_ns) == 20
    assert stamps_ns == sorted(set(stamps_ns))
    assert start_ns < int(received_hex, 16) < stamps_ns[0]
    assert stamps_ns[-1] < end_ns
    # The schedule is absolute: the last of 19 steps of 5 ms never comes early, whatever the machine does.
    assert stamps_ns[-1] - int(received_hex, 16) >= 19 * 5_000_000


SHARES = [
    pytest.param((), [1, 2, 3, 4], id="one burst: in the order of service"),
    pytest.param(("--spread",), [2, 4, 1, 3], id="spread: by their shares .618 .236 .854 .472"),
]


@pytest.mark.parametrize(("options", "order"), SHARES)
def test_the_order_of_a_steps_tokens(sim_server: Start, options: tuple[str, ...], order: list[int]) -> None:
    url = sim_server("--prefill-tps", "inf", "--decode-ms", "20", "--emit-send-time", *options).url
    streams = [connect(url) for _ in range(4)]
    for number, stream in enumerate(streams):
        stream.request("POST", CHAT, json.dumps(chat(max_tokens=30, stream=True)))
        wait_for_counts(url, received=number + 1)
    stamps_ns = []
    for stream in streams:
        body = stream.getresponse().read().decode()
        stamps_ns.append([int(match) for match in _STAMP.findall(body)])
        stream.close()
    # From when all are running until the first ends, each step sends them in the same order, however late it is.
    begin_ns, end_ns = max(stamps[0] for stamps in stamps_ns), min(stamps[-1] for stamps in stamps_ns)
    sent = sorted((stamp, number) for number, stamps in enumerate(stamps_ns, 1) for stamp in stamps)
    numbers = [number for stamp, number in sent if begin_ns <= stamp <= end_ns]
    assert len(numbers) >= 12
    turn = order.index(numbers[0])
    assert numbers == [order[(turn + place) % 4] for place in range(len(numbers))]


def test_metrics_agree_with_the_counts(sim_server: Start) -> None:
    url = sim_server(*FAST, "--kv-tokens", "1000", "--model", 'a"b').url
    for _ in range(3):
        ask(url, CHAT, {**chat("one two three four", max_tokens=5), "model": 'a"b'})
    page = get(url, "/metrics").decode()
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    label = 'engine="0",model_name="a\\"b"'
    expected = {
        f"vllm:num_requests_running{{{label}}}": 0,
        f"vllm:num_requests_waiting{{{label}}}": 0,
        f"vllm:kv_cache_usage_perc{{{label}}}": 0,
        f"vllm:prompt_tokens_total{{{label}}}": 12,
        f"vllm:generation_tokens_total{{{label}}}": 15,
        f'vllm:request_success_total{{finished_reason="length",{label}}}': 3,
        f"vllm:time_to_first_token_seconds_count{{{label}}}": 3,
        f"vllm:inter_token_latency_seconds_count{{{label}}}": 12,
        f"vllm:inter_token_latency_seconds_sum{{{label}}}": pytest.approx(0.012),
        f"vllm:request_time_per_output_token_seconds_sum{{{label}}}": pytest.approx(0.003),
        f'vllm:inter_token_latency_seconds_bucket{{le="0.01",{label}}}': 12,
        f'vllm:request_generation_tokens_bucket{{le="2",{label}}}': 0,
        f'vllm:request_generation_tokens_bucket{{le="5",{label}}}': 3,
        f'vllm:request_generation_tokens_bucket{{le="+Inf",{label}}}': 3,
    }
    assert {name: float(values[name]) for name in expected} == expected


def test_counts_tell_how_late_the_server_was(sim_server: Start) -> None:
    url = sim_server(*FAST).url
    assert counts(url)["late_ms_p99"] is None
    ask(url, CHAT, chat(max_tokens=20))
    told = counts(url)
    assert 0 < told["late_ms_p50"] <= told["late_ms_p99"]


def test_without_uvloop_it_serves_too() -> None:
    code = "import runpy, sys; sys.modules['uvloop'] = None; runpy.run_module('locust_llm.sim', run_name='__main__')"
    with _Process(FAST, command=[sys.executable, "-c", code]) as process:
        assert events(process.url, CHAT, chat(max_tokens=3))[-1] == "[DONE]"


class _Process:
    """The engine with its standard input in our hand."""

    def __init__(self, options: tuple[str, ...] = (), command: list[str] | None = None) -> None:
        command = command if command is not None else [sys.executable, "-m", "locust_llm.sim"]
        self.process = subprocess.Popen([*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.url = self.line.split()[1]

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_it_says_ready_once_and_ends_with_standard_input() -> None:
    with _Process(("--end-with-stdin",)) as engine:
        assert re.fullmatch(r"READY http://127\.0\.0\.1:\d+\n", engine.line)
        stream = connect(engine.url)
        assert post(stream, CHAT, ENDLESS).status == 200
        assert engine.process.stdin is not None
        engine.process.stdin.close()
        assert engine.process.wait(DEADLINE_S) == 0
        assert engine.process.stdout is not None
        assert engine.process.stdout.read() == ""
        stream.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_a_signal_with_streams_open(number: signal.Signals) -> None:
    with _Process() as engine:
        stream = connect(engine.url)
        assert post(stream, CHAT, ENDLESS).status == 200
        engine.process.send_signal(number)
        assert engine.process.wait(DEADLINE_S) == 0
        stream.close()


def test_a_dead_parent_ends_it() -> None:
    """Killed outright, the parent can end nobody: the pipe that closes with it does."""
    code = (
        "import subprocess, sys, time\n"
        "engine = subprocess.Popen([sys.executable, '-m', 'locust_llm.sim', '--end-with-stdin'],\n"
        "    stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(engine.stdout.readline().decode(), end='', flush=True)\n"
        "time.sleep(60)\n"
    )
    with _Process(command=[sys.executable, "-c", code]) as parent:
        watch = socket.create_connection(("127.0.0.1", port_of(parent.url)), timeout=DEADLINE_S)
        parent.process.send_signal(signal.SIGKILL)
        assert watch.recv(1) == b""
        watch.close()


def test_a_port_in_use_is_told_in_a_sentence(url: str) -> None:
    command = [sys.executable, "-m", "locust_llm.sim", "--port", str(port_of(url))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert re.fullmatch(rf"Cannot listen on 127\.0\.0\.1 port {port_of(url)}: .*\.\n", ended.stderr)
