"""Products, attention and reductions of awkward sizes and strides, in every float, on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.driver import Accelerator
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, TensorValue, ops
from maxlab.ir import Function
from tests.compiler.interpret import Array, interpret
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.placing import GPU, load_on, run_on
from tests.cuda.scattering import load_together

F32, F64, F16, BF16 = DType.float32, DType.float64, DType.float16, DType.bfloat16
I8, I32, I64 = DType.int8, DType.int32, DType.int64
TOLERANCE = {F32: 3e-5, F64: 1e-12, F16: 4e-3, BF16: 3e-2}
SIZES = [
    dict(zip("mknb", sizes, strict=True))
    for sizes in [(0, 3, 4, 2), (3, 0, 4, 2), (3, 4, 0, 2), (1, 1, 1, 1), (17, 1, 9, 2),
                  (65, 33, 70, 1), (3, 70, 130, 0), (9, 64, 64, 2)]
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A graph, and the sizes that it runs with."""

    name: str
    inputs: tuple[tuple[Any, ...], ...]
    body: Callable[..., Any]
    dtype: DType = F32
    filled: str = ""
    """Sizes that are not 0."""

    @property
    def sizes(self) -> list[dict[str, int]]:
        """Those of `SIZES` that differ for this case."""
        names = {n for shape in self.inputs for n in shape if isinstance(n, str)}
        found = [s for s in SIZES if all(s[n] for n in self.filled)]
        return list({tuple((n, s[n]) for n in sorted(names)): s for s in found}.values())


def _turned(x: TensorValue) -> TensorValue:
    return ops.transpose(x, -1, -2)


def _seen_twice(x: TensorValue, y: TensorValue, z: TensorValue) -> tuple[TensorValue, ...]:
    product = x @ y
    return product, product - z, ops.cast(product, F64)


def _products(dtype: DType) -> list[Case]:
    rows: list[tuple[str, tuple[tuple[Any, ...], ...], Callable[..., Any]]] = [
        ("plain", (("m", "k"), ("k", "n")), lambda x, y: x @ y),
        ("left turned", (("k", "m"), ("k", "n")), lambda x, y: _turned(x) @ y),
        ("right turned", (("m", "k"), ("n", "k")), lambda x, y: x @ _turned(y)),
        ("both turned", (("k", "m"), ("n", "k")), lambda x, y: _turned(x) @ _turned(y)),
        ("by itself", (("m", "k"),), lambda x: x @ _turned(x)),
        ("batched", (("b", "m", "k"), ("b", "k", "n")), lambda x, y: x @ y),
        ("shared right", (("b", "m", "k"), ("k", "n")), lambda x, y: x @ y),
        ("shared left", (("m", "k"), ("b", "k", "n")), lambda x, y: x @ y),
        ("both shared", (("b", 1, "m", "k"), (1, 3, "k", "n")), lambda x, y: x @ y),
        (
            "batch inside",
            (("m", "b", "k"), ("n", "b", "k")),
            lambda x, y: ops.permute(x, [1, 0, 2]) @ ops.permute(y, [1, 2, 0]),
        ),
        ("not aligned", ((70, 67), (67, 137)), lambda x, y: x[1:, 3:] @ y[3:, 5:]),
        ("steps", ((20, 19), (19, 18)), lambda x, y: x[:, 1::2] @ y[1::2, ::3]),
        ("backwards", ((20, 19), (19, 18)), lambda x, y: x[::-1, ::-1] @ y[::-1, ::-1]),
        (
            "stride 0",
            (("m", 1), (1, "n")),
            lambda x, y: ops.broadcast_to(x, ["m", 16]) @ ops.broadcast_to(y, [16, "n"]),
        ),
        ("row", (("k",), ("k", "n")), lambda x, y: x @ y),
        ("column", (("m", "k"), ("k",)), lambda x, y: x @ y),
        ("concat", (("m", "k"), ("k", "n"), ("b", "k")), lambda x, y, z: ops.concat([x, z]) @ y),
        (
            "epilogue",
            (("m", "k"), ("k", "n"), ("n",), ("n", "m")),
            lambda x, y, z, w: _turned(ops.tanh(x @ y + z)) * w,
        ),
        (
            "seen twice",
            (("m", "k"), ("k", "n"), ("m", 1)),
            _seen_twice,
        ),
    ]  # fmt: skip
    return [Case(f"{dtype.name} {name}", shapes, body, dtype) for name, shapes, body in rows]


