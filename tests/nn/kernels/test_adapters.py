"""Products with the matrices of adapters, against one product for each sequence in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ExecutionError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue
from maxlab.nn import kernels
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

CPU, F32, U32 = DeviceRef.CPU(), DType.float32, DType.uint32
RNG = np.random.default_rng(31)
SLOTS, INPUTS, OUTPUTS, RANK = 3, 72, 20, 6
IDS, RANKS = np.array([1, -1, 2, 0], np.int32), np.array([4, 0, 6, 1], np.uint32)
BOUNDS = np.array([0, 3, 5, 11, 12], np.uint32)
TOKENS = 14
"""Two more than groups have: rows of the base."""


def _matrices(*shape: int, cut: str, parts: int = 1) -> Array:
    """Matrices of all adapters; what is behind the rank of an adapter is NaN."""
    made = RNG.standard_normal(shape).astype(np.float32)
    for adapter, rank in zip(IDS, RANKS, strict=True):
        if adapter < 0:
            continue
        if cut == "columns":
            made[adapter, :, rank:] = np.nan
        else:
            made[adapter].reshape(parts, -1, shape[2])[:, rank:] = np.nan
    return made


def _added(x: Array, a: Array, b: Array, bias: Array | None = None) -> Array:
    """What each row gets of its adapter, in float64."""
    made = np.zeros((len(x), b.shape[1]))
    for adapter, rank, first, end in zip(IDS, RANKS, BOUNDS[:-1], BOUNDS[1:], strict=True):
        if adapter >= 0:
            low = x[first:end].astype(np.float64) @ a[adapter, :rank].astype(np.float64).T
            made[first:end] = low @ b[adapter, :, :rank].astype(np.float64).T
            if bias is not None:
                made[first:end] += bias[adapter]
    return made


def _run(place: DeviceRef, arrays: Sequence[Array], body: Any) -> Array:
    types = [TensorType(DType.from_numpy(a.dtype), a.shape, place) for a in arrays]
    with Graph("adapters", input_types=types) as graph:
        graph.output(body(*(value.tensor for value in graph.inputs)))
    (found,) = session(place).load(graph)(*(at(a, place) for a in arrays))
    return numpy(found)


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16], ids=str)
def test_adapters_of_several_ranks_and_the_base_in_one_batch(
    place: DeviceRef, dtype: DType
) -> None:
    kind = dtype.ml_numpy
    x = RNG.standard_normal((TOKENS, INPUTS)).astype(kind)
    x[3:5] = np.inf  # rows of the base: nothing is computed of them
    a = _matrices(SLOTS, RANK, INPUTS, cut="rows").astype(kind)
    b = _matrices(SLOTS, OUTPUTS, RANK, cut="columns").astype(kind)
    bias = RNG.standard_normal((SLOTS, OUTPUTS)).astype(kind)

    def body(x: Any, a: Any, b: Any, bias: Any, ids: Any, ranks: Any, bounds: Any) -> TensorValue:
        return kernels.sgmv_lora_kernel(x, a, b, ids, ranks, bounds, 6, bias)

    found = _run(place, [x, a, b, bias, IDS, RANKS, BOUNDS], body)
    close = 1e-4 if dtype is F32 else 0.3
    np.testing.assert_allclose(
        found.astype(np.float64), _added(x, a, b, bias), rtol=close / 10, atol=close
    )
    assert not found[3:5].any()
    assert not found[12:].any()


def test_either_matrix_alone(place: DeviceRef) -> None:
    x = RNG.standard_normal((TOKENS, INPUTS)).astype(np.float32)
    a = _matrices(SLOTS, RANK, INPUTS, cut="rows")
    b = _matrices(SLOTS, OUTPUTS, RANK, cut="columns")
    numbers: list[Array] = [IDS.astype(np.int64), RANKS.astype(np.int32), BOUNDS.astype(np.int64)]

    def body(x: Any, a: Any, b: Any, ids: Any, ranks: Any, bounds: Any) -> TensorValue:
        low = kernels.sgmv_kernel(x, a, ids, ranks, bounds, 6)
        assert low.shape == [TOKENS, RANK]
        return kernels.sgmv_kernel(low, b, ids, ranks, bounds, 6)

    found = _run(place, [x, a, b, *numbers], body)
    np.testing.assert_allclose(found, _added(x, a, b), rtol=1e-4, atol=1e-4)


def test_a_matrix_with_fewer_outputs_than_its_rank() -> None:
    x = RNG.standard_normal((TOKENS, RANK)).astype(np.float32)
    b = _matrices(SLOTS, 4, RANK, cut="columns")

    def body(x: Any, b: Any, ids: Any, ranks: Any, bounds: Any) -> TensorValue:
        return kernels.sgmv_kernel(x, b, ids, ranks, bounds, 6, expand=True)

    found = _run(CPU, [x, b, IDS, RANKS, BOUNDS], body)
    whole = np.stack([np.eye(RANK)] * SLOTS)
    np.testing.assert_allclose(found, _added(x, whole, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_keys_and_values_change_in_the_cache(place: DeviceRef, biased: bool) -> None:
    params, layer = Params(), 1
    width, queries = 16, 32
    cached, new = [5, 0, 9], [3, 2, TOKENS - 5]
    cache, wanted = Cache(params, cached, new), Cache(params, cached, new)
    k, v = (RNG.standard_normal((TOKENS, 2, 8)).astype(np.float32) for _ in range(2))
    for each in (cache, wanted):
        each.stored(layer, 0, k)
        each.stored(layer, 1, v)
    x = RNG.standard_normal((TOKENS, INPUTS)).astype(np.float32)
    a = _matrices(SLOTS, 3 * RANK, INPUTS, cut="rows", parts=3)
    b = _matrices(SLOTS, queries + 2 * width, RANK, cut="columns")
    bias = [RNG.standard_normal((SLOTS, queries + 2 * width)).astype(np.float32)] * biased

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, a, b, ids, ranks, bounds, *shift = rest
        return [
            kernels.sgmv_qkv_lora_kernel(
                x, a, b, ids, ranks, offsets, bounds, values, params, layer, 6, RANK, queries,
                width, *shift,
            )
        ]  # fmt: skip

    (q,) = run(cache, place, layer, [x, a, b, IDS, RANKS, BOUNDS, *bias], body)
    ends = np.cumsum([0, queries, width, width])
    parts = [
        _added(x, a[:, n * RANK : (n + 1) * RANK], b[:, i:j], bias[0][:, i:j] if biased else None)
        for n, (i, j) in enumerate(itertools.pairwise(ends))
    ]
    np.testing.assert_allclose(q, parts[0], rtol=1e-4, atol=1e-4)
    wanted.stored(layer, 0, k.reshape(TOKENS, -1) + parts[1])
    wanted.stored(layer, 1, v.reshape(TOKENS, -1) + parts[2])
    np.testing.assert_allclose(cache.blocks, wanted.blocks, rtol=1e-4, atol=1e-4)
    for row, seq, position in cache.rows():
        if 3 <= row < 5 or row >= 12:  # of the base: not a bit changes
            page, slot = cache.slot(seq, position)
            np.testing.assert_array_equal(cache.blocks[page, 0, layer, slot], k[row])


def test_keys_alone(place: DeviceRef) -> None:
    params = Params()
    pair = Cache(params, [5, 0, 9], [3, 2, 9]), Cache(params, [5, 0, 9], [3, 2, 9])
    k = RNG.standard_normal((TOKENS, 16)).astype(np.float32)
    for each in pair:
        each.stored(0, 0, k)
    x = RNG.standard_normal((TOKENS, INPUTS)).astype(np.float32)
    a = _matrices(SLOTS, RANK, INPUTS, cut="rows")
    b = _matrices(SLOTS, 16, RANK, cut="columns")

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, a, b, ids, ranks, bounds = rest
        kernels.lora_kv_cache_add(
            params, values, x, a, b, ids, ranks, offsets, bounds, layer, part=0
        )
        return []

    run(pair[0], place, 0, [x, a, b, IDS, RANKS, BOUNDS], body)
    pair[1].stored(0, 0, k + _added(x, a, b))
    np.testing.assert_allclose(pair[0].blocks, pair[1].blocks, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("ids", "ranks"),
    [([3, 0], [1, 1]), ([-2, 0], [1, 1]), ([0, 1], [1, RANK + 1])],
    ids=["no such adapter", "below the base", "a rank above the largest"],
)
def test_numbers_out_of_range_end_the_run(
    place: DeviceRef, ids: list[int], ranks: list[int]
) -> None:
    x = RNG.standard_normal((4, INPUTS)).astype(np.float32)
    a = RNG.standard_normal((SLOTS, RANK, INPUTS)).astype(np.float32)
    b = RNG.standard_normal((SLOTS, OUTPUTS, RANK)).astype(np.float32)
    numbers = [np.array(ids, np.int32), np.array(ranks, np.uint32), np.array([0, 2, 4], np.uint32)]

    def body(x: Any, a: Any, b: Any, ids: Any, ranks: Any, bounds: Any) -> TensorValue:
        return kernels.sgmv_lora_kernel(x, a, b, ids, ranks, bounds, 6)

    with pytest.raises(ExecutionError) as caught:
        _run(place, [x, a, b, *numbers], body)
    assert caught.value.code == "ML652"


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"x": (TOKENS, INPUTS - 1)}, ShapeError, "ML659"),
        ({"b": (SLOTS, OUTPUTS, RANK - 1)}, ShapeError, "ML659"),
        ({"b": (SLOTS + 1, OUTPUTS, RANK)}, ShapeError, "ML659"),
        ({"bias": (SLOTS, OUTPUTS - 1)}, ShapeError, "ML659"),
        ({"dtype": DType.float16}, DTypeError, "ML666"),
        ({"ids": DType.float32}, DTypeError, "ML666"),
        ({"longest": 0}, ArgumentError, "ML667"),
    ],
    ids=["inputs", "ranks", "adapters", "bias", "dtype", "ids", "longest"],
)
def test_what_does_not_fit_is_refused(
    change: dict[str, Any], error: type[Exception], code: str
) -> None:
    types = [
        TensorType(F32, change.get("x", (TOKENS, INPUTS))),
        TensorType(change.get("dtype", F32), (SLOTS, RANK, INPUTS)),
        TensorType(F32, change.get("b", (SLOTS, OUTPUTS, RANK))),
        TensorType(change.get("ids", DType.int32), [4]),
        TensorType(U32, [4]),
        TensorType(U32, [5]),
        TensorType(F32, change.get("bias", (SLOTS, OUTPUTS))),
    ]
    with Graph("adapters", input_types=types) as graph:
        x, a, b, ids, ranks, bounds, bias = (value.tensor for value in graph.inputs)
        with pytest.raises(error) as caught:
            kernels.sgmv_lora_kernel(x, a, b, ids, ranks, bounds, change.get("longest", 6), bias)
        graph.output()
    assert getattr(caught.value, "code", None) == code
    assert isinstance(caught.value, ValueError)
