"""Products of 8-bit floats: the product of what they stand for, on the CPU and a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import DTypeError, ExecutionError, MaxlabError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn import kernels
from maxlab.nn.float8_config import (
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from maxlab.opset.float8 import float8_numbers, random_float8
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.kernels.caches import Cache, Params, Values, run

Array = np.ndarray[Any, Any]
F32, BF16, FN, FNUZ = DType.float32, DType.bfloat16, DType.float8_e4m3fn, DType.float8_e4m3fnuz
RNG = np.random.default_rng(5)


def specs(kind: str, block: int = 0) -> tuple[Float8InputScaleSpec, Float8WeightScaleSpec]:
    """``tensor``, ``rows`` or ``blocks`` of inputs and weights."""
    names = {"tensor": ("TENSOR", "TENSOR"), "rows": ("COLWISE", "ROWWISE")}
    one, other = names.get(kind, ("BLOCK", "BLOCK"))
    dynamic = Float8ScaleOrigin.DYNAMIC
    sizes = ((1, block), (block, block)) if block else (None, None)
    return (
        Float8InputScaleSpec(Float8ScaleGranularity[one], dynamic, F32, block_size=sizes[0]),
        Float8WeightScaleSpec(Float8ScaleGranularity[other], F32, sizes[1]),
    )


def called(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What ``function`` makes of tensors and specs in one list."""
    return function(*given, **named)


def scales(*shape: int) -> Array:
    """Factors around 0.01."""
    return RNG.uniform(0.005, 0.02, shape).astype(np.float32)


