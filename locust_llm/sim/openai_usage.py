"""The usage object of OpenAI's APIs."""

from __future__ import annotations

from locust_llm.sim.ask import Usage


def usage_json(usage: Usage) -> bytes:
    """As JSON; cached tokens only when the engine has a prefix cache."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    details = b""
    if usage.cached_tokens is not None:
        details = b',"prompt_tokens_details":{"cached_tokens":%d}' % usage.cached_tokens
    counts = (prompt, prompt + completion, completion, details)
    return b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d%b}' % counts
