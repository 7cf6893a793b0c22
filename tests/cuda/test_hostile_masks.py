"""Masks of attention that look causal and are not: each is what the CPU and the reference say."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Accelerator
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.compiler.interpret import Array, interpret
from tests.cuda.placing import GPU, load_on, on_gpu, run_on
from tests.cuda.scattering import load_together

I32, U32, U64, U8 = DType.int32, DType.uint32, DType.uint64, DType.uint8
Mask = Callable[[TensorValue, TensorValue], TensorValue]
HEADS, DIM = 2, 16


def number(value: int, dtype: DType = I32) -> TensorValue:
    """A constant on the GPU."""
    return ops.constant(value, dtype, GPU)


# name: (dtype of the ranges, the condition, the score is taken where it holds, bounds the keys)
MASKS: dict[str, tuple[DType, Mask, bool, bool]] = {
    "causal": (I32, lambda q, k: q >= k, True, True),
    "causal, later": (I32, lambda q, k: q + 10 >= k, True, True),
    "causal, hidden rows": (I32, lambda q, k: q - 3 >= k, True, True),
    "strictly": (I32, lambda q, k: q > k, True, True),
    "branches swapped": (I32, lambda q, k: k > q, False, True),
    "negated": (I32, lambda q, k: ops.logical_not(k > q), True, True),
    "two a row": (I32, lambda q, k: q + q >= k, True, True),
    "window": (I32, lambda q, k: ops.logical_and(k + 5 >= q, q >= k), True, True),
    "everything hidden": (I32, lambda q, k: q - 1000 >= k, True, True),
    "a step of keys": (I32, lambda q, k: q >= k + k, True, False),
    "from behind": (I32, lambda q, k: k >= q, True, False),
    "either": (I32, lambda q, k: ops.logical_or(q >= k, k >= 50), True, False),
    "one of both": (I32, lambda q, k: ops.logical_xor(q >= k, k >= 50), True, False),
    # The first query of a block sees more than its last one.
    "fewer for later queries": (I32, lambda q, k: number(69) - q >= k, True, False),
    "far fewer": (I32, lambda q, k: number(40) - q - q > k, True, False),
    "negative queries": (I32, lambda q, k: ops.negate(q) + 50 >= k, True, False),
    # Below zero an unsigned number is very large.
    "unsigned 32": (U32, lambda q, k: q - number(3, U32) >= k, True, False),
    "unsigned 64": (U64, lambda q, k: q - number(3, U64) >= k, True, False),
    "cast to unsigned": (I32, lambda q, k: ops.cast(q - 5, U32) >= ops.cast(k, U32), True, False),
    "wrapped at 8 bits": (I32, lambda q, k: ops.cast(q, U8) >= ops.cast(k, U8), True, False),
    "wrapped at 32 bits": (
        I32,
        lambda q, k: q + number(-(1 << 31)) + number(-100) >= k,
        True,
        False,
    ),
}
SIZES = [(70, 70), (3, 90)]
"""Queries and keys: several blocks of both, and a warp for each query."""


def attention(
    mask: str, queries: int, keys: int, fill: float, kind: DType = DType.float32
) -> Graph:
    """softmax(where(mask, q k^T / 4, fill)) v."""
    dtype, condition, holds, _ = MASKS[mask]
    types = [TensorType(kind, [1, HEADS, n, DIM], GPU) for n in (queries, keys, keys)]
    with Graph("masked", input_types=types) as graph:
        q, k, v = (value.tensor for value in graph.inputs)
        scores = ops.matmul(q, ops.transpose(k, 2, 3)) * 0.25
        wide = dtype if dtype is not U8 else I32
        rows = ops.unsqueeze(ops.range(0, queries, dtype=wide, device=GPU), 1)
        columns = ops.unsqueeze(ops.range(0, keys, dtype=wide, device=GPU), 0)
        seen = condition(rows, columns)
        hidden = ops.constant(fill, kind, GPU)
        chosen = (scores, hidden) if holds else (hidden, scores)
        graph.output(ops.matmul(ops.softmax(ops.where(seen, *chosen)), v))
    return graph


def arrays(queries: int, keys: int, kind: DType = DType.float32) -> list[Array]:
    """q, k and v."""
    rng = np.random.default_rng(queries)
    return [
        rng.standard_normal((1, HEADS, n, DIM)).astype(kind.ml_numpy) for n in (queries, keys, keys)
    ]


CASES = [
    (mask, fill)
    for mask in MASKS
    for fill in (-math.inf, -1e9)
    if fill == -math.inf or MASKS[mask][3]
]
"""Finite fills only where an infinite one would bound the keys."""


@pytest.fixture(scope="module")
def warm(gpu: Accelerator) -> None:
    """All kernels compiled at once."""
    functions = [attention(mask, *n, fill).function for mask, fill in CASES for n in SIZES]
    load_together(gpu, functions)


@pytest.mark.parametrize(("mask", "fill"), CASES)
def test_masks(mask: str, fill: float, gpu: Accelerator, warm: None) -> None:
    for queries, keys in SIZES:
        function = attention(mask, queries, keys, fill).function
        model = load_on(gpu, function)
        assert [step.kind for step in model.plan.steps] == ["attention"]
        (step,) = model.plan.steps
        assert step.gpu is not None
        # What hides keys with a finite score must read them: a row of such scores is their mean.
        *_, limit = [x for x in step.gpu.printed().text.splitlines() if "-> i64 { return" in x]
        assert (f"return {keys};" not in limit) == (MASKS[mask][3] and fill == -math.inf)
        given = arrays(queries, keys)
        (got,) = run_on(gpu, model, given)
        with np.errstate(all="ignore"):
            (want,) = interpret(function, given)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5, err_msg=f"{queries} {keys}")


HALF_CASES = [(mask, fill) for mask, fill in CASES if MASKS[mask][0] is I32]
HALF_SIZES = 260, 200
"""Two whole blocks of queries, whose first keys a causal mask shows to all of the second one."""


@pytest.fixture(scope="module")
def warm_halves(gpu: Accelerator) -> None:
    """All kernels for halves compiled at once."""
    functions = [
        attention(mask, *HALF_SIZES, fill, DType.bfloat16).function for mask, fill in HALF_CASES
    ]
    load_together(gpu, functions)


@pytest.mark.parametrize(("mask", "fill"), HALF_CASES)
def test_masks_of_halves(mask: str, fill: float, gpu: Accelerator, warm_halves: None) -> None:
    """Tensor cores leave out the mask where its bound says that it shows all."""
    function = attention(mask, *HALF_SIZES, fill, DType.bfloat16).function
    model = load_on(gpu, function)
    (step,) = model.plan.steps
    assert step.gpu is not None
    assert "mx_attention_mma" in step.gpu.printed().text
    given = arrays(*HALF_SIZES, DType.bfloat16)
    (got,) = run_on(gpu, model, given)
    single = attention(mask, *HALF_SIZES, fill).function
    with np.errstate(all="ignore"):
        (want,) = interpret(single, [array.astype(np.float32) for array in given])
    # Weights and results are rounded to 8 bits; values are below 5.
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2**-8, atol=0.02)


def test_the_cpu_agrees() -> None:
    """The host's attention has no bounds; it is the second opinion on what hidden rows give."""
    queries, keys = SIZES[0]
    graph = attention("causal, hidden rows", queries, keys, -math.inf)
    function = graph.function.clone()
    host = Graph("host")
    host.function = on_gpu(function, DeviceRef.CPU())
    given = arrays(queries, keys)
    (got,) = engine.InferenceSession().load(host)(*given)
    with np.errstate(all="ignore"):
        (want,) = interpret(function, given)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-4, atol=2e-5)
    assert np.isnan(want[0, :, :3]).all()
    assert not np.isnan(want[0, :, 3:]).any()
