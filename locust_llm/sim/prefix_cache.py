"""The engine's prefix cache: which blocks of prompt tokens it still knows, oldest use out first.

A prompt comes as the hashes of its whole blocks, each hash covering everything before it, so that equal hashes mean
equal prefixes. Blocks count only from the front: the first unknown one ends the hit.
"""

from __future__ import annotations

from collections.abc import Sequence as Blocks

BLOCK_TOKENS = 16


class PrefixCache:
    """Least-recently-used blocks, bounded by `capacity_tokens` (rounded down to whole blocks)."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity = capacity_tokens // BLOCK_TOKENS
        self._known: dict[int, None] = {}

    def cached_tokens(self, blocks: Blocks[int], prompt_tokens: int) -> int:
        """Prompt tokens that need no prefill; at least the last token of a prompt is always computed."""
        hits = 0
        for block in blocks:
            if block not in self._known:
                break
            hits += 1
        for block in reversed(blocks[:hits]):
            self._touch(block)
        return min(hits * BLOCK_TOKENS, prompt_tokens - 1)

    def store(self, blocks: Blocks[int]) -> None:
        """Remembers a computed prompt. The front of a prompt is touched last: a prefix outlives what follows it."""
        for block in reversed(blocks[: self._capacity]):
            self._touch(block)
        while len(self._known) > self._capacity:
            del self._known[next(iter(self._known))]

    def _touch(self, block: int) -> None:
        self._known.pop(block, None)
        self._known[block] = None


def word_blocks(words: list[str]) -> list[int]:
    """The chained hashes of a prompt's whole blocks, one token a word (comparable within one process only)."""
    chain, blocks = 0, []
    for start in range(0, len(words) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        chain = hash((chain, *words[start : start + BLOCK_TOKENS]))
        blocks.append(chain)
    return blocks
