"""How attention cuts its work on a CPU: rows one by one and in blocks, keys in chunks that threads
share. Against a loop over heads in float64, and against itself in other batches."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.nn import kernels
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheInputSymbols, PagedCacheValues
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

HOST = DeviceRef.CPU()
RNG = np.random.default_rng(4)
SEES = {
    "0": (-1, lambda i, j: j <= i),
    "2": (-1, lambda i, j: True),
    "3": (40, lambda i, j: j <= i and j // 40 == i // 40),
    "4": (19, lambda i, j: i - 19 < j <= i),
}


def attend(cache: Cache, q: Array, variant: str, *sinks: Array) -> Array:
    window, _ = SEES[variant]

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, *more = rest
        return [
            kernels.flash_attention_ragged(
                cache.params, x, offsets, values, layer, variant, 0.3, window, *more
            )
        ]

    (y,) = run(cache, HOST, 1, [q, *sinks], body)
    return y


def filled(params: Params, cached: list[int], new: list[int], seed: int = 1) -> Cache:
    cache = Cache(params, cached, new, seed=seed)
    kind = params.dtype.ml_numpy
    shape = (cache.tokens, params.n_kv_heads_per_device, params.head_dim)
    for part in (0, 1):
        cache.stored(1, part, RNG.standard_normal(shape).astype(kind))
    return cache


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16, DType.float16], ids=str)
@pytest.mark.parametrize("sizes", [(3, 16, 5), (1, 40, 32), (4, 64, 128), (7, 9, 3)], ids=str)
@pytest.mark.parametrize("variant", SEES)
def test_blocks_of_rows(variant: str, sizes: tuple[int, int, int], dtype: DType) -> None:
    """Several sequences in a block, one in several blocks, one of a single row, one of none."""
    group, dim, page = sizes
    params = Params(dtype, 2, dim, page)
    cache = filled(params, [300, 0, 7, 2], [1, 150, 0, 40])
    q = RNG.standard_normal((cache.tokens, 2 * group, dim)).astype(dtype.ml_numpy)
    sinks = RNG.standard_normal(2 * group).astype(dtype.ml_numpy)
    found = attend(cache, q, variant, sinks).astype(float)
    wanted = cache.attended(q, 1, 0.3, SEES[variant][1], sinks)
    close = {DType.float32: 3e-6, DType.bfloat16: 2e-2, DType.float16: 2e-3}[dtype]
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


@pytest.mark.parametrize("length", [127, 128, 129, 600, 2500])
@pytest.mark.parametrize("sizes", [(3, 64, 128), (1, 10, 7)], ids=str)
def test_chunks_of_keys(sizes: tuple[int, int, int], length: int) -> None:
    """One row behind many keys: in chunks, of which long sequences have no more but longer ones."""
    group, dim, page = sizes
    cache = filled(Params(DType.float32, 2, dim, page), [length], [1])
    q = RNG.standard_normal((1, 2 * group, dim)).astype(np.float32)
    wanted = cache.attended(q, 1, 0.3, SEES["0"][1])
    np.testing.assert_allclose(attend(cache, q, "0"), wanted, rtol=2e-5, atol=2e-6)


def test_a_row_gives_the_same_bits_in_any_batch() -> None:
    """Alone its chunks are shared out among threads, beside many rows they are not."""
    params = Params(DType.float32, 2, 16, 8)
    sequences = 45
    lengths = [*RNG.integers(1, 700, sequences - 1).tolist(), 600]
    cache = filled(params, lengths, [1] * sequences)
    q = RNG.standard_normal((sequences, 4, 16)).astype(np.float32)
    together = attend(cache, q, "0")
    for count in (1, 2, 5, 11, 16, 31, 32):
        few = Cache(params, lengths[-count:], [1] * count)
        few.blocks, few.table = cache.blocks, cache.table[-count:]
        np.testing.assert_array_equal(attend(few, q[-count:], "0"), together[-count:])


def test_no_rows() -> None:
    cache = Cache(Params(), [5], [0])
    assert attend(cache, np.zeros((0, 4, 8), np.float32), "0").shape == (0, 4, 8)


def test_pages_that_are_missing_end_a_run_of_many_rows() -> None:
    cache = filled(Params(), [0], [50])
    cache.table[0, 9] = len(cache.blocks)
    with pytest.raises(ExecutionError, match="ML652"):
        attend(cache, np.zeros((50, 4, 8), np.float32), "0")


def test_rows_without_a_cache() -> None:
    """The same text without pages: 70 rows of three sequences, of which one is known in part."""
    lengths, known = [40, 1, 29], np.array([40, 1, 20], np.uint32)
    shape, dtype = (70, 2, 24), DType.float32
    q, k, v = (RNG.standard_normal(shape).astype(np.float32) for _ in range(3))
    offsets = np.cumsum([0, *lengths]).astype(np.uint32)
    types = [TensorType(dtype, shape, HOST)] * 3
    numbers = [TensorType(DType.uint32, [size], HOST) for size in (4, 3)]
    with Graph("rows", input_types=[*types, *numbers]) as graph:
        x = [value.tensor for value in graph.inputs]
        graph.output(ops.ragged_attention(*x, scale=0.3, mask="causal", window=0))
    (found,) = engine.InferenceSession().load(graph)(q, k, v, offsets, known)
    for first, count, last in zip(offsets, known, offsets[1:], strict=False):
        rows = slice(first, first + count)
        scores = np.einsum("ihd,jhd->hij", q[rows], k[rows]).astype(float) * 0.3
        scores[:, ~np.tri(count, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        wanted = np.einsum("hij,jhd->ihd", weights, v[rows])
        np.testing.assert_allclose(found.to_numpy()[rows], wanted, rtol=1e-5, atol=1e-6)
        assert not found.to_numpy()[first + count : last].any()


def test_pages_that_no_sequence_has_are_not_counted() -> None:
    """The bytes that a profile says depend on the pages of sequences, not on how many there are."""
    params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=16, page_size=128)
    symbols = PagedCacheInputSymbols.of(params, 1, HOST)
    types = [TensorType(DType.float32, ["tokens", 64], HOST), TensorType(DType.uint32, ["n"], HOST)]
    with Graph("counted", input_types=[*types, *symbols]) as graph:
        x, offsets = (value.tensor for value in graph.inputs[:2])
        cache, layer = PagedCacheValues.of(graph.inputs[2:]), ops.constant(0, DType.uint32, HOST)
        weight = ops.constant(np.ones((128, 64), np.float32))
        q = kernels.fused_qkv_ragged_matmul(params, x, offsets, weight, cache, layer, 4)
        q = ops.reshape(q, [-1, 4, 16])
        graph.output(kernels.flash_attention_ragged(params, q, offsets, cache, layer, "0", 0.25))
    model = engine.InferenceSession().load(graph)
    counted = {step.name: step.nbytes for step in model.plan.steps if "cache" in step.name}
    parts = ("store_check", "store_copy", "attention_attend", "attention_join")
    assert set(counted) == {f"cache.{part}" for part in parts}
    for name, nbytes in counted.items():
        assert "total_num_pages" not in nbytes.symbols(), name
    one = {"tokens": 1, "n": 2, "batch_size": 1, "max_num_pages": 3, "total_num_pages": 1000}
    attended = counted["cache.attention_attend"].evaluate(one)
    pages = 3 * 128 * 2 * 2 * 16 * 4
    assert pages < attended < pages * 1.1
