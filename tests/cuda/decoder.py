"""A causal decoder of four layers as models have it: RMS norms, rotary positions, grouped heads,
SwiGLU. Random weights; the same code on any device, and in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.compiler.interpret import Array

F32 = DType.float32


@dataclass
class Sizes:
    """How large it is."""

    layers: int = 4
    hidden: int = 64
    heads: int = 4
    groups: int = 2
    wide: int = 160
    words: int = 97

    @property
    def dim(self) -> int:
        """Of a head."""
        return self.hidden // self.heads


@dataclass
class Decoder:
    """The weights, and the graph over them."""

    sizes: Sizes = field(default_factory=Sizes)
    seed: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        s = self.sizes
        shapes: dict[str, tuple[int, ...]] = {"words": (s.words, s.hidden), "norm": (s.hidden,)}
        for n in range(s.layers):
            shapes |= {
                f"{n}.norm1": (s.hidden,),
                f"{n}.q": (s.hidden, s.heads * s.dim),
                f"{n}.k": (s.hidden, s.groups * s.dim),
                f"{n}.v": (s.hidden, s.groups * s.dim),
                f"{n}.o": (s.heads * s.dim, s.hidden),
                f"{n}.norm2": (s.hidden,),
                f"{n}.gate": (s.hidden, s.wide),
                f"{n}.up": (s.hidden, s.wide),
                f"{n}.down": (s.wide, s.hidden),
            }
        self.weights: dict[str, Array] = {}
        for name, shape in shapes.items():
            scale = shape[0] ** -0.5 if len(shape) == 2 and name != "words" else 1.0
            self.weights[name] = (rng.standard_normal(shape) * scale).astype(np.float32)

    def graph(self, device: DeviceRef) -> Graph:
        """The graph on ``device``, from tokens [batch, seq] to logits."""
        type = TensorType(DType.int64, ["batch", "seq"], device)
        with Graph("decoder", input_types=[type]) as graph:
            graph.output(self._forward(graph.inputs[0].tensor, device))
        return graph

    def _forward(self, tokens: TensorValue, device: DeviceRef) -> TensorValue:
        s = self.sizes

        def w(name: str) -> TensorValue:
            array = self.weights[name]
            return ops.constant_external(name, TensorType(F32, array.shape, device))

        batch, seq = tokens.shape
        places = ops.cast(ops.range(0, seq, dtype=DType.int64, device=device), F32)
        rates = ops.constant(
            10_000.0 ** (-np.arange(0, s.dim, 2) / s.dim).astype(np.float32), F32, device
        )
        angles = ops.unsqueeze(places, -1) * rates  # [seq, dim / 2]
        turn = ops.cos(angles), ops.sin(angles)
        rows = ops.unsqueeze(ops.range(0, seq, dtype=DType.int64, device=device), -1)
        keys = ops.unsqueeze(ops.range(0, seq, dtype=DType.int64, device=device), 0)
        hidden = ops.constant(-np.inf, F32, device)

        def norm(x: TensorValue, name: str) -> TensorValue:
            return x * ops.rsqrt(ops.mean(x * x) + 1e-5) * w(name)

        def heads(x: TensorValue, count: int) -> TensorValue:
            return ops.permute(ops.reshape(x, (batch, seq, count, s.dim)), [0, 2, 1, 3])

        def rotated(x: TensorValue) -> TensorValue:
            low, high = x[..., : s.dim // 2], x[..., s.dim // 2 :]
            c, n = turn
            return ops.concat([low * c - high * n, high * c + low * n], axis=-1)

        def grouped(x: TensorValue) -> TensorValue:  # each head of k and v serves several of q
            each = s.heads // s.groups
            x = ops.broadcast_to(ops.unsqueeze(x, 2), (batch, s.groups, each, seq, s.dim))
            return ops.reshape(x, (batch, s.heads, seq, s.dim))

        x = ops.gather(w("words"), tokens, axis=0)
        for n in range(s.layers):
            y = norm(x, f"{n}.norm1")
            q = rotated(heads(y @ w(f"{n}.q"), s.heads))
            k = grouped(rotated(heads(y @ w(f"{n}.k"), s.groups)))
            v = grouped(heads(y @ w(f"{n}.v"), s.groups))
            scores = ops.matmul(q, ops.transpose(k, 2, 3)) * s.dim**-0.5
            scores = ops.where(rows >= keys, scores, hidden)
            mixed = ops.permute(ops.matmul(ops.softmax(scores), v), [0, 2, 1, 3])
            x = x + ops.reshape(mixed, (batch, seq, s.hidden)) @ w(f"{n}.o")
            y = norm(x, f"{n}.norm2")
            x = x + (ops.silu(y @ w(f"{n}.gate")) * (y @ w(f"{n}.up"))) @ w(f"{n}.down")
        return norm(x, "norm") @ ops.transpose(w("words"), 0, 1)

    def expected(self, tokens: Array) -> Array:
        """The logits in float64."""
        s = self.sizes
        w = {name: array.astype(np.float64) for name, array in self.weights.items()}
        batch, seq = tokens.shape
        angles = np.arange(seq)[:, None] * 10_000.0 ** (-np.arange(0, s.dim, 2) / s.dim)
        c, n_ = np.cos(angles), np.sin(angles)

        def norm(x: Array, name: str) -> Array:
            return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name])

        def heads(x: Array, count: int) -> Array:
            return x.reshape(batch, seq, count, s.dim).transpose(0, 2, 1, 3)

        def rotated(x: Array) -> Array:
            low, high = x[..., : s.dim // 2], x[..., s.dim // 2 :]
            return np.concatenate([low * c - high * n_, high * c + low * n_], -1)

        def silu(x: Array) -> Array:
            return np.asarray(x / (1 + np.exp(-x)))

        x = w["words"][tokens]
        for n in range(s.layers):
            y = norm(x, f"{n}.norm1")
            q = rotated(heads(y @ w[f"{n}.q"], s.heads))
            k = rotated(heads(y @ w[f"{n}.k"], s.groups)).repeat(s.heads // s.groups, 1)
            v = heads(y @ w[f"{n}.v"], s.groups).repeat(s.heads // s.groups, 1)
            scores = q @ k.swapaxes(-1, -2) / np.sqrt(s.dim)
            scores = np.where(np.tril(np.ones((seq, seq), bool)), scores, -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (e / e.sum(-1, keepdims=True)) @ v
            x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, seq, -1) @ w[f"{n}.o"]
            y = norm(x, f"{n}.norm2")
            x = x + (silu(y @ w[f"{n}.gate"]) * (y @ w[f"{n}.up"])) @ w[f"{n}.down"]
        return np.asarray(norm(x, "norm") @ w["words"].T)
