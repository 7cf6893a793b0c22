"""The rows that are written out op by op: one body each, which torch, maxlab and MAX run alike.

A body gets the ops of whoever runs it, ``o``, then the inputs of a run, then the constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class Body:
    """A row of a few ops.

    Attributes:
        run: What it computes.
        inputs: The inputs of a run, float32 with the values that ``dtype`` can have.
        constants: What is known when a graph is compiled: weights.
        dtype: The type of inputs, constants and the result.
    """

    run: Callable[..., Any]
    inputs: Callable[[], Arrays]
    constants: Callable[[], Arrays] = tuple
    dtype: str = "float32"


def normal(seed: int, *shape: int, scale: float = 1.0) -> Array:
    """Normal numbers, float32, the same in every process."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)


def rounded(x: Array) -> Array:
    """``x`` with the values that bfloat16 has, ties to even."""
    bits = x.view(np.uint32)
    kept = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)


def product(m: int, k: int, n: int, dtype: str = "float32", both: bool = False) -> Body:
    """A product of ``m × k`` and ``k × n``, the right one a weight unless ``both`` are inputs."""
    cut = rounded if dtype == "bfloat16" else np.asarray

    def left() -> Array:
        return cut(normal(1, m, k))

    def right() -> Array:
        return cut(normal(2, k, n, scale=k**-0.5))

    if both:
        return Body(lambda o, x, w: o.matmul(x, w), lambda: (left(), right()), dtype=dtype)
    return Body(lambda o, x, w: o.matmul(x, w), lambda: (left(),), lambda: (right(),), dtype)


def batched(count: int, m: int, k: int, n: int) -> Body:
    """``count`` products of inputs."""
    return Body(
        lambda o, x, w: o.matmul(x, w),
        lambda: (normal(1, count, m, k), normal(2, count, k, n, scale=k**-0.5)),
    )


def attention(heads: int, queries: int, keys: int, size: int) -> Body:
    """Attention of inputs, each a head behind the other."""
    return Body(
        lambda o, q, k, v: o.attention(q, k, v),
        lambda: (
            normal(1, 1, heads, queries, size),
            normal(2, 1, heads, keys, size),
            normal(3, 1, heads, keys, size),
        ),
    )


def unary(run: Callable[..., Any], *shape: int, scale: float = 2.0) -> Body:
    """A function of one input."""
    return Body(run, lambda: (normal(1, *shape, scale=scale),))


def mixed(o: Any, x: Any, *weights: Any) -> Any:
    """200 small ops: 20 rounds of ten, each with a product, a norm, reductions and what lies
    between them."""
    for n in range(20):
        y = o.matmul(x, weights[n % 4])  # 1
        y = o.tanh(y + x)  # 2, 3
        scale = o.sigmoid(o.sum(y, -1) * 0.125)  # 4, 5, 6
        z = o.softmax(y) * scale  # 7, 8
        x = o.relu(z - y)  # 9, 10
    return x


def mlp(o: Any, x: Any, *weights: Any) -> Any:
    """Three layers, with gelu between them."""
    w1, b1, w2, b2, w3, b3 = weights
    y = o.gelu(o.matmul(x, w1) + b1)
    return o.matmul(o.gelu(o.matmul(y, w2) + b2), w3) + b3


def _layers(*sizes: int) -> Arrays:
    made: list[Array] = []
    for n, (k, width) in enumerate(itertools.pairwise(sizes)):
        made += [normal(10 + n, k, width, scale=k**-0.5), normal(20 + n, width, scale=0.1)]
    return tuple(made)


