"""What other tools report of the same load, beside what the server really did: GuideLLM, AIPerf, vLLM bench, and us.

    python benchmarks/peers.py [--streams 50 200] [--guidellm VENV] [--aiperf VENV] [--vllm VENV] [--json FILE]

Each tool is asked for the same: so many streams at once, each an answer of 128 tokens after the other, against a fresh
benchmarks/truth_server.c (100 ms to the first token, one each 20 ms), for about `--seconds`. What it says of itself is
read from the files it writes. A tool that is not named, or not in the virtual environment that is, is left out, which
is said. Versions that were tried: see README.md. Tools that ask for a tokenizer get a tiny one; the server counts.

Mind the definitions: others start the clock of TTFT when they take up a request, so that their own queueing is inside.
That is what this shows. `true` is the server's own account of the whole run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import runs
import servers
from client import header, number
from plan import PROMPT, Plan

COLUMNS = (
    ("streams", 7), ("tool", 9), ("version", 9), ("requests", 8), ("tok/s", 7), ("TTFT ms p50", 11), ("p99", 8),
    ("true p50", 8), ("p99", 7), ("ITL ms p50", 10), ("p99", 7), ("true p50", 8), ("p99", 6),
)  # fmt: skip
MODEL = "m"
EXTRA_S = 120.0


@dataclass(frozen=True)
class Load:
    """What every tool is asked for."""

    url: str
    streams: int
    tokens: int
    seconds: float
    folder: Path

    @property
    def requests(self) -> int:
        """Requests that take about `seconds`, for tools that count these."""
        each_s = (servers.TTFT_MS + servers.ITL_MS * (self.tokens - 1)) / 1000
        return self.streams * max(round(self.seconds / each_s), 1)


@dataclass(frozen=True)
class Reported:
    """What a tool says: requests, tokens a second, and (p50, p99) in ms; None where it does not say."""

    requests: int | None
    tokens_per_s: float | None
    ttft_ms: tuple[float | None, float | None]
    itl_ms: tuple[float | None, float | None]


@dataclass(frozen=True)
class Peer:
    """A tool: the distribution and the program in its environment, how it is asked, and how its files are read."""

    distribution: str
    program: str
    command: Callable[[Load], list[str]]
    read: Callable[[Load], Reported]


def make_tokenizer(folder: Path) -> str:
    """A tokenizer of words that needs no download, for tools that do not start without one."""
    place = folder / "tokenizer"
    place.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    absent = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    (place / "tokenizer.json").write_text(json.dumps(whole | absent))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "[UNK]"}
    (place / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 100_000}))
    return str(place)


# -- GuideLLM ------------------------------------------------------------------------------------------------------


def guidellm_command(load: Load) -> list[str]:
    prompts = load.folder / "prompts.jsonl"
    line = json.dumps({"prompt": PROMPT, "prompt_tokens_count": 64, "output_tokens_count": load.tokens})
    prompts.write_text(f"{line}\n" * load.requests)
    return [
        "run", "--backend", f"kind=openai_http,target={load.url},model={MODEL},request_format=/v1/chat/completions",
        "--profile", f"kind=concurrent,streams={load.streams}", "--constraint",
        f"kind=max_requests,count={load.requests}", "--tokenizer",
        f"kind=huggingface_auto,model={make_tokenizer(load.folder)}", "--data", f"kind=json_file,path={prompts}",
        "--output", f"kind=json,path={load.folder / 'guidellm.json'}", "--disable-console",
    ]  # fmt: skip


def guidellm_read(load: Load) -> Reported:
    (told,) = json.loads((load.folder / "guidellm.json").read_text())["benchmarks"]
    metrics = told["metrics"]

    def both(name: str) -> tuple[float | None, float | None]:
        percentiles = metrics[name]["successful"]["percentiles"]
        return percentiles.get("p50"), percentiles.get("p99")

    return Reported(
        metrics["request_totals"]["successful"],
        metrics["output_tokens_per_second"]["successful"]["mean"],
        both("time_to_first_token_ms"),
        both("inter_token_latency_ms"),
    )


# -- AIPerf --------------------------------------------------------------------------------------------------------


def aiperf_command(load: Load) -> list[str]:
    prompts = load.folder / "prompts.jsonl"
    prompts.write_text(f"{json.dumps({'text': PROMPT})}\n" * load.streams)
    return [
        "profile", "--model", MODEL, "--url", load.url, "--endpoint-type", "chat", "--streaming",
        "--concurrency", str(load.streams), "--request-count", str(load.requests), "--input-file", str(prompts),
        "--custom-dataset-type", "single_turn", "--extra-inputs", f"max_tokens:{load.tokens}",
        "--use-server-token-count", "--tokenizer", make_tokenizer(load.folder), "--ui", "none",
        "--output-artifact-dir", str(load.folder),
    ]  # fmt: skip


def aiperf_read(load: Load) -> Reported:
    told = json.loads(next(load.folder.rglob("profile_export_aiperf.json")).read_text())

    def both(name: str) -> tuple[float | None, float | None]:
        found = told.get(name) or {}
        return found.get("p50"), found.get("p99")

    counted = told.get("request_count") or {}
    return Reported(
        counted.get("avg"),
        (told.get("output_token_throughput") or {}).get("avg"),
        both("time_to_first_token"),
        both("inter_chunk_latency") if "inter_chunk_latency" in told else both("inter_token_latency"),
    )


# -- vLLM bench ----------------------------------------------------------------------------------------------------


def vllm_command(load: Load) -> list[str]:
    prompts = load.folder / "prompts.jsonl"
    prompts.write_text(f"{json.dumps({'prompt': PROMPT, 'output_tokens': load.tokens})}\n" * load.requests)
    return [
        "bench", "serve", "--backend", "openai-chat", "--base-url", load.url, "--endpoint", "/v1/chat/completions",
        "--model", MODEL, "--tokenizer", make_tokenizer(load.folder), "--dataset-name", "custom",
        "--dataset-path", str(prompts),
        "--skip-chat-template", "--custom-output-len", str(load.tokens), "--num-prompts", str(load.requests),
        "--max-concurrency", str(load.streams), "--percentile-metrics", "ttft,tpot,itl",
        "--metric-percentiles", "50,99", "--save-result", "--result-dir", str(load.folder),
        "--result-filename", "vllm.json", "--disable-tqdm",
    ]  # fmt: skip


def vllm_read(load: Load) -> Reported:
    told = json.loads((load.folder / "vllm.json").read_text())
    return Reported(
        told["completed"],
        told["output_throughput"],
        (told["median_ttft_ms"], told["p99_ttft_ms"]),
        (told["median_itl_ms"], told["p99_itl_ms"]),
    )


# -- ours ----------------------------------------------------------------------------------------------------------


def ours_command(load: Load) -> list[str]:
    users = str(load.streams)
    return [
        "-f", str(servers.HERE / "peers_users.py"), "--headless", "--host", load.url, "-u", users, "-r", users,
        "-t", f"{load.seconds:.0f}s", "--stop-timeout", "10", "--only-summary", "--loglevel", "WARNING",
        "--llm-model", MODEL, "--llm-no-preflight", "--llm-json", str(load.folder / "run.json"),
    ]  # fmt: skip


def ours_read(load: Load) -> Reported:
    every = next(name for name in json.loads((load.folder / "run.json").read_text())["names"] if name["name"] is None)

    def both(name: str) -> tuple[float | None, float | None]:
        told = every["summary"].get(name, {}).get("percentiles", {})
        return told.get("p50", {}).get("value"), told.get("p99", {}).get("value")

    return Reported(every["counts"]["succeeded"], every["figures"]["output_throughput"], both("ttft"), both("itl"))


PEERS = {
    "ours": Peer("locust-llm", "locust", ours_command, ours_read),
    "guidellm": Peer("guidellm", "guidellm", guidellm_command, guidellm_read),
    "aiperf": Peer("aiperf", "aiperf", aiperf_command, aiperf_read),
    "vllm": Peer("vllm", "vllm", vllm_command, vllm_read),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--mode", choices=("even", "bursts"), default="even")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each run, about")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    for name in ("guidellm", "aiperf", "vllm"):
        parser.add_argument(f"--{name}", type=Path, metavar="VENV", help=f"virtual environment with {name}")
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    programs = {"ours": Path(sys.executable).with_name("locust"), **installed(options)}
    print(header(COLUMNS))
    rows: list[dict[str, Any]] = []
    for streams in options.streams:
        for name, program in programs.items():
            row = measure(name, program, streams, options)
            if row is not None:
                rows.append(row)
                print(line(row), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": runs.machine(), "rows": rows}, indent=1))


def installed(options: argparse.Namespace) -> dict[str, Path]:
    """The programs of the tools that can be run; says which are left out, and why."""
    found = {}
    for name, peer in PEERS.items():
        if name == "ours":
            continue
        folder: Path | None = getattr(options, name)
        if folder is None:
            print(f"# {name}: left out; name its virtual environment with --{name} VENV")
        elif not (folder / "bin" / peer.program).exists():
            print(f"# {name}: left out; there is no {folder / 'bin' / peer.program}")
        else:
            found[name] = (folder / "bin" / peer.program).absolute()
    return found


def measure(name: str, program: Path, streams: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """One tool at one number of streams; None, said, when it does not end well."""
    peer = PEERS[name]
    with (
        servers.truth_server(runs.SERVER_CORE, bursts=options.mode == "bursts") as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        load = Load(url, streams, options.tokens, options.seconds, Path(folder))
        plan = Plan(name, url, "", streams, options.tokens, 0.0, options.seconds)
        quiet = {"NO_COLOR": "1", "OPENAI_API_KEY": "none"}
        command = servers.pinned(runs.CLIENT_CORE, [str(program), *peer.command(load)])
        try:
            done = subprocess.run(
                command, cwd=folder, env={**plan.environment(), **quiet}, capture_output=True, text=True,
                timeout=options.seconds + EXTRA_S,
            )  # fmt: skip
            truth = servers.truth_stats(url)
            said = peer.read(load)
        except subprocess.TimeoutExpired:
            print(f"# {name} with {streams} streams did not end within {options.seconds + EXTRA_S:.0f} s")
            return None
        except (OSError, StopIteration, KeyError, ValueError) as error:
            words = (done.stderr or done.stdout).strip().splitlines()[-6:]
            print(f"# {name} with {streams} streams left nothing to read ({error!r}); exit {done.returncode}:", *words)
            return None
    version = version_of(program, peer)
    return {"streams": streams, "tool": name, "version": version, "mode": options.mode, **vars(said), "truth": truth}


def version_of(program: Path, peer: Peer) -> str:
    """What is installed beside the program."""
    ask = f"from importlib.metadata import version; print(version({peer.distribution!r}))"
    done = subprocess.run([program.with_name("python"), "-c", ask], capture_output=True, text=True)
    return done.stdout.strip()


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    truth = row["truth"]
    cells = (
        row["streams"], row["tool"], row["version"][:9], number(row["requests"], 0), number(row["tokens_per_s"], 0),
        *(number(value, 2) for value in row["ttft_ms"]), *(number(truth["ttft_ms"][q], 2) for q in ("p50", "p99")),
        *(number(value, 2) for value in row["itl_ms"]), *(number(truth["itl_ms"][q], 2) for q in ("p50", "p99")),
    )  # fmt: skip
    return " ".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))


if __name__ == "__main__":
    main()