def operands(kind: str, m: int, n: int, k: int, block: int = 0, dtype: DType = FN) -> list[Array]:
    """Codes and scales of both sides."""
    down, across = (-(-n // block), -(-k // block)) if block else (1, 1)
    shapes = {"tensor": ((1, 1), (1, 1)), "rows": ((1, m), (n, 1))}
    of_input, of_weight = shapes.get(kind, ((across, -(-m // 4) * 4), (down, across)))
    codes = [random_float8(RNG, shape, dtype) for shape in ((m, k), (n, k))]
    return [*codes, scales(*of_input), scales(*of_weight)]


def product(given: Sequence[Array], block: int = 0) -> Array:
    """The product of what the codes stand for, in float64."""
    a, b, a_scales, b_scales = given
    m = len(a)
    of_rows = a_scales.T if a_scales.shape != (1, 1) else a_scales
    rows = 1 if of_rows.shape[0] > 1 else 0
    left = float8_numbers(a, of_rows[:m], rows, block)
    down = block or (1 if b_scales.shape[0] > 1 else 0)
    made: Array = left @ float8_numbers(b, b_scales, down, block).T
    return made


def close(y: Array, wanted: Array) -> None:
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize(
    ("kind", "block", "m", "dtype"),
    [
        ("tensor", 0, 3, FN), ("rows", 0, 1, FN), ("rows", 0, 9, FNUZ), ("blocks", 32, 2, FN),
        ("blocks", 32, 13, FN), ("blocks", 48, 5, FNUZ),
    ],
)  # fmt: skip
def test_products(place: DeviceRef, kind: str, block: int, m: int, dtype: DType) -> None:
    given = operands(kind, m, 37, 100, block, dtype)

    def build(*x: Any) -> Any:
        return called(kernels.dynamic_scaled_matmul, *x, *specs(kind, block), out_type=F32)

    types = [TensorType(DType.from_numpy(a.dtype), a.shape, place) for a in given]
    graph = Graph("g", build, types)
    (y,) = session(place).load(graph).execute(*(at(a, place) for a in given))
    close(numpy(y), product(given, block=block))


def test_rows_whose_number_a_run_knows() -> None:
    for kind, block, m in (("rows", 0, "m"), ("blocks", 32, "m")):
        padded = "m" if not block else "p"
        types = [
            TensorType(FN, [m, 64]), TensorType(FN, [40, 64]),
            TensorType(F32, [2 if block else 1, padded]),
            TensorType(F32, [2, 2] if block else [40, 1]),
        ]  # fmt: skip

        def build(*x: Any, pair: Any = (kind, block)) -> Any:
            return called(kernels.dynamic_scaled_matmul, *x, *specs(*pair))

        graph = Graph("g", build, types)
        model = InferenceSession().load(graph)
        for rows in (1, 6, 0):
            given = operands(kind, rows, 40, 64, block)
            (y,) = model.execute(*given)
            assert y.dtype is BF16  # unless another is asked for
            np.testing.assert_allclose(
                y.to_ml_numpy().astype(np.float32), product(given, block=block), rtol=2**-7, atol=1
            )


def test_a_product_of_what_was_rounded() -> None:
    """The error is that of the rounding alone: under a sixteenth of each factor."""
    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 192), (24, 192)))

    def build(x: Any, w: Any) -> Any:
        made = []
        for kind, block in (("rows", 0), ("blocks", 64), ("tensor", 0)):
            pair = specs(kind, block)
            codes, factors = kernels.quantize_dynamic_scaled_float8(
                x, *pair, group_size_or_per_token=block or -1, scales_type=F32
            )
            top = ops.max(ops.abs(w), axis=-1)
            of_w = ops.max(top, axis=0) / 448 if kind != "rows" else top / 448
            right = ops.cast(w / of_w, FN)
            of_w = ops.broadcast_to(of_w, [1, 3]) if block else of_w
            made.append(kernels.dynamic_scaled_matmul(codes, right, factors, of_w, *pair, F32))
        one = ops.constant(np.float32(1 / 64))
        left = kernels.quantize_static_scaled_float8(x, one)
        right = kernels.quantize_static_scaled_float8(w, one)
        return [*made, kernels.matmul_static_scaled_float8(left, right, one, one)]

    types = [TensorType(F32, a.shape) for a in (x, w)]
    for y in InferenceSession().load(Graph("g", build, types)).execute(x, w):
        error = np.abs(y.to_ml_numpy().astype(np.float64) - x.astype(np.float64) @ w.T)
        assert error.max() < (np.abs(x) @ np.abs(w).T).max() / 16
        assert error.max() > 1e-3  # and it was rounded


def test_batches(place: DeviceRef) -> None:
    pairs = [operands("blocks", 6, 20, 64, 32) for _ in range(3)]
    given = [np.stack(arrays) for arrays in zip(*pairs, strict=True)]

    def build(*x: Any) -> Any:
        return called(kernels.batched_dynamic_scaled_fp8_matmul, *x, *specs("blocks", 32), F32)

    names = [("b", "m", 64), ("b", 20, 64), ("b", 2, "p"), ("b", 1, 2)]
    for shapes in (names, [a.shape for a in given]):
        types = [
            TensorType(DType.from_numpy(a.dtype), shape, place)
            for a, shape in zip(given, shapes, strict=True)
        ]
        (y,) = session(place).load(Graph("g", build, types)).execute(*(at(a, place) for a in given))
        close(numpy(y), np.stack([product(pair, block=32) for pair in pairs]))


@pytest.mark.parametrize(("kind", "block"), [("rows", 0), ("blocks", 32)])
def test_experts(place: DeviceRef, kind: str, block: int) -> None:
    m, n, k = 23, 40, 64
    pairs = [operands(kind, m, n, k, block) for _ in range(4)]
    weights, factors = (np.stack([pair[i] for pair in pairs]) for i in (1, 3))
    codes, of_rows = pairs[0][0], pairs[0][2]
    starts = np.array([0, 3, 3, 20, 21], np.uint32)
    ids = np.array([2, 1, 0, -1], np.int32)
    stats = np.array([17, 4], np.uint32)
    given = [codes, weights, of_rows, factors, starts, ids, stats]

    def build(*x: Any) -> Any:
        return called(kernels.grouped_dynamic_scaled_fp8_matmul, *x, *specs(kind, block), F32)

    places = [place] * 6 + [DeviceRef.CPU()]
    types = [
        TensorType(DType.from_numpy(a.dtype), a.shape, where)
        for a, where in zip(given, places, strict=True)
    ]
    model = session(place).load(Graph("g", build, types))
    (y,) = model.execute(*(at(a, where) for a, where in zip(given, places, strict=True)))
    wanted = np.zeros((m, n))
    for first, end, expert in ((0, 3, 2), (3, 20, 0)):
        whole = product([codes, weights[expert], of_rows, factors[expert]], block)
        wanted[first:end] = whole[first:end]
    close(numpy(y), wanted)
    for number, bad in (
        (4, [0, 3, 2, 20, 21]),
        (4, [0, 3, 3, 20, 99]),
        (5, [4, 1, 0, -1]),
        (6, [1, 5]),
    ):
        broken = [*given]
        broken[number] = np.array(bad, given[number].dtype)
        there = [at(a, w) for a, w in zip(broken, places, strict=True)]
        with pytest.raises(ExecutionError, match="ML652"):
            numpy(model.execute(*there)[0])


def test_a_weight_that_is_nan_makes_nan_of_its_column(place: DeviceRef) -> None:
    for m in (1, 9):
        given = operands("rows", m, 40, 64)
        given[1].view(np.uint8)[7, 33] = 0xFF
        given[0].view(np.uint8)[0, 5] = 0x7F
        types = [TensorType(DType.from_numpy(a.dtype), a.shape, place) for a in given]
        graph = Graph(
            "g", lambda *x: called(kernels.dynamic_scaled_matmul, *x, *specs("rows"), F32), types
        )
        (y,) = session(place).load(graph).execute(*(at(a, place) for a in given))
        wrong = np.isnan(numpy(y))
        assert wrong[:, 7].all()
        assert wrong[0].all()
        assert wrong.sum() == m + 39


def test_weights_stay_bytes() -> None:
    """A model of 8-bit weights holds them once, and nothing of their size beside them."""
    n = k = 512
    w, factor = random_float8(RNG, (n, k)), scales(n, 1)

    def build(x: Any) -> Any:
        kind = TensorType(FN, [n, k])
        weight = ops.constant_external("w", kind)
        return ops.matmul_float8(x, weight, ops.constant(factor), rows=1)

    graph = Graph("g", build, [TensorType(F32, [1, k])])
    model = InferenceSession().load(graph, weights_registry={"w": Tensor.from_numpy(w)})
    x = RNG.standard_normal((1, k)).astype(np.float32)
    (y,) = model.execute(x)
    close(y.to_numpy(), x.astype(np.float64) @ float8_numbers(w, factor, 1, 0).T)
    assert sum(slot.nbytes.evaluate({}) for slot in model.plan.slots) < 1.2 * n * k


# ---------------------------------------------------------------- caches
def same(cache: Cache, expected: Cache) -> None:
    """The pages hold numbers in the same places, and these are close."""
    there = ~np.isnan(expected.blocks)
    np.testing.assert_array_equal(there, ~np.isnan(cache.blocks))
    close(cache.blocks[there], expected.blocks[there])


@pytest.mark.parametrize("scaled", ["tensor", "rows"])
def test_queries_keys_and_values(place: DeviceRef, scaled: str) -> None:
    params = Params(dtype=F32)
    cache, expected = (Cache(params, [3, 0, 5], [2, 1, 4]) for _ in range(2))
    width = (4 + 2 * 2) * 8
    given = operands(scaled, cache.tokens, width, 32)
    whole = product(given)
    bias = RNG.standard_normal(width).astype(np.float32)
    first = [given[0], given[1], given[2], given[3], bias]
    if scaled == "tensor":
        first[2], first[3] = given[2].reshape(1), given[3].reshape(())

    def body(values: Values, offsets: Any, layer: Any, rest: list[Any]) -> list[Any]:
        x, w, of_x, of_w, b = rest
        made = kernels.fused_qkv_ragged_matmul_scaled_float8(
            params, x, offsets, w, values, layer, 4, ops.rebind(of_x, of_x.shape), of_w, b
        )
        return [made]

    (queries,) = run(cache, place, 1, first, body)
    whole = whole + bias
    close(queries, whole[:, :32])
    for part in (0, 1):
        expected.stored(1, part, whole[:, 32 + 16 * part : 48 + 16 * part].astype(np.float32))
    same(cache, expected)


@pytest.mark.parametrize("tokens", [1, 2])
def test_keys_in_blocks(place: DeviceRef, tokens: int) -> None:
    params = Params(dtype=F32)
    cache, expected = (Cache(params, [3, 0], [2, 3]) for _ in range(2))
    codes, w = random_float8(RNG, (5, 32)), random_float8(RNG, (16, 32))
    of_x, of_w = scales(2, 8 if tokens == 1 else 3), scales(2, 2)
    left = float8_numbers(codes, of_x.T[: -(-5 // tokens)], tokens, 16)
    wanted = left @ float8_numbers(w, of_w, 8, 16).T

    def body(values: Values, offsets: Any, layer: Any, rest: list[Any]) -> list[Any]:
        x, weight, one, other = rest
        kernels.matmul_k_cache_ragged_scaled_float8(
            params, x, offsets, weight, one, other, values, (tokens, 8, 16), layer
        )
        return []

    run(cache, place, 0, [codes, w, of_x, of_w], body)
    expected.stored(0, 0, wanted.astype(np.float32))
    same(cache, expected)


# ---------------------------------------------------------------- refusals
def test_what_is_refused() -> None:
    good = operands("rows", 4, 6, 8)
    bad: list[tuple[int, Any, type[MaxlabError], str]] = [
        (0, good[0][0], ShapeError, "ML659"),
        (0, good[0].astype(np.float32), DTypeError, "ML666"),
        (0, good[0][:, :4], ShapeError, "ML659"),
        (1, good[1][:5], ShapeError, "ML659"),
        (2, good[2][:, :3], ShapeError, "ML659"),
        (2, good[2].astype(np.int32), DTypeError, "ML666"),
        (3, good[3][:2], ShapeError, "ML659"),
    ]
    for number, array, kind, code in bad:
        given = [*good]
        given[number] = array
        types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in given]
        with pytest.raises(kind, match=code):
            Graph("g", lambda *x: called(kernels.dynamic_scaled_matmul, *x, *specs("rows")), types)
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in good]
    for pair in ((specs("rows")[0], specs("b", 4)[1]), (specs("b", 4)[0], specs("rows")[1])):
        with pytest.raises(ValueError, match="ML698"):
            Graph("g", lambda *x, p=pair: called(kernels.dynamic_scaled_matmul, *x, *p), types)
    with pytest.raises(DTypeError, match="ML666"):
        Graph("g", lambda *x: called(kernels.dynamic_scaled_matmul, *x, *specs("rows"), FN), types)
