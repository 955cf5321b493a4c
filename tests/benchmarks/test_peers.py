"""What benchmarks/peers.py reads of the files that other tools leave, as they were seen to leave them."""

from __future__ import annotations

import importlib
import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module; what it imports by short names does not stay."""
    monkeypatch.syspath_prepend(str(FOLDER))
    known = set(sys.modules)
    yield importlib.import_module("peers")
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(FOLDER)):
            del sys.modules[name]


GUIDELLM = {
    "benchmarks": [
        {
            "metrics": {
                "request_totals": {"successful": 40, "errored": 0, "incomplete": 0, "total": 40},
                "output_tokens_per_second": {"successful": {"mean": 949.7, "percentiles": {"p50": 735.3}}},
                "time_to_first_token_ms": {"successful": {"percentiles": {"p50": 102.1, "p99": 110.9}}},
                "inter_token_latency_ms": {"successful": {"percentiles": {"p50": 20.0, "p99": 20.1}}},
            }
        }
    ]
}
AIPERF = {
    "request_count": {"unit": "requests", "avg": 40.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 926.0},
    "time_to_first_token": {"unit": "ms", "p50": 121.2, "p99": 136.6},
    "inter_chunk_latency": {"unit": "ms", "p50": 20.0, "p99": 28.1},
    "inter_token_latency": {"unit": "ms", "p50": 20.1, "p99": 20.4},
}
VLLM = {
    "completed": 40,
    "output_throughput": 930.5,
    "median_ttft_ms": 123.7,
    "p99_ttft_ms": 131.9,
    "median_itl_ms": 20.0,
    "p99_itl_ms": 23.6,
}
OURS = {
    "names": [
        {"name": "chat"},
        {
            "name": None,
            "counts": {"succeeded": 40},
            "figures": {"output_throughput": 964.0},
            "summary": {
                "ttft": {"percentiles": {"p50": {"value": 100.1}, "p99": {"value": 100.7}}},
                "itl": {"percentiles": {"p50": {"value": 20.0}, "p99": {"value": 22.4}}},
            },
        },
    ]
}

LEFT = [
    pytest.param("guidellm", "guidellm.json", GUIDELLM, (40, 949.7, (102.1, 110.9), (20.0, 20.1)), id="guidellm"),
    pytest.param(
        "aiperf", "a/profile_export_aiperf.json", AIPERF, (40, 926.0, (121.2, 136.6), (20.0, 28.1)), id="aiperf"
    ),
    pytest.param("vllm", "vllm.json", VLLM, (40, 930.5, (123.7, 131.9), (20.0, 23.6)), id="vllm"),
    pytest.param("ours", "run.json", OURS, (40, 964.0, (100.1, 100.7), (20.0, 22.4)), id="ours"),
]


def load(peers: ModuleType, folder: Path, **told: Any) -> Any:
    return peers.Load(**({"url": "http://h", "streams": 20, "tokens": 128, "seconds": 5.0, "folder": folder} | told))


@pytest.mark.parametrize(("tool", "file", "content", "expected"), LEFT)
def test_what_a_tool_reports(
    tool: str, file: str, content: Any, expected: tuple[Any, ...], peers: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    said = peers.PEERS[tool].read(load(peers, tmp_path))
    assert (said.requests, said.tokens_per_s, said.ttft_ms, said.itl_ms) == expected


@pytest.mark.parametrize("tool", ["ours", "guidellm", "aiperf", "vllm"])
def test_every_tool_is_asked_for_the_same(tool: str, peers: ModuleType, tmp_path: Path) -> None:
    words = " ".join(peers.PEERS[tool].command(load(peers, tmp_path)))
    assert "http://h" in words
    assert "20" in words
    assert tool == "ours" or "40" in words  # ours runs by the clock


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 20), (5.0, 40), (8.0, 60)])
def test_requests_fill_the_seconds(seconds: float, expected: int, peers: ModuleType, tmp_path: Path) -> None:
    assert load(peers, tmp_path, seconds=seconds).requests == expected


def test_tools_that_are_missing_are_named(
    peers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bin" / "aiperf"
    program.parent.mkdir()
    program.touch()
    found = peers.installed(Namespace(guidellm=None, aiperf=tmp_path, vllm=tmp_path))
    assert found == {"aiperf": program}
    said = capsys.readouterr().out
    assert "guidellm: left out; name its virtual environment" in said
    assert f"vllm: left out; there is no {tmp_path / 'bin' / 'vllm'}" in said
