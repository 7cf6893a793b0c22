"""Multi-head latent attention over a paged cache, against attention over keys and values that
NumPy makes of its vectors in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.nn import kernels
from tests.cpu_and_gpu import session
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

RNG = np.random.default_rng(17)
LATENT, ROPE, NOPE, VALUE, HEADS, LAYER = 7, 4, 5, 6, 3, 1
DIM = LATENT + ROPE
CACHED, NEW = [5, 0, 9, 0], [3, 1, 6, 0]
CLOSE = {DType.float32: 2e-6, DType.float64: 1e-12, DType.bfloat16: 3e-2, DType.float16: 4e-3}


def _params(dtype: DType = DType.float32) -> Params:
    return Params(dtype, n_kv_heads_per_device=1, head_dim=DIM, page_size=4, is_mla=True)


def _random(*shape: int, dtype: DType = DType.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype.ml_numpy)


def _cache(
    dtype: DType = DType.float32, cached: Sequence[int] = CACHED, new: Sequence[int] = NEW
) -> Cache:
    """A cache with the vectors of its new tokens."""
    made = Cache(_params(dtype), cached, new)
    made.stored(LAYER, 0, _random(made.tokens, 1, DIM, dtype=dtype))
    return made


def _vectors(cache: Cache, seq: int) -> Array:
    """All vectors of a sequence, float64."""
    total = int(cache.lengths[seq] + cache.offsets[seq + 1] - cache.offsets[seq])
    places = [cache.slot(seq, position) for position in range(total)]
    found = [cache.blocks[page, 0, LAYER, slot, 0] for page, slot in places]
    return np.array(found, np.float64).reshape(total, DIM)


def _expanded(vectors: Array, weight: Array) -> tuple[Array, Array]:
    """Keys, with what is turned, and values of vectors."""
    both = vectors[:, :LATENT] @ weight.astype(np.float64).T
    both = both.reshape(len(vectors), HEADS, NOPE + VALUE)
    turned = np.repeat(vectors[:, None, LATENT:], HEADS, 1)
    return np.concatenate([both[..., :NOPE], turned], -1), both[..., NOPE:]


def _attended(cache: Cache, q: Array, weight: Array, mask: str = "0", scale: float = 0.4) -> Array:
    """The attention of ``q`` over keys and values of whole sequences."""
    made = np.zeros((len(q), HEADS, VALUE))
    for row, seq, position in cache.rows():
        keys, values = _expanded(_vectors(cache, seq), weight)
        if mask != "2":
            keys, values = keys[: position + 1], values[: position + 1]
        scores = np.einsum("hd,khd->hk", q[row].astype(np.float64), keys) * scale
        if mask == "1":  # slopes of three heads: 2^-4, 2^-8, and the one between that is left
            slopes = np.array([2.0**-4, 2.0**-8, 2.0**-2])
            scores -= np.outer(slopes, position - np.arange(len(keys)))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        made[row] = np.einsum("hk,khv->hv", weights, values)
    return made


def _prefill(
    cache: Cache, place: DeviceRef, q: Array, weight: Array, size: int, mask: str = "0"
) -> list[Array]:
    """The attention by chunks of ``size`` tokens, and the state of each softmax."""
    total = int(cache.lengths.sum()) + cache.tokens
    chunks = -(-total // size) + 1
    params: Any = cache.params

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        q, weight = rest
        starts, firsts, counts = kernels.flare_mla_prefill_plan(
            params, offsets, values, layer, size, chunks
        )
        before: tuple[TensorValue, ...] = ()
        for n in range(chunks):
            both = kernels.flare_mla_decompress_k_cache(
                params, starts[n], firsts[n], counts[n], weight, values, layer, size
            )
            both = ops.reshape(both, [size, HEADS, NOPE + VALUE])
            before = kernels.flare_mla_prefill_ragged(
                params, q, both[..., :NOPE], both[..., NOPE:], offsets, starts[n], firsts[n],
                values, layer, mask, 0.4, ROPE, *before,
            )  # fmt: skip
        return list(before)

    return run(cache, place, LAYER, [q, weight], body)


@pytest.mark.parametrize("size", [3, 8, 64])
@pytest.mark.parametrize("mask", ["0", "1", "2"])
def test_prefill_by_chunks_is_attention_at_once(place: DeviceRef, size: int, mask: str) -> None:
    cache = _cache()
    q = _random(cache.tokens, HEADS, NOPE + ROPE)
    weight = _random(HEADS * (NOPE + VALUE), LATENT)
    before = cache.blocks.copy()
    y, _ = _prefill(cache, place, q, weight, size, mask)
    np.testing.assert_allclose(y, _attended(cache, q, weight, mask), rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(cache.blocks.view(np.uint8), before.view(np.uint8))


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_prefill_of_each_dtype(place: DeviceRef, dtype: DType) -> None:
    cache = _cache(dtype)
    q = _random(cache.tokens, HEADS, NOPE + ROPE, dtype=dtype)
    weight = _random(HEADS * (NOPE + VALUE), LATENT, dtype=dtype)
    y, state = _prefill(cache, place, q, weight, 10)
    assert y.dtype == dtype.ml_numpy
    assert state.dtype == (np.float64 if dtype is DType.float64 else np.float32)
    wanted = _attended(cache, q, weight)
    np.testing.assert_allclose(y.astype(float), wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def test_the_state_is_the_largest_score_and_the_sum(place: DeviceRef) -> None:
    cache = _cache()
    q, weight = _random(10, HEADS, NOPE + ROPE), _random(HEADS * (NOPE + VALUE), LATENT)
    _, state = _prefill(cache, place, q, weight, 5)
    for row, seq, position in cache.rows():
        keys, _ = _expanded(_vectors(cache, seq)[: position + 1], weight)
        scores = np.einsum("hd,khd->hk", q[row].astype(float), keys) * 0.4
        np.testing.assert_allclose(state[row, :, 0], scores.max(1), rtol=1e-5, atol=1e-6)
        sums = np.exp(scores - scores.max(1, keepdims=True)).sum(1)
        np.testing.assert_allclose(state[row, :, 1], sums, rtol=1e-5)


@pytest.mark.parametrize("mask", ["0", "1", "2"])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_decode(place: DeviceRef, mask: str, dtype: DType) -> None:
    """Queries brought into the space of vectors see what those of the heads see."""
    cache, params = _cache(dtype), _params(dtype)
    q, weight = _random(10, HEADS, NOPE + ROPE), _random(HEADS * (NOPE + VALUE), LATENT)
    parts = weight.reshape(HEADS, NOPE + VALUE, LATENT)
    inside = np.einsum("thn,hnl->thl", q[..., :NOPE], parts[:, :NOPE])
    absorbed = np.concatenate([inside, q[..., NOPE:]], -1).astype(dtype.ml_numpy)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return [
            kernels.flare_mla_decode_ragged(
                params, rest[0], offsets, values, layer, mask, 0.4, ROPE
            )
        ]

    (y,) = run(cache, place, LAYER, [absorbed], body)
    assert y.shape == (10, HEADS, LATENT)
    assert y.dtype == dtype.ml_numpy
    made = np.einsum("thl,hvl->thv", y.astype(float), parts[:, NOPE:])
    close = max(CLOSE[dtype], 2e-6) * 4
    np.testing.assert_allclose(made, _attended(cache, q, weight, mask), rtol=close, atol=close)


@pytest.mark.parametrize("width", [LATENT, DIM])
def test_vectors_of_a_chunk(place: DeviceRef, width: int) -> None:
    cache, params, size = _cache(), _params(), 9
    wanted = np.concatenate([_vectors(cache, seq) for seq in range(4)])[:, :width]

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        starts, firsts, counts = kernels.flare_mla_prefill_plan(
            params, offsets, values, layer, size, 4
        )
        return [
            counts,
            *(
                kernels.k_cache_to_buffer(
                    params, starts[n], firsts[n], values, layer, counts[n], size, width
                )
                for n in range(4)
            ),
        ]

    counts, *found = run(cache, place, LAYER, [], body)
    assert counts.tolist() == [9, 9, 6, 0]
    np.testing.assert_array_equal(np.concatenate(found)[:24], wanted.astype(np.float32))
    assert not np.concatenate(found)[24:].any()


def test_a_plan(place: DeviceRef) -> None:
    """Three sequences of 8, 1 and 15 tokens, and one of none, in buffers of 7."""
    cache, params = _cache(), _params()

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return list(kernels.flare_mla_prefill_plan(params, offsets, values, layer, 7, 5))

    starts, firsts, counts = run(cache, place, LAYER, [], body)
    assert starts.tolist() == [
        [0, 7, 7, 7, 7], [0, 1, 2, 7, 7], [0, 0, 0, 7, 7], [0, 0, 0, 3, 3], [0, 0, 0, 0, 0],
    ]  # fmt: skip
    assert firsts[:4].tolist() == [[0, 0, 0, 0], [7, 0, 0, 0], [8, 1, 5, 0], [8, 1, 12, 0]]
    assert counts.tolist() == [7, 7, 7, 3, 0]
    assert (starts.dtype, firsts.dtype, counts.dtype) == (np.uint32, np.uint32, np.int32)


def test_vectors_are_written_by_products_and_changed(place: DeviceRef) -> None:
    """One part of a page: the product, the norm of the first columns, and the last ones turned."""
    cache, params = Cache(_params(), CACHED, NEW), _params()
    wanted = Cache(_params(), CACHED, NEW)
    x, weight, gamma = _random(10, 8), _random(DIM, 8), _random(LATENT)
    angles = np.arange(30)[:, None] * 50.0 ** (-np.arange(ROPE // 2) / (ROPE // 2))
    table = np.stack([np.cos(angles), np.sin(angles)], -1).reshape(30, ROPE).astype(np.float32)
    q = _random(10, HEADS, ROPE)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, weight, gamma, table, q = rest
        q = ops.rebind(q, [x.shape[0], HEADS, ROPE])
        kernels.matmul_k_cache_ragged(params, x, offsets, weight, values, layer)
        kernels.rms_norm_key_cache(
            params, values, gamma, 1e-6, layer, x.shape[0], offsets, 0.0, LATENT
        )
        return [kernels.fused_qk_ragged_rope(params, q, offsets, values, table, layer, True)]

    (turned,) = run(cache, place, LAYER, [x, weight, gamma, table, q], body)
    made = x.astype(np.float64) @ weight.T
    first = made[:, :LATENT]
    made[:, :LATENT] = first * gamma / np.sqrt((first**2).mean(1, keepdims=True) + 1e-6)
    at = angles[[position for _, _, position in wanted.rows()]]

    def rotated(rows: Array) -> Array:
        z = (rows[..., ::2] + 1j * rows[..., 1::2]) * np.exp(1j * at)[:, None]
        return np.stack([z.real, z.imag], -1).reshape(rows.shape)

    made[:, LATENT:] = rotated(made[:, None, LATENT:])[:, 0]
    wanted.stored(LAYER, 0, made[:, None])
    np.testing.assert_allclose(cache.blocks, wanted.blocks, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(turned, rotated(q), rtol=1e-5, atol=1e-5)


def test_a_length_that_the_buffer_does_not_have_ends_the_run(place: DeviceRef) -> None:
    cache, params = _cache(), _params()

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        starts, firsts, counts = kernels.flare_mla_prefill_plan(
            params, offsets, values, layer, 9, 3
        )
        return [
            kernels.k_cache_to_buffer(
                params, starts[0], firsts[0], values, layer, counts[0] + 1, 9, LATENT
            )
        ]

    with pytest.raises(ExecutionError, match="ML652"):
        run(cache, place, LAYER, [], body)


@pytest.mark.parametrize("known", [True, False], ids=["weight", "input"])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_a_product_of_many_rows_and_columns(place: DeviceRef, dtype: DType, known: bool) -> None:
    """More than a thread or a block makes at once, with a weight of the model or of the run."""
    cache, params, size = _cache(dtype, [90, 40], [0, 1]), _params(dtype), 200
    weight = _random(300, LATENT, dtype=dtype)

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        starts, firsts, counts = kernels.flare_mla_prefill_plan(
            params, offsets, values, layer, size, 1
        )
        right = ops.constant(weight, dtype, place) if known else rest[1]
        return [
            kernels.flare_mla_decompress_k_cache(
                params, starts[0], firsts[0], counts[0], right, values, layer, size
            )
        ]

    (y,) = run(cache, place, LAYER, [] if known else [_random(1), weight], body)
    vectors = np.concatenate([_vectors(cache, seq) for seq in range(2)])[:, :LATENT]
    wanted = vectors @ weight.astype(np.float64).T
    close = CLOSE[dtype] * 4
    np.testing.assert_allclose(y[:131].astype(float), wanted, rtol=close, atol=close)
    assert y.shape == (200, 300)
    assert not y[131:].astype(float).any()


def test_what_numpy_computes_is_what_kernels_compute() -> None:
    """The reference of each op, which ``maxlab.compare`` holds kernels against."""
    cache, params = _cache(), _params()
    q, weight = _random(10, HEADS, NOPE + ROPE), _random(HEADS * (NOPE + VALUE), LATENT)
    inside = _random(10, HEADS, DIM)
    types = [TensorType(DType.float32, ["tokens", *x.shape[1:]]) for x in (q, inside)]
    with Graph("all", input_types=[*cache.types(DeviceRef.CPU()), *types]) as graph:
        blocks, lengths, table, most, offsets, number, left, right = graph.inputs
        values = Values(blocks.buffer, lengths.tensor, table.tensor, most.tensor)
        starts, firsts, counts = kernels.flare_mla_prefill_plan(
            params, offsets.tensor, values, number.tensor, 16, 2
        )
        found: list[TensorValue] = []
        before: tuple[TensorValue, ...] = ()
        for n in range(2):
            place = (values, number.tensor)
            found.append(
                kernels.k_cache_to_buffer(
                    params, starts[n], firsts[n], *place, counts[n], 16, LATENT
                )
            )
            both = kernels.flare_mla_decompress_k_cache(
                params, starts[n], firsts[n], counts[n], ops.constant(weight), *place, 16
            )
            found.append(both)
            both = ops.reshape(both, [16, HEADS, NOPE + VALUE])
            before = kernels.flare_mla_prefill_ragged(
                params, left.tensor, both[..., :NOPE], both[..., NOPE:], offsets.tensor, starts[n],
                firsts[n], *place, "1", 0.4, ROPE, *before,
            )  # fmt: skip
        found += before
        found.append(
            kernels.flare_mla_decode_ragged(
                params, right.tensor, offsets.tensor, *place, "0", 0.4, ROPE
            )
        )
        graph.output(*found)
    limits = np.array([[6, 15]], np.uint32)
    layer = np.array(LAYER, np.uint32)
    given = (cache.blocks, cache.lengths, cache.table, limits, cache.offsets, layer, q, inside)
    report = maxlab.compare(session(DeviceRef.CPU()).load(graph), *given)
    assert report.ok, str(report)
