"""Settings: our options as one frozen value, parsed again at the start of each test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from locust_llm.measure.expression import parse_share, parse_time
from locust_llm.measure.gate import Gate, parse_gate
from locust_llm.measure.slo import PRESETS, Slo, parse_slo, parse_target
from locust_llm.plugin.option import read_value
from locust_llm.plugin.options import OPTIONS
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.lengths import Lengths, parse_lengths


@dataclass(frozen=True, slots=True)
class Settings:
    """One attribute per option, named without its `--llm-`; `slo` holds those of the preset, too."""

    api: str
    no_stream: bool
    model: str
    ab: str
    api_key_env: str
    header: tuple[str, ...]
    extra_body: dict[str, Any]
    input_tokens: Lengths
    output_tokens: Lengths | None
    calibrate_lengths: bool
    shared_prefix: float
    prefixes: int
    dataset: str
    dataset_format: str
    turns: Lengths
    think_time: float
    trace: str
    trace_speed: float
    prompt_file: str
    max_tokens: int
    temperature: float
    seed: int | None
    ignore_eos: bool
    connect_timeout: float
    stall_timeout: float
    timeout: float
    retry_after_cap: float
    proxy: str
    ca_cert: str
    insecure: bool
    no_preflight: bool
    warmup: int
    rate: float
    arrivals: str
    burstiness: float
    rate_from: float
    rate_ramp: float
    arrivals_file: str
    max_in_flight: int
    shape: str
    steps: str
    max_users: int
    max_rate: float
    step_time: float
    server_metrics: str
    repeat: int
    no_probe: bool
    log: str
    slo: tuple[Slo, ...]
    slo_preset: str
    slo_target: float
    stall: float
    gate: tuple[Gate, ...]
    strict: bool
    junit: str
    markdown: str
    max_requests: int
    max_total_tokens: int
    stop_on_errors: float | None
    note: str
    tokenizer: str
    price_in: float | None
    price_out: float | None
    price_cached: float | None
    json: str
    html: str
    records: str
    sim: str
    min_tokens: int

    @classmethod
    def parse(cls, parsed_options: Any) -> Settings:
        """Read `environment.parsed_options` (None: all defaults); raises ConfigurationError."""
        values: dict[str, Any] = {}
        for option in OPTIONS:
            raw: Any = getattr(parsed_options, option.dest, option.default)
            try:
                if option.many:
                    values[option.dest] = tuple(str(read_value(option, item)) for item in raw or ())
                else:
                    values[option.dest] = read_value(option, raw)
            except ValueError as error:
                raise ConfigurationError(str(error)) from None
        named = {dest.removeprefix("llm_"): value for dest, value in values.items()}
        named["extra_body"] = _merged(named["extra_body"])
        named["slo"] = tuple(parse_slo(text) for text in named["slo"]) + PRESETS.get(named["slo_preset"], ())
        named["slo_target"] = parse_target(named["slo_target"])
        named["stall"] = parse_time(named["stall"] or "250ms")
        named["gate"] = tuple(parse_gate(text) for text in named["gate"])
        named["input_tokens"] = parse_lengths(named["input_tokens"] or "500")
        named["turns"] = parse_lengths(named["turns"] or "4")
        named["output_tokens"] = parse_lengths(named["output_tokens"]) if named["output_tokens"] else None
        if named["shared_prefix"] > 1:
            raise ConfigurationError(f"--llm-shared-prefix is a share from 0 to 1, not {named['shared_prefix']:g}")
        named["stop_on_errors"] = parse_share(named["stop_on_errors"]) if named["stop_on_errors"] else None
        return cls(**named)


def _merged(objects: tuple[str, ...]) -> dict[str, Any]:
    """The JSON objects given to --llm-extra-body, later ones over earlier ones."""
    merged: dict[str, Any] = {}
    for text in objects:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigurationError(
                f"--llm-extra-body is not JSON: {error.msg} at character {error.pos + 1}"
            ) from None
        if not isinstance(value, dict):
            raise ConfigurationError("--llm-extra-body takes a JSON object, such as '{\"top_p\": 0.9}'")
        merged |= value
    return merged
