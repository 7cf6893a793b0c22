"""Means of integers through the public API: the true mean without its fraction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import InputError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.compiler.interpret import Array, host
from tests.opset.exact import INTEGERS, edges

CPU = DeviceRef.CPU()


def run(build: Any, *arrays: Array, dims: Any = None) -> Array:
    types = [
        TensorType(DType.from_numpy(x.dtype), x.shape if dims is None else dims) for x in arrays
    ]
    with Graph("g", input_types=types) as graph:
        graph.output(build(*(v.tensor for v in graph.inputs)))
    return host(engine.InferenceSession().load(graph)(*arrays)[0])


def test_a_sum_beyond_the_dtype_has_a_mean_in_it() -> None:
    large = np.array([2**63 - 1, 0, 0], np.int64)
    assert run(ops.mean, large).tolist() == [3074457345618258602]
    assert run(ops.mean, np.array([127, 127], np.int8)).tolist() == [127]
    assert run(ops.mean, np.array([2**64 - 1] * 5, np.uint64)).tolist() == [2**64 - 1]
    assert run(ops.mean, np.array([-(2**63), -(2**63), 1], np.int64)).tolist() == [
        math.trunc(Fraction(1 - 2**64, 3))
    ]


def test_the_fraction_is_dropped_towards_zero() -> None:
    rows = np.array([[-1, 0], [-3, 0], [3, 0], [-(2**62), 1]], np.int64)
    assert run(ops.mean, rows).ravel().tolist() == [0, -1, 1, -(2**61) + 1]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_symbolic_sizes(dtype: DType, axis: int) -> None:
    rng = np.random.default_rng(axis)
    some = edges(dtype)
    numbers = [some[i] for i in rng.integers(0, len(some), 3 * 70 * 5)]
    x = np.array(numbers, dtype.ml_numpy).reshape(3, 70, 5)
    got = run(lambda v: ops.mean(v, axis), x, dims=["a", "b", "c"])
    moved = np.moveaxis(x.astype(object), axis, -1)
    want = [math.trunc(Fraction(sum(row), len(row))) for row in moved.reshape(-1, x.shape[axis])]
    assert np.moveaxis(got, axis, -1).ravel().tolist() == want


def test_in_a_loop_and_of_an_expression() -> None:
    x = np.array([[2**62, 2**62, 2**62 + 5], [-(2**63), 0, 1]], np.int64)

    def build(v: Any) -> Any:
        i = ops.constant(0, DType.int32, CPU)
        return ops.while_loop(
            [i, v],
            lambda i, v: i < 3,
            lambda i, v: [i + 1, v - ops.mean(v // 2, axis=1)],
        )[1]

    want = x.astype(object)
    for _ in range(3):
        halves = [[n // 2 for n in row] for row in want]
        means = np.array([[math.trunc(Fraction(sum(row), 3))] for row in halves], object)
        want = np.vectorize(lambda n: (n + 2**63) % 2**64 - 2**63, otypes=[object])(want - means)
    assert run(build, x).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [DType.int8, DType.int64, DType.uint64], ids=str)
def test_no_integer_is_the_mean_of_no_integers(dtype: DType) -> None:
    with (
        pytest.raises(ShapeError, match="ML207"),
        Graph("g", input_types=[TensorType(dtype, [3, 0])]) as graph,
    ):
        ops.mean(graph.inputs[0].tensor)
    empty = np.zeros((3, 0), dtype.ml_numpy)
    with pytest.raises(InputError, match="empty"):
        run(ops.mean, empty, dims=["n", "m"])


def test_the_mean_of_no_floats_is_nan() -> None:
    for dims in (None, ["n", "m"]):
        assert np.isnan(run(ops.mean, np.zeros((3, 0), np.float32), dims=dims)).all()


def test_more_elements_than_are_added_exactly() -> None:
    with pytest.raises(ShapeError, match="ML217"), Graph("g"):
        ops.mean(ops.broadcast_to(ops.constant(1, DType.int64, CPU), [2**31 + 1]))
    with Graph("g", input_types=[TensorType(DType.int64, ["n"])]) as graph:
        n = graph.inputs[0].tensor.shape[0]
        wide = ops.broadcast_to(ops.constant(1, DType.int64, CPU), [n * 2**31])
        graph.output(ops.mean(wide))
    model = engine.InferenceSession().load(graph)
    with pytest.raises(InputError, match="2147483648"):
        model(np.zeros(2, np.int64))