def kernels(count: int) -> Body:
    """``count`` results of one input, at most 4,096. Each is made of the input times a number of
    its own by three ops, which the digits of its number to the base of 16 choose: as many kernels,
    whose texts differ in more than in numbers."""

    def run(o: Any, x: Any) -> Any:
        choices: tuple[Callable[[Any], Any], ...] = (
            o.exp, o.tanh, o.sigmoid, o.erf, o.relu,
            lambda y: y + x, lambda y: y - x, lambda y: x - y, lambda y: y * x, lambda y: y / x,
            lambda y: x / y, lambda y: y * y, lambda y: y + 1.5, lambda y: 0.75 - y,
            lambda y: y * 0.125, lambda y: 0.5 / y,
        )  # fmt: skip
        made = []
        for n in range(count):
            y = x * (1 + n / 4096)
            for place in range(3):
                y = choices[n // 16**place % 16](y)
            made.append(y)
        return tuple(made)

    return unary(run, 4, 64, scale=0.5)


BODIES: dict[str, Body] = {
    "matmul_1024": product(1024, 1024, 1024),
    "matmul_1024_inputs": product(1024, 1024, 1024, both=True),
    "matmul_tall_8192x512x64": product(8192, 512, 64),
    "matmul_wide_64x512x8192": product(64, 512, 8192),
    "matmul_64x512x2048": product(64, 512, 2048),
    "matmul_512x4096x4096": product(512, 4096, 4096),
    "matmul_batched_32x256x64x256": batched(32, 256, 64, 256),
    "matmul_batched_32x1x512x64": batched(32, 1, 512, 64),
    "matmul_batched_12x512x512x64": batched(12, 512, 512, 64),
    "gemv_4096": product(1, 4096, 4096),
    "bf16_matmul_1024": product(1024, 1024, 1024, "bfloat16"),
    "bf16_matmul_512x4096x4096": product(512, 4096, 4096, "bfloat16"),
    "int8_matmul_512x4096x4096": product(512, 4096, 4096),
    "attention_8x512x512x64": attention(8, 512, 512, 64),
    "attention_8x16x1024x64": attention(8, 16, 1024, 64),
    "attention_2x1024x1024x128": attention(2, 1024, 1024, 128),
    "add_16m": unary(lambda o, x: o.relu(x * 2 + 1), 16, 1024, 1024),
    "tanh_sigmoid_4m": unary(lambda o, x: o.tanh(x) * o.sigmoid(x), 4, 1024, 1024),
    "softmax_4096x1024": unary(lambda o, x: o.softmax(x), 4096, 1024),
    "layer_norm_residual_4096x1024": Body(
        lambda o, x, r, w, b: o.layer_norm(x + r, w, b),
        lambda: (normal(1, 4096, 1024), normal(2, 4096, 1024)),
        lambda: (normal(3, 1024), normal(4, 1024)),
    ),
    "softmax_gelu_64x2048": Body(
        lambda o, x, b: o.softmax(o.gelu(x * 0.5 + b)),
        lambda: (normal(1, 64, 2048),),
        lambda: (normal(2, 2048),),
    ),
    "exp_1m": unary(lambda o, x: o.exp(x), 1024, 1024),
    "gelu_1m": unary(lambda o, x: o.gelu(x), 1024, 1024),
    "erf_1m": unary(lambda o, x: o.erf(x), 1024, 1024),
    "sum_rows_4096x1024": unary(lambda o, x: o.sum(x, -1), 4096, 1024),
    "sum_columns_4096x1024": unary(lambda o, x: o.sum(x, 0), 4096, 1024),
    "max_rows_4096x1024": unary(lambda o, x: o.max(x, -1), 4096, 1024),
    "mean_all_4m": unary(lambda o, x: o.mean(x, -1), 1, 4 << 20),
    "mlp_64x1024": Body(
        mlp, lambda: (normal(1, 64, 1024),), lambda: _layers(1024, 4096, 4096, 1024)
    ),
    "mixed_200_ops": Body(
        mixed,
        lambda: (normal(1, 32, 64),),
        lambda: tuple(normal(2 + n, 64, 64, scale=0.25) for n in range(4)),
    ),
    "dispatch": unary(lambda o, x: x + 1, 16),
    "kernels_4000": kernels(4000),
}
"""The rows of a few ops by name."""

FAST = ("tanh_sigmoid_4m", "gelu_1m", "softmax_gelu_64x2048")
"""Rows that are there twice: a row of the same name and ``_fast`` has maxlab with
``accuracy="fast"``."""
BODIES |= {f"{name}_fast": BODIES[name] for name in FAST}

FUNCTIONS = (
    "exp_1m", "gelu_1m", "erf_1m", "tanh_sigmoid_4m", "softmax_4096x1024", "gelu_1m_fast",
    "tanh_sigmoid_4m_fast",
)  # fmt: skip
"""Rows whose errors are told in units of the last place too."""
