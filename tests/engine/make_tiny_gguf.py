#!/usr/bin/env python3
"""Make a small, deterministic llama-architecture GGUF without downloading anything.

Theory of operation. The attention and feed-forward outputs are zero, so the residual stream is the embedding of the
last token, and the output matrix says which token follows which. Whatever the prompt, decoding spells TEXT token by
token and ends with EOS: text, token count, finish reason and split characters are known in advance on every CPU,
while llama.cpp still does all its real work (tokenizing, batching, KV cache, attention, sampling). With `ignore_eos`
the text starts again. --layers, --dim and --ffn only set how much work a token costs.

Runs in .engine (needs gguf and numpy): make_tiny_gguf.py OUT.gguf [--layers 2] [--dim 256] [--ffn 512] [--ctx 8192]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import gguf
import numpy as np
from tiny_text import TEXT, pieces

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
SPECIAL = [BOS, EOS, PAD, "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that set a token's cost."""

    layers: int
    dim: int
    ffn: int
    context: int

    @property
    def heads(self) -> int:
        return max(1, self.dim // 64)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens as GPT-2's byte-level BPE writes them, the merges that make them, and the chain that spells TEXT."""

    tokens: list[str]
    merges: list[str]
    chain: list[str]

    @property
    def all(self) -> list[str]:
        return SPECIAL + self.tokens

    def id_of(self, token: str) -> int:
        return self.all.index(token)


def byte_alphabet() -> dict[int, str]:
    """GPT-2's byte → printable character table."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    rest = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(256 + place) for place, byte in enumerate(rest)}


def build_vocabulary() -> Vocabulary:
    """256 byte tokens, then the merges that make each ASCII word of TEXT one token."""
    alphabet = byte_alphabet()
    tokens = [alphabet[byte] for byte in range(256)]
    merges: list[str] = []
    chain: list[str] = []
    for piece in pieces():
        word = "".join(alphabet[byte] for byte in piece.encode())
        if not piece.isascii():
            chain += list(word)
            continue
        for end in range(1, len(word)):
            head, last = word[:end], word[end]
            if head + last not in tokens:
                merges.append(f"{head} {last}")
                tokens.append(head + last)
        chain.append(word)
    twice = sorted({token for token in chain if chain.count(token) > 1})
    if twice:
        sys.exit(f"tokens used twice in TEXT: {twice}")
    return Vocabulary(tokens, merges, chain)


def chain_matrices(vocabulary: Vocabulary, dim: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Embedding and output matrix (vocabulary × dim, float16) in which each token of the chain calls for the next."""
    size = len(vocabulary.all)
    path = [vocabulary.id_of(token) for token in vocabulary.chain]
    embedding = np.sign(rng.standard_normal((size, dim))).astype(np.float32)
    outside = np.ones(size, bool)
    outside[path] = False
    start = embedding[0].copy()
    embedding[outside] = start  # any token outside the chain leads to its first one
    output = np.zeros((size, dim), np.float32)
    output[path[0]] = start + 0.5 * embedding[path[-1]]  # so does the last one, when EOS is forbidden
    for current, following in zip(path, [*path[1:], vocabulary.id_of(EOS)], strict=True):
        output[following] += embedding[current]
    return embedding.astype(np.float16), (output * (16.0 / dim)).astype(np.float16)


def write_metadata(writer: gguf.GGUFWriter, shape: Shape, vocabulary: Vocabulary) -> None:
    writer.add_name("tiny-chain")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_dimension_count(shape.dim // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary.all))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.all)
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * len(vocabulary.tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.id_of(BOS))
    writer.add_eos_token_id(vocabulary.id_of(EOS))
    writer.add_pad_token_id(vocabulary.id_of(PAD))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def write_tensors(writer: gguf.GGUFWriter, shape: Shape, vocabulary: Vocabulary) -> None:
    rng = np.random.default_rng(7)

    def noise(*size: int) -> np.ndarray:
        return (rng.standard_normal(size) * size[-1] ** -0.5).astype(np.float16)

    embedding, output = chain_matrices(vocabulary, shape.dim, rng)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(shape.dim, np.float32))
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", np.ones(shape.dim, np.float32))
        writer.add_tensor(block + "ffn_norm.weight", np.ones(shape.dim, np.float32))
        for name in ("attn_q", "attn_k", "attn_v"):
            writer.add_tensor(f"{block}{name}.weight", noise(shape.dim, shape.dim))
        writer.add_tensor(block + "attn_output.weight", np.zeros((shape.dim, shape.dim), np.float16))
        writer.add_tensor(block + "ffn_gate.weight", noise(shape.ffn, shape.dim))
        writer.add_tensor(block + "ffn_up.weight", noise(shape.ffn, shape.dim))
        writer.add_tensor(block + "ffn_down.weight", np.zeros((shape.dim, shape.ffn), np.float16))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--ctx", type=int, default=8192)
    options = parser.parse_args()
    shape = Shape(options.layers, options.dim, options.ffn, options.ctx)
    vocabulary = build_vocabulary()
    writer = gguf.GGUFWriter(options.out, "llama")
    write_metadata(writer, shape, vocabulary)
    write_tensors(writer, shape, vocabulary)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{options.out}: {len(vocabulary.all)} tokens, says {TEXT!r}")


if __name__ == "__main__":
    main()
