"""Attention over a paged cache against a loop over heads in float64, on the CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue
from maxlab.nn import kernels
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

RNG = np.random.default_rng(3)
BATCHES = [([5, 0, 9], [3, 1, 6]), ([0, 7], [0, 1]), ([3], [9]), ([2, 2, 2], [0, 0, 4])]
"""Cached and new tokens of sequences: lengths of 0 and 1, and pages that are crossed."""


def same(cache: Cache, before: Array) -> None:
    """Raises unless the pages of ``cache`` have the bits of ``before``."""
    np.testing.assert_array_equal(cache.blocks.view(np.uint8), before.view(np.uint8))


@pytest.mark.parametrize(("cached", "new"), BATCHES)
def test_a_write_touches_new_tokens_of_one_layer(
    place: DeviceRef, cached: Sequence[int], new: Sequence[int]
) -> None:
    params = Params(page_size=4)
    cache, wanted = (Cache(params, cached, new) for _ in range(2))
    x, weight = _random(cache.tokens, 6), _random(32, 6)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        kernels.matmul_kv_cache_ragged(params, rest[0], offsets, rest[1], values, layer)
        return []

    run(cache, place, 1, [x, weight], body)
    made = x @ weight.T
    wanted.stored(1, 0, made[:, :16])
    wanted.stored(1, 1, made[:, 16:])
    untouched = np.isnan(wanted.blocks)
    np.testing.assert_allclose(cache.blocks, wanted.blocks, rtol=1e-5, atol=1e-6)
    assert np.isnan(cache.blocks[untouched]).all()
    same_layer = cache.blocks[:, :, 0]
    np.testing.assert_array_equal(same_layer, wanted.blocks[:, :, 0])


@pytest.mark.parametrize(("cached", "new"), BATCHES)
def test_causal(place: DeviceRef, cached: Sequence[int], new: Sequence[int]) -> None:
    params = Params()
    cache = Cache(params, cached, new)
    k, v = _random(cache.tokens, 2, 8), _random(cache.tokens, 2, 8)
    cache.stored(1, 0, k)
    cache.stored(1, 1, v)
    before, q = cache.blocks.copy(), _random(cache.tokens, 6, 8)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return [kernels.flash_attention_ragged(params, rest[0], offsets, values, layer, "0", 0.3)]

    (y,) = run(cache, place, 1, [q], body)
    np.testing.assert_allclose(y, cache.attended(q, 1, 0.3), rtol=1e-5, atol=1e-6)
    same(cache, before)


MASKS: dict[str, tuple[str, int, Callable[[int, int], bool]]] = {
    "causal": ("0", -1, lambda i, j: j <= i),
    "null": ("2", -1, lambda i, j: True),
    "chunk": ("3", 3, lambda i, j: j <= i and j // 3 == i // 3),
    "window": ("4", 4, lambda i, j: i - 4 < j <= i),
    "window of one": ("4", 1, lambda i, j: i == j),
    "wide window": ("4", 100, lambda i, j: j <= i),
}


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16, DType.float16], ids=str)
@pytest.mark.parametrize("sinks", [False, True], ids=["", "sinks"])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(place: DeviceRef, mask: str, sinks: bool, dtype: DType) -> None:
    params = Params(dtype, n_kv_heads_per_device=2, head_dim=5, page_size=3)
    cache = Cache(params, [5, 0, 9], [3, 1, 6], seed=7)
    for part in (0, 1):
        cache.stored(1, part, _random(cache.tokens, 2, 5).astype(dtype.ml_numpy))
    if mask == "window of one":  # the pages before the window are given back
        cache.blocks[cache.table[2, 0]] = np.nan
    q = _random(cache.tokens, 4, 5).astype(dtype.ml_numpy)
    extra = [_random(4).astype(dtype.ml_numpy)] if sinks else []
    variant, window, sees = MASKS[mask]
    (y,) = _attend(cache, place, [q, *extra], variant, window)
    wanted = cache.attended(q, 1, 0.7, sees, *extra)
    close = {DType.float32: 2e-6, DType.bfloat16: 2e-2, DType.float16: 2e-3}[dtype]
    np.testing.assert_allclose(y.astype(float), wanted, rtol=close, atol=close)


@pytest.mark.parametrize("heads", [2, 6])
def test_alibi(place: DeviceRef, heads: int) -> None:
    """The biases of the paper: powers of two, and for other numbers of heads those between."""
    cache = Cache(Params(), [4], [5])
    for part in (0, 1):
        cache.stored(1, part, _random(5, 2, 8))
    q = _random(5, heads, 8)
    slopes = {2: [2**-4, 2**-8], 6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]}[heads]
    (y,) = _attend(cache, place, [q], "1", -1)
    page, slot = np.array([cache.slot(0, j) for j in range(9)]).T
    keys, values = (cache.blocks[page, part, 1, slot].repeat(heads // 2, 1) for part in (0, 1))
    distance = np.arange(4, 9)[:, None] - np.arange(9)
    scores = np.einsum("ihd,jhd->hij", q, keys) * 0.7 - np.array(slopes)[:, None, None] * distance
    weights = np.exp(np.where(distance < 0, -np.inf, scores))
    wanted = np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), values)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


def _attend(
    cache: Cache, place: DeviceRef, arrays: Sequence[Array], variant: str, window: int
) -> list[Array]:
    """The attention of ``arrays``, queries and perhaps sinks, over the layer 1."""

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        q, *sinks = rest
        return [
            kernels.flash_attention_ragged(
                cache.params, q, offsets, values, layer, variant, 0.7, window, *sinks
            )
        ]

    return run(cache, place, 1, arrays, body)


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)
