"""Named engines to start from: each holds the settings that differ from the defaults, and says what it shows."""

from __future__ import annotations

from typing import Any

PROFILES: dict[str, dict[str, Any]] = {
    # A small accelerator serving interactive chat; the defaults.
    "chat": {},
    # Slots are the limit: step time hardly depends on the batch, so throughput grows until the slots are full.
    "slots": {"slots": 8, "decode_ms": 20.0, "decode_slope_ms": 0.0},
    # Decode contention is the limit: plenty of slots, every stream slows the others.
    "linear": {"slots": 256, "decode_ms": 12.0, "decode_slope_ms": 0.5},
    # Memory-bound until 32 streams, then compute-bound: throughput has a kink and a ceiling.
    "roofline": {"slots": 256, "decode_ms": 16.0, "decode_slope_ms": 0.5, "decode_law": "roofline"},
    # Prompts cost more than answers.
    "prefill": {"slots": 64, "prefill_tps": 2500.0, "decode_ms": 10.0, "decode_slope_ms": 0.05},
    # KV capacity is the limit: beyond it requests are preempted and computed again.
    "kv": {"slots": 256, "decode_ms": 15.0, "decode_slope_ms": 0.02, "kv_tokens": 12_000},
    # The front door is the limit.
    "limited": {"slots": 64, "rate_limit_rps": 5.0, "rate_limit_burst": 5},
    # A bounded queue behind few slots.
    "bounded": {"slots": 8, "max_queue": 8, "queue_status": 429},
    # Steps of constant length whatever the load, free prefill: what a client's stamps and capacity are measured on.
    "steady": {
        "slots": 4096,
        "step_tokens": 8192,
        "prefill_tps": float("inf"),
        "decode_ms": 20.0,
        "decode_slope_ms": 0.0,
    },
}
