"""``x[...]`` against NumPy: static and symbolic dims, all kinds of bounds and indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ExecutionError, ShapeError
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, ops
from tests.graph.interpreter import run

CPU = DeviceRef.CPU()


def taken(array: np.ndarray[Any, Any], shape: list[int | str], index: Any) -> np.ndarray[Any, Any]:
    with Graph("g", input_types=[TensorType(DType.float32, shape)]) as graph:
        graph.output(graph.inputs[0].tensor[index])
    return run(graph, array)[0]


@st.composite
def bounds(draw: st.DrawFn, size: int) -> Any:
    """An int or a slice whose bounds are in the documented range."""
    kind = draw(st.sampled_from(["int", "up", "down", "all"] if size else ["up", "all"]))
    if kind == "int":
        return draw(st.integers(-size, size - 1))
    if kind == "all":
        return slice(None)
    step = draw(st.integers(1, 3))
    low, high = (-size, size) if kind == "up" else (-size - 1, size - 1)
    start, stop = (draw(st.none() | st.integers(low, high)) for _ in range(2))
    return slice(start, stop, step if kind == "up" else -step)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], list[bool], tuple[Any, ...]]:
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    count = draw(st.integers(0, len(shape)))
    front = draw(st.integers(0, count))
    index: list[Any] = []
    for position, size in enumerate([*shape[:front], *shape[len(shape) - (count - front) :]]):
        if position == front and count < len(shape):
            index.append(Ellipsis)
        index.append(draw(bounds(size)))
    if count < len(shape) and front == count and draw(st.booleans()):
        index.append(Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        index.insert(draw(st.integers(0, len(index))), None)
    symbolic = [draw(st.booleans()) for _ in shape]
    return shape, symbolic, tuple(index)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_like_numpy(case: tuple[tuple[int, ...], list[bool], tuple[Any, ...]]) -> None:
    sizes, symbolic, index = case
    array = np.arange(int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
    dims: list[int | str] = [
        f"d{i}" if s else n for i, (n, s) in enumerate(zip(sizes, symbolic, strict=True))
    ]
    try:
        found = taken(array, dims, index)
    except ExecutionError:
        # On a symbolic dim an empty slice whose bounds cross is refused when it is called.
        assume(False)
    np.testing.assert_array_equal(found, array[index])


def test_symbolic_shapes_are_exact() -> None:
    with Graph("g", input_types=[TensorType(DType.float32, ["n", "m"])]) as graph:
        x = graph.inputs[0].tensor
        n, m = x.shape
        assert x[1:].shape == [n - 1, m]
        assert x[:2].shape == [2, m]
        assert x[-3:].shape == [3, m]
        assert x[::-1].shape == [n, m]
        assert x[::2].shape == [(n + 1) // 2, m]
        assert x[0].shape == x[-1].shape == [m]
        assert x[..., 0].shape == [n]
        assert x[:, None].shape == [n, 1, m]
        assert x[n - 1, m - 1].shape == []
        assert x[: n // 2].shape == [n // 2, m]
        assert x[(slice(0, n), "n")].shape == [n, m]


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_dynamic_bounds_are_checked(rows: int) -> None:
    array = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    shape: list[int | str] = ["n", 2]
    for index, least in ((slice(None, 2), 2), (slice(1, None), 1), (-1, 1), (slice(-2, None), 2)):
        if rows < least:
            with pytest.raises(ExecutionError, match="axis 0"):
                taken(array, shape, index)
        else:
            np.testing.assert_array_equal(taken(array, shape, index), array[index])


def test_a_name_for_the_result_is_asserted() -> None:
    with Graph("g", input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        y = x[(slice(1, None), "m")]
        assert y.shape == ["m", 4]
        assert x[(slice(1, 3), 2), :].shape == [2, 4]
        graph.output(y, ops.range(0, Dim("m"), dtype=DType.int64, device=CPU))
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    part, count = run(graph, array)
    np.testing.assert_array_equal(part, array[1:])
    np.testing.assert_array_equal(count, [0, 1])
    with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as other:
        other.output(other.inputs[0].tensor[(slice(0, Dim("n") // 2), 3),])
    assert run(other, np.zeros(6, np.float32))[0].shape == (3,)
    with pytest.raises(ExecutionError, match="out_dim"):
        run(other, np.zeros(8, np.float32))


def test_tensor_indices() -> None:
    types = [TensorType(DType.float32, ["n", 3, 4]), TensorType(DType.int64, [])]
    with Graph("g", input_types=types) as graph:
        x, i = (v.tensor for v in graph.inputs)
        graph.output(x[i], x[:, i], x[1:, i, None, ::-1], x[i, ..., i], x[0, i])
    array = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    for at in (0, 2, -1):
        found = run(graph, array, np.array(at))
        expected = [
            array[at],
            array[:, at],
            array[1:, at, None, ::-1],
            array[at, ..., at],
            array[0, at],
        ]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_bounds_made_of_dims_and_constants_are_known() -> None:
    with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        two = ops.constant(2, DType.int64, CPU)
        from maxlab.graph import TensorValue

        half = TensorValue(x.shape[0] // 2)
        assert x[:two].shape == [2]
        assert x[half:].shape == [Dim("n") - Dim("n") // 2]
        with pytest.raises(ArgumentTypeError, match="only a run can tell"):
            x[: half + 1]


@pytest.mark.parametrize(
    ("index", "error", "code"),
    [
        (4, ShapeError, "ML215"),
        (-5, ShapeError, "ML215"),
        (slice(1, 100), ShapeError, "ML215"),
        (slice(-5, None), ShapeError, "ML215"),
        (slice(4, None, -1), ShapeError, "ML215"),
        (slice(None, -6, -1), ShapeError, "ML215"),
        ((0, 0, 0), ShapeError, "ML216"),
        (slice(None, None, 0), ArgumentError, "ML345"),
        ((Ellipsis, Ellipsis), ArgumentError, "ML345"),
        (slice(-Dim("k"), None), ArgumentError, "ML345"),
        (True, ArgumentTypeError, "ML344"),
        (1.5, ArgumentTypeError, "ML344"),
        ("a", ArgumentTypeError, "ML344"),
        (([0, 1], [0, 1]), ArgumentTypeError, "ML344"),
        ((0, None, [0, 1]), ArgumentTypeError, "ML344"),
        ([0.5], ArgumentTypeError, "ML344"),
        (np.array([True]), ArgumentTypeError, "ML344"),
        (slice(0.5, None), ArgumentTypeError, "ML344"),
        (slice(None, None, 1.0), ArgumentTypeError, "ML344"),
    ],
)
def test_errors(index: Any, error: type[Exception], code: str) -> None:
    with Graph("g", input_types=[TensorType(DType.float32, [4, "m"])]) as graph:
        before = list(graph.function.ops)
        with pytest.raises(error) as caught:
            graph.inputs[0].tensor[index]
        assert caught.value.code == code  # type: ignore[attr-defined]
        assert graph.function.ops == before


def test_numpy_ints_and_the_documented_edges() -> None:
    array = np.arange(4, dtype=np.float32)
    for index in (
        np.int32(2),
        np.array(1),
        slice(0, 4),
        slice(4, 4),
        slice(3, 1),
        slice(3, -5, -1),
    ):
        np.testing.assert_array_equal(taken(array, [4], index), array[index])


def test_iteration() -> None:
    with Graph("g", input_types=[TensorType(DType.float32, [3, "m"])]) as graph:
        x = graph.inputs[0].tensor
        a, b, c = x
        graph.output(a, b, c)
        with pytest.raises(TypeError, match="first dim"):
            iter(ops.transpose(x, 0, 1))
        with pytest.raises(TypeError, match="not known while the graph is built"):
            x in x  # noqa: B015
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    for found, expected in zip(run(graph, array), array, strict=True):
        np.testing.assert_array_equal(found, expected)