def _attend(q: TensorValue, k: TensorValue, v: TensorValue) -> TensorValue:
    return ops.softmax(q @ _turned(k) * 0.3) @ v


def _attentions() -> list[Case]:
    made = [
        Case(f"attention {b, h, q, k, d, e}", ((b, h, q, d), (b, h, k, d), (b, h, k, e)), _attend)
        for b, h, q, k, d, e in [
            (1, 2, 5, 7, 6, 5), (0, 2, 3, 3, 4, 4), (1, 0, 3, 3, 4, 4), (1, 2, 0, 3, 4, 4),
            (1, 2, 3, 3, 0, 4), (1, 2, 3, 3, 4, 0), (1, 1, 1, 1, 1, 1), (2, 3, 20, 33, 17, 9),
            (1, 1, 5, 5, 255, 3), (1, 1, 5, 5, 256, 256), (1, 1, 20, 20, 257, 3),
        ]
    ]  # fmt: skip
    heads = ("b", 2, "m", 8), ("b", 2, "k", 8), ("b", 2, "k", 8)
    made += [
        Case("attention of named sizes", heads, _attend, filled="k"),
        Case(
            "attention with a broken head",
            ((2, 3, 5, 21),),
            lambda x: _attend(x[..., :7], x[..., 7:14], x[..., 14:]),
        ),
        Case(
            "attention backwards",
            ((2, 3, 5, 8),),
            lambda x: _attend(x[:, :, ::-1], x[:, ::-1], x[..., ::-1]),
        ),
        Case(
            "attention with rows inside",
            ((2, 5, 3, 8),) * 3,
            lambda *x: ops.permute(
                _attend(*(ops.permute(v, [0, 2, 1, 3]) for v in x)), [0, 2, 1, 3]
            ),
        ),
        Case("attention with a shared batch", ((2, 4, 5, 8), (1, 4, 9, 8), (2, 4, 9, 8)), _attend),
        Case("no attention of 16 bits", heads, _attend, F16, filled="k"),
    ]
    return made


def _reductions(dtype: DType) -> list[Case]:
    return [
        Case(
            f"{dtype.name} reductions",
            (("m", "k", "n"),),
            lambda x: (ops.sum(x), ops.sum(x, axis=0), ops.mean(x, axis=1)),
            dtype,
            filled="k",
        ),
        Case(
            f"{dtype.name} extremes",
            (("m", "k", "n"),),
            lambda x: (ops.max(x), ops.argmax(x, axis=-1), ops.min(x, axis=0)),
            dtype,
            filled="mkn",
        ),
        Case(
            f"{dtype.name} softmax",
            (("m", "k"),),
            lambda x: (ops.softmax(x), ops.logsoftmax(x * 2, axis=0)),
            dtype,
            filled="mk",
        ),
        Case(
            f"{dtype.name} layer_norm",
            (("m", 33), (33,), (33,)),
            lambda x, g, b: ops.layer_norm(x, g, b, 1e-3),
            dtype,
        ),
    ]


CASES = [
    *(case for dtype in (F32, BF16) for case in _products(dtype)),
    *_products(F16)[-8:],
    *(case for dtype in (F64, I32, I8) for case in _products(dtype)[:4]),
    *_attentions(),
    *(case for dtype in (F32, BF16, F16) for case in _reductions(dtype)),
]


@cache
def function_of(case: Case) -> Function:
    """The graph's function, on the GPU."""
    types = [TensorType(case.dtype, shape, GPU) for shape in case.inputs]
    with Graph("hostile", input_types=types) as graph:
        made = case.body(*(v.tensor for v in graph.inputs))
        graph.output(*(made if isinstance(made, tuple) else (made,)))
    return graph.function


