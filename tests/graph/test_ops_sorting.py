"""``top_k`` and ``argsort`` through the public functions: values, symbolic sizes, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import Dim, Graph, TensorType, ops

Array = np.ndarray[Any, Any]


def model(build: Any, *types: TensorType, threads: int | None = None) -> engine.Model:
    """The compiled model of one function of inputs."""
    with Graph("g", input_types=list(types)) as graph:
        made = build(*graph.inputs)
        graph.output(*(made if isinstance(made, (tuple, list)) else (made,)))
    return engine.InferenceSession(num_threads=threads).load(graph)


def run(compiled: engine.Model, *arrays: Array) -> list[Array]:
    return [t.to_numpy() for t in compiled(*arrays)]


F32 = DType.float32


@pytest.mark.parametrize("axis", [-1, 0, 1, -3])
def test_top_k_along_any_axis(axis: int) -> None:
    x = np.random.default_rng(0).permutation(3 * 5 * 7).reshape(3, 5, 7).astype(np.float32)
    compiled = model(lambda v: ops.top_k(v, 3, axis), TensorType(F32, ["a", "b", "c"]))
    values, indices = run(compiled, x)
    order = np.argsort(-x, axis=axis)
    want = np.take(order, range(3), axis=axis)
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, axis))
    assert indices.dtype == np.int64


def test_top_k_has_its_types() -> None:
    with Graph("g", input_types=[TensorType(DType.bfloat16, ["n", "m", 4])]) as graph:
        values, indices = ops.top_k(graph.inputs[0], 2, axis=1)
        assert values.dtype is DType.bfloat16
        assert indices.dtype is DType.int64
        assert list(values.shape) == list(indices.shape) == [Dim("n"), Dim(2), Dim(4)]


def test_top_k_of_too_few_is_found_when_called() -> None:
    compiled = model(lambda v: ops.top_k(v, 3), TensorType(F32, ["n"]))
    assert [len(y) for y in run(compiled, np.ones(3, np.float32))] == [3, 3]
    with pytest.raises(InputError, match="k is 3") as caught:
        run(compiled, np.ones(2, np.float32))
    assert caught.value.code == "ML603"


def test_ties_stand_by_index_and_nan_is_the_largest() -> None:
    x = np.array([0.0, np.nan, -0.0, np.inf, 0.0, -np.nan, -np.inf], np.float32)
    x_type = TensorType(F32, ["n"])
    values, indices = run(model(lambda v: ops.top_k(v, 7), x_type), x)
    np.testing.assert_array_equal(indices, [1, 5, 3, 0, 2, 4, 6])
    np.testing.assert_array_equal(np.signbit(values[3:6]), [False, True, False])
    np.testing.assert_array_equal(np.isnan(values), [True, True] + [False] * 5)
    (up,) = run(model(ops.argsort, x_type), x)
    np.testing.assert_array_equal(up, [6, 0, 2, 4, 3, 1, 5])
    (down,) = run(model(lambda v: ops.argsort(v, False), x_type), x)
    np.testing.assert_array_equal(down, indices)


KINDS = ["float32", "float64", "float16", "int64", "uint8", "int16", "uint64", "bool"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_like_numpy(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    n = data.draw(st.sampled_from([1, 2, 47, 48, 200, 8192, 8193, 40_000]))
    spread = data.draw(st.sampled_from([1, 100, 2**7, 2**40]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.random.default_rng(seed).integers(-spread, spread, n).astype(kind)
    x_type = TensorType(DType.from_numpy(x.dtype), ["n"])
    (got,) = run(_sorter(kind, x_type), x)
    np.testing.assert_array_equal(got, np.argsort(x, kind="stable"))
    for k, compiled in _selectors(kind, x_type):
        if k <= n:
            values, indices = run(compiled, x)
            want = n - 1 - np.argsort(x[::-1], kind="stable")[::-1][:k]
            np.testing.assert_array_equal(indices, want)
            np.testing.assert_array_equal(values, x[want])


_made: dict[str, Any] = {}


def _sorter(kind: str, x_type: TensorType) -> engine.Model:
    if kind not in _made:
        _made[kind] = model(ops.argsort, x_type, threads=2)
    found: engine.Model = _made[kind]
    return found


def _selectors(kind: str, x_type: TensorType) -> list[tuple[int, engine.Model]]:
    key = f"{kind} k"
    if key not in _made:
        _made[key] = [
            (k, model(lambda v, k=k: ops.top_k(v, k), x_type, threads=2)) for k in (1, 100, 300)
        ]
    found: list[tuple[int, engine.Model]] = _made[key]
    return found


@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "sawtooth"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_rows_that_are_hard_to_sort(order: str, kind: str) -> None:
    n = 100_000
    x = {
        "ascending": np.arange(n),
        "descending": np.arange(n)[::-1],
        "equal": np.full(n, 0.1),
        "sawtooth": np.arange(n) % 17,
    }[order].astype(kind)
    x_type = TensorType(DType.from_numpy(x.dtype), [n])
    compiled = model(lambda v: (ops.argsort(v, False), *ops.top_k(v, 64)), x_type, threads=2)
    down, values, indices = run(compiled, x)
    want = n - 1 - np.argsort(x[::-1], kind="stable")[::-1]
    np.testing.assert_array_equal(down, want)
    np.testing.assert_array_equal(indices, want[:64])
    np.testing.assert_array_equal(values, x[want[:64]])


def test_float64_that_differ_in_their_last_bits_only() -> None:
    rng = np.random.default_rng(4)
    x = (1.0 + rng.integers(0, 1000, 50_000) * 2.0**-52).astype(np.float64)
    x[:10] = -x[:10]
    (got,) = run(model(ops.argsort, TensorType(DType.float64, ["n"]), threads=2), x)
    np.testing.assert_array_equal(got, np.argsort(x, kind="stable"))


def test_a_sort_and_its_gather_is_a_sorted_row() -> None:
    x = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    compiled = model(lambda v: ops.gather(v * 2, ops.argsort(v * 2), 0) + 1, TensorType(F32, ["n"]))
    np.testing.assert_array_equal(run(compiled, x)[0], np.sort(x * 2) + 1)


def test_constants_are_sorted_while_compiling() -> None:
    x = np.array([3, 1, 2], np.int32)
    compiled = model(lambda v: ops.argsort(x) + ops.cast(v, DType.int64), TensorType(F32, [3]))
    np.testing.assert_array_equal(run(compiled, np.zeros(3, np.float32))[0], [1, 2, 0])
