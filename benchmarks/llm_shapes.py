"""What every peer of ``benchmarks.llm`` computes: the sizes of two Llamas, their weights, and the
cases that are timed. Needs NumPy only, so that the environments of all peers can read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a Llama with tied embeddings.

    Attributes:
        vocab: The tokens it knows.
        hidden: The elements of a token's row.
        layers: The number of layers.
        heads: The query heads of a layer.
        kv_heads: The heads of keys and values.
        between: The rows of the gate of a layer.
        theta: The base of rotary positions.
        eps: What is added to a mean square.
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    between: int
    theta: float = 10000.0
    eps: float = 1e-5

    @property
    def dim(self) -> int:
        """The elements of a head."""
        return self.hidden // self.heads

    @property
    def qkv(self) -> int:
        """The rows of the joined weights of queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.dim

    @property
    def weight_bytes(self) -> int:
        """The bytes of all float32 weights that a step reads, the embeddings once."""
        layer = self.hidden * (self.qkv + self.heads * self.dim + 3 * self.between + 2)
        return 4 * (self.vocab * self.hidden + self.layers * layer + self.hidden)

    def cache_bytes(self, tokens: int) -> int:
        """The bytes of the keys and values of ``tokens``, float32."""
        return 4 * 2 * self.layers * self.kv_heads * self.dim * tokens


MODELS = {
    "135m": Sizes(vocab=49152, hidden=576, layers=30, heads=9, kv_heads=3, between=1536),
    "1b": Sizes(vocab=128256, hidden=2048, layers=16, heads=32, kv_heads=8, between=8192),
    "4blocks": Sizes(vocab=8192, hidden=1024, layers=4, heads=16, kv_heads=4, between=2816),
    "tiny": Sizes(vocab=512, hidden=256, layers=2, heads=4, kv_heads=2, between=512),
}
"""Those of SmolLM-135M and Llama 3.2 1B, whose weights are random here; ``4blocks`` is a row of
``benchmarks.performance``, and ``tiny`` is for trying."""


@dataclass(frozen=True)
class Case:
    """One forward pass.

    Attributes:
        new: The new tokens of each sequence.
        cached: The tokens of each sequence that are cached.
    """

    new: int
    cached: tuple[int, ...]


CASES = {
    "decode_256": Case(1, (256,)),
    "decode_2048": Case(1, (2048,)),
    "prefill_512": Case(512, (0,)),
    "decode_8": Case(1, (129, 190, 222, 256, 256, 290, 322, 383)),
}
"""``decode_8`` has 256 tokens cached in the mean; only a peer with ragged batches runs it."""


def weights(sizes: Sizes) -> Iterator[tuple[str, Array]]:
    """The weights by name, float32 ``[out, in]``: the same ones in every process. Those of queries,
    keys and values are joined, and so are the gate and the up projection.
    """
    std = 0.02

    def drawn(name: str, *shape: int) -> tuple[str, Array]:
        made = np.random.default_rng(zlib.crc32(name.encode())).random(shape, np.float32)
        made -= 0.5
        made *= std * 12**0.5
        return name, made

    yield drawn("embed", sizes.vocab, sizes.hidden)
    for n in range(sizes.layers):
        yield f"layers.{n}.norm1", np.ones(sizes.hidden, np.float32)
        yield drawn(f"layers.{n}.qkv", sizes.qkv, sizes.hidden)
        yield drawn(f"layers.{n}.out", sizes.hidden, sizes.heads * sizes.dim)
        yield f"layers.{n}.norm2", np.ones(sizes.hidden, np.float32)
        yield drawn(f"layers.{n}.gate_up", 2 * sizes.between, sizes.hidden)
        yield drawn(f"layers.{n}.down", sizes.hidden, sizes.between)
    yield "norm", np.ones(sizes.hidden, np.float32)


def tokens(sizes: Sizes, count: int) -> Array:
    """The first ``count`` tokens of a prompt, int64; those of other sequences are the same."""
    return np.random.default_rng(7).integers(0, sizes.vocab, 4096)[:count]


__all__ = ["CASES", "MODELS", "Array", "Case", "Sizes", "tokens", "weights"]