def arrays_of(case: Case, sizes: dict[str, int]) -> list[Array]:
    """Inputs; whole numbers for integers."""
    rng = np.random.default_rng(len(case.name))
    found = []
    for shape in case.inputs:
        real = tuple(sizes.get(n, 0) if isinstance(n, str) else n for n in shape)
        array = rng.standard_normal(real) if case.dtype.is_float() else rng.integers(-3, 4, real)
        found.append(np.asarray(array).astype(case.dtype.ml_numpy))
    return found


@pytest.fixture(scope="module")
def warm(gpu: Accelerator) -> None:
    """All kernels that are known before sizes are, compiled at once."""
    load_together(gpu, map(function_of, CASES))


def check(case: Case, gpu: Accelerator) -> None:
    """Compare ``case`` with its interpretation."""
    function = function_of(case)
    model = load_on(gpu, function)
    for sizes in case.sizes:
        given = arrays_of(case, sizes)
        got = run_on(gpu, model, given)
        with np.errstate(all="ignore"):
            want = interpret(function, given)
        near = TOLERANCE.get(case.dtype, 0)
        for g, w in zip(got, want, strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            top = float(np.max(np.abs(w.astype(np.float64)), initial=1)) if near else 0
            np.testing.assert_allclose(
                g.astype(np.float64), w.astype(np.float64), near, near * top, err_msg=f"{sizes}"
            )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_against_the_references(case: Case, gpu: Accelerator, warm: None) -> None:
    check(case, gpu)


@pytest.mark.skipif(ON_A_GPU, reason="compute-sanitizer does this on a GPU")
@pytest.mark.parametrize("first", range(4))
def test_no_races_and_no_strays(first: int) -> None:
    """The checking simulator sees every access of some of them."""
    chosen = [c for c in CASES if c.name.startswith(("float32", "attention"))]
    chosen += [c for c in CASES if c.name in ("bfloat16 plain", "float16 not aligned")]
    with driver.simulated(check=True):
        gpu = Accelerator()
        for case in chosen[first::8]:
            check(case, gpu)


# ---------------------------------------------------------------- rounding
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("rows", [3, 40])
def test_an_epilogue_rounds_after_every_op(dtype: DType, rows: int, gpu: Accelerator) -> None:
    """Sums of whole numbers are exact in float32, so that what follows must be equal."""
    shapes: list[list[int | str]] = [["m", 24], [24, 40], [40], ["m", 40]]
    types = [TensorType(dtype, s, GPU) for s in shapes]
    with Graph("rounded", input_types=types) as graph:
        x, y, z, w = (v.tensor for v in graph.inputs)
        graph.output((x @ y + z) * w - z, ops.cast(x @ y, F32) + ops.cast(z, F32))
    rng = np.random.default_rng(rows)
    given: list[Array] = [
        np.asarray(rng.integers(-9, 10, (rows, 24))).astype(dtype.ml_numpy),
        np.asarray(rng.integers(-9, 10, (24, 40))).astype(dtype.ml_numpy),
        np.asarray(rng.standard_normal(40) * 3).astype(dtype.ml_numpy),
        np.asarray(rng.standard_normal((rows, 40))).astype(dtype.ml_numpy),
    ]
    got = run_on(gpu, load_on(gpu, graph.function), given)
    for g, w_ in zip(got, interpret(graph.function, given), strict=True):
        np.testing.assert_array_equal(g.astype(np.float64), w_.astype(np.float64))


def test_scores_that_are_no_numbers(gpu: Accelerator) -> None:
    """NaN and infinities in keys and values spoil the rows that see them, and no others."""
    case = Case("special", ((1, 2, 5, 8), (1, 2, 9, 8), (1, 2, 9, 8)), _attend)
    for place, number in [(1, math.nan), (1, math.inf), (2, math.nan), (2, -math.inf)]:
        given = arrays_of(case, {})
        given[place][0, 1, 4] = number
        (got,) = run_on(gpu, load_on(gpu, function_of(case)), given)
        with np.errstate(all="ignore"):
            (want,) = interpret(function_of(case), given)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert not np.isnan(got[0, 0]).any()
