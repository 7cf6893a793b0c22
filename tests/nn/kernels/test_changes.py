"""New keys and values that are changed in the cache, against NumPy on the whole of it."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.nn import kernels
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

RNG = np.random.default_rng(11)
CACHED, NEW, LAYER = [5, 0, 9], [3, 1, 6], 1


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _caches(params: Params) -> tuple[Cache, Cache, Array, Array]:
    """Two equal caches with new keys and values, and these."""
    pair = (Cache(params, CACHED, NEW), Cache(params, CACHED, NEW))
    shape = (10, params.n_kv_heads_per_device, params.head_dim)
    k, v = (_random(*shape).astype(params.dtype.ml_numpy) for _ in range(2))
    for cache in pair:
        cache.stored(LAYER, 0, k)
        cache.stored(LAYER, 1, v)
    return *pair, k, v


def _same(cache: Cache, wanted: Cache, close: float = 1e-5) -> None:
    """Raises unless all pages are equal, NaN where they were."""
    a, b = (x.blocks.astype(np.float64) for x in (cache, wanted))
    np.testing.assert_allclose(a, b, rtol=close, atol=close)


def _positions(cache: Cache) -> Array:
    return np.array([position for _, _, position in cache.rows()])


def _table(size: int) -> Array:
    """Cosine and sine of 40 positions, [40, size]."""
    angles = np.arange(40)[:, None] * 100.0 ** (-np.arange(size // 2) / (size // 2))
    return np.stack([np.cos(angles), np.sin(angles)], -1).reshape(40, size).astype(np.float32)


def _turned(x: Array, angles: Array, interleaved: bool) -> Array:
    """Each pair as a complex number, times those of ``angles``, [tokens, pairs, 2]."""
    size = x.shape[-1]
    a, b = (
        (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., : size // 2], x[..., size // 2 :])
    )
    z = (a + 1j * b) * (angles[..., 0] + 1j * angles[..., 1])[:, None]
    if interleaved:
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], -1)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16], ids=str)
def test_rope(place: DeviceRef, interleaved: bool, dtype: DType) -> None:
    params = Params(dtype)
    cache, wanted, k, _ = _caches(params)
    q, table = _random(10, 4, 8).astype(dtype.ml_numpy), _table(8)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return [
            kernels.fused_qk_ragged_rope(
                params, rest[0], offsets, values, rest[1], layer, interleaved
            )
        ]

    (y,) = run(cache, place, LAYER, [q, table], body)
    angles = table[_positions(wanted)].reshape(10, 4, 2)
    wanted.stored(LAYER, 0, _turned(k.astype(np.float32), angles, interleaved))
    close = 1e-5 if dtype is DType.float32 else 1e-2
    made = _turned(q.astype(np.float32), angles, interleaved)
    np.testing.assert_allclose(y.astype(np.float64), made, rtol=close, atol=close)
    _same(cache, wanted, close)


def test_rope_of_sections(place: DeviceRef) -> None:
    params = Params()
    cache, wanted, k, _ = _caches(params)
    q, table = _random(10, 2, 8), _table(8)
    ids = RNG.integers(0, 40, (3, 10)).astype(np.int64)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        q, table, ids = rest
        ids = ops.rebind(ids, [3, q.shape[0]])
        return [
            kernels.fused_qk_ragged_rope(
                params, q, offsets, values, table, layer, False, ids, [1, 1, 2]
            )
        ]

    (y,) = run(cache, place, LAYER, [q, table, ids], body)
    angles = table[ids].reshape(3, 10, 4, 2)
    mixed = np.stack([angles[s, :, n] for n, s in enumerate([0, 1, 2, 2])], 1)
    wanted.stored(LAYER, 0, _turned(k, mixed, False))
    np.testing.assert_allclose(y, _turned(q, mixed, False), rtol=1e-5, atol=1e-5)
    _same(cache, wanted)


@pytest.mark.parametrize(("columns", "per_head"), [(8, True), (16, False), (5, True), (11, False)])
def test_norm_of_keys(place: DeviceRef, columns: int, per_head: bool) -> None:
    params = Params()
    cache, wanted, k, _ = _caches(params)
    gamma = _random(columns)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        rows, gamma = rest
        kernels.rms_norm_key_cache(
            params, values, gamma, 1e-3, layer, rows.shape[0], offsets, 1.0, columns,
            per_head_norm=per_head,
        )  # fmt: skip
        return []

    run(cache, place, LAYER, [_random(10), gamma], body)
    made = k.reshape(10, *((2, 8) if per_head else (16,))).astype(np.float64)
    part = made[..., :columns]
    part *= (gamma + 1) / np.sqrt((part**2).mean(-1, keepdims=True) + 1e-3)
    wanted.stored(LAYER, 0, made)
    _same(cache, wanted)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_addition_to_the_last_sequences(place: DeviceRef, first: int) -> None:
    params = Params()
    cache, wanted, k, v = _caches(params)
    start = [0, 3, 4, 10][first]
    a = _random(10 - start, 32)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        kernels.kv_cache_ragged_radd(params, rest[0], values, offsets, rest[1], LAYER)
        return []

    run(cache, place, LAYER, [a, np.array(first, np.uint32)], body)
    for part, (old, more) in enumerate(((k, a[:, :16]), (v, a[:, 16:]))):
        made = old.copy()
        made[start:] += more.reshape(-1, 2, 8)
        wanted.stored(LAYER, part, made)
    _same(cache, wanted)


def test_fused_product(place: DeviceRef) -> None:
    """Queries come back, keys and values are in the cache, with a bias."""
    params = Params()
    cache, wanted, _, _ = _caches(params)
    x, w, bias = _random(10, 6), _random(64, 6), _random(64)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, w, bias = rest
        longest = kernels.kv_cache_get_max_seq_len(params, values)
        q = kernels.fused_qkv_ragged_matmul(params, x, offsets, w, values, layer, 4, bias)
        return [q, longest]

    y, longest = run(cache, place, LAYER, [x, w, bias], body)
    made = x @ w.T + bias
    wanted.stored(LAYER, 0, made[:, 32:48])
    wanted.stored(LAYER, 1, made[:, 48:])
    np.testing.assert_allclose(y, made[:, :32], rtol=1e-5, atol=1e-5)
    assert longest.tolist() == [6]
    _same(cache, wanted)


@pytest.mark.parametrize("mask", ["0", "2"])
def test_attention_over_other_tokens(place: DeviceRef, mask: str) -> None:
    """The keys of another text: of more, of fewer or of no tokens."""
    params, fresh = Params(), [0, 4, 2]
    cache = Cache(params, [0, 0, 9], fresh, seed=4)
    for part in (0, 1):
        cache.stored(LAYER, part, _random(6, 2, 8))
    q, rows = _random(10, 4, 8), np.cumsum([0, *NEW]).astype(np.uint32)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        q, own = rest
        most = kernels.kv_cache_get_max_seq_len(params, values)
        own = ops.rebind(own, [offsets.shape[0]])
        return [
            kernels.cross_attention_ragged(params, q, own, values, layer, mask, offsets, most, 0.5)
        ]

    (y,) = run(cache, place, LAYER, [q, rows], body)
    wanted = np.zeros(q.shape)
    for seq in range(3):
        total = int(cache.lengths[seq]) + fresh[seq]
        found = np.array([cache.slot(seq, j) for j in range(total)], int).reshape(-1, 2).T
        keys, values = (cache.blocks[found[0], p, LAYER, found[1]].repeat(2, 1) for p in (0, 1))
        for i in range(NEW[seq]):
            end = total if mask == "2" else min(int(cache.lengths[seq]) + i + 1, total)
            if end:
                row = int(rows[seq]) + i
                weights = np.exp(np.einsum("hd,jhd->hj", q[row], keys[:end]) * 0.5)
                weights /= weights.sum(1, keepdims=True)
                wanted[row] = np.einsum("hj,jhd->hd", weights, values[:end])
    assert not y[:3].any()
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
