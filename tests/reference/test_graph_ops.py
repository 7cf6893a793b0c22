"""The examples of ``graph.ops``: what the functions that build a graph make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import (
    BufferType,
    DeviceRef,
    DimLike,
    FilterLayout,
    Graph,
    StaticDim,
    TensorType,
    TensorValue,
    ops,
)
from tests.reference.examples import Array, example, run

Printed = pytest.CaptureFixture[str]


# ---------------------------------------------------------------- types
@example("graph.ops", 1)
@example("graph.type", 1)
def test_device_ref(capsys: Printed) -> None:
    gpu_device = DeviceRef.GPU()
    print(gpu_device)
    cpu_device = DeviceRef.CPU(id=1)
    print(cpu_device)
    assert capsys.readouterr().out == "gpu:0\ncpu:1\n"


@example("graph.ops", 2)
@example("graph.type", 2)
def test_tensor_type(capsys: Printed) -> None:
    tensor_type = TensorType(DType.float32, (2, 3))  # no device: the CPU
    print(tensor_type.dtype)
    print(tensor_type.shape)
    assert capsys.readouterr().out == "DType.float32\n[2, 3]\n"
    assert tensor_type.device == DeviceRef.CPU()


# ---------------------------------------------------------------- elementwise, bands
@example("graph.ops", 3)
def test_acos_graph() -> None:
    input_type = TensorType(dtype=DType.float32, shape=(3,), device=DeviceRef.CPU())
    with Graph("acos_graph", input_types=(input_type,)) as graph:
        x = graph.inputs[0]
        out = ops.acos(x)
        graph.output(out)
    found = run(graph, np.array([-2, 0, 1], np.float32))[0]  # -2 is clamped
    np.testing.assert_allclose(found, [np.pi, np.pi / 2, 0], rtol=1e-6)


BANDS: list[tuple[int | None, int | None]] = [(None, None), (0, None), (None, 1), (1, 2), (2, 0)]


def in_band(m: int, n: int, num_lower: int | None, num_upper: int | None) -> bool:
    return (num_lower is None or (m - n) <= num_lower) and (
        num_upper is None or (n - m) <= num_upper
    )


@example("graph.ops", 4)
@pytest.mark.parametrize(("num_lower", "num_upper"), BANDS)
def test_band_part(num_lower: int | None, num_upper: int | None) -> None:
    input = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1
    with Graph("band", input_types=[TensorType(DType.float32, ["batch", 3, 4])]) as graph:
        graph.output(ops.band_part(graph.inputs[0], num_lower, num_upper))
    out = run(graph, input)[0]
    for i, m, n in np.ndindex(2, 3, 4):
        assert out[i, m, n] == in_band(m, n, num_lower, num_upper) * input[i, m, n]


@example("graph.ops", 5)
@pytest.mark.parametrize(("num_lower", "num_upper"), BANDS)
def test_band_part_indicator(num_lower: int | None, num_upper: int | None) -> None:
    with Graph("band", input_types=[TensorType(DType.float32, [4, 4])]) as graph:
        x = graph.inputs[0]
        graph.output(
            ops.band_part(x, num_lower, num_upper),
            ops.band_part(x, num_lower, num_upper, exclude=True),
        )
    band, rest = run(graph, np.ones((4, 4), np.float32))
    found = [[in_band(m, n, num_lower, num_upper) for n in range(4)] for m in range(4)]
    np.testing.assert_array_equal(band, found)
    np.testing.assert_array_equal(rest, np.logical_not(found))


# ---------------------------------------------------------------- joining, cutting
@example("graph.ops", 6)
def test_chunk() -> None:
    with Graph("chunk") as graph:
        a = TensorValue([1, 2, 3, 4, 5])
        # the page cuts 5 elements into 2 chunks; its words ask for an even division
        with pytest.raises(ArgumentError, match="axis 0 of size 5 cannot be cut into 2"):
            ops.chunk(a, 2, 0)
        graph.output(*ops.chunk(a[:4], 2, 0))
    assert [part.tolist() for part in run(graph)] == [[1, 2], [3, 4]]


# ---------------------------------------------------------------- control flow
@example("graph.ops", 7)
def test_cond() -> None:
    device = DeviceRef.CPU()  # the page does not say which
    with Graph("cond", input_types=[TensorType(DType.bool, [], device)]) as graph:
        pred = graph.inputs[0]

        def then_fn() -> TensorValue:
            return ops.constant(1, DType.int32, device=DeviceRef.CPU())

        def else_fn() -> TensorValue:
            return ops.constant(0, DType.int32, device=DeviceRef.CPU())

        result = ops.cond(pred, [TensorType(DType.int32, [], device=device)], then_fn, else_fn)
        graph.output(*result)
    assert run(graph, True)[0] == 1
    assert run(graph, False)[0] == 0


@example("graph.ops", 8)
def test_cond_with_buffer_mutations() -> None:
    # the page has no kernels `increment` and `decrement`
    kernels = "\n".join(
        f"// @op {name}(inout x: T[*s])\n// @types T: float32\n// @both\n"
        f"store(x, i, load(x, i) {sign} 1);\n"
        for name, sign in (("increment", "+"), ("decrement", "-"))
    )
    types = [TensorType(DType.bool, []), BufferType(DType.float32, [3])]
    with Graph("cond", input_types=types, custom_extensions=[kernels]) as graph:
        pred, buffer = graph.inputs[0], graph.inputs[1].buffer

        def then_fn() -> None:
            ops.inplace_custom("increment", device=buffer.device, values=[buffer])

        def else_fn() -> None:
            ops.inplace_custom("decrement", device=buffer.device, values=[buffer])

        ops.cond(pred, None, then_fn, else_fn)
        graph.output()
    array = np.zeros(3, np.float32)
    model = engine.InferenceSession().load(graph)
    model.execute(True, array)
    model.execute(True, array)
    model.execute(False, array)
    assert array.tolist() == [1, 1, 1]


@example("graph.ops", 21)
def test_while_loop(capsys: Printed) -> None:
    with Graph("while_loop_example") as g:
        x = ops.constant(0, dtype=DType.int32, device=DeviceRef.CPU())

        def pred(x: TensorValue) -> TensorValue:
            return x < 10

        def body(x: TensorValue) -> TensorValue:
            return x + 1

        result = ops.while_loop(x, pred, body)
        print(result)
        g.output(*result)
    assert "TensorValue" in capsys.readouterr().out
    assert run(g)[0] == 10


@example("graph.ops", 22)
def test_while_loop_with_two_values(capsys: Printed) -> None:
    with Graph("while_loop_example") as g:
        x = ops.constant(0, dtype=DType.int32, device=DeviceRef.CPU())
        y = ops.constant(5, dtype=DType.int32, device=DeviceRef.CPU())

        def pred(x: TensorValue, y: TensorValue) -> TensorValue:
            return ops.logical_and(x < 10, y < 15)

        def body(x: TensorValue, y: TensorValue) -> list[TensorValue]:
            return [x + 1, y + 1]

        results = ops.while_loop((x, y), pred, body)
        print(results)
        g.output(*results)
    assert capsys.readouterr().out.count("TensorValue") == 2
    assert run(g) == [10, 15]


# ---------------------------------------------------------------- convolutions
INPUT = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
PADDED = [[0, 0, 1, 2, 3, 0], [0, 0, 4, 5, 6, 0], [0, 0, 0, 0, 0, 0]]


@example("graph.ops", 9)
def test_conv2d_padding() -> None:
    with Graph("conv", input_types=[TensorType(DType.float32, [1, 2, 3, 1])]) as graph:
        # a filter of one element that is 1 shows the padded input
        one = np.ones((1, 1, 1, 1), np.float32)
        graph.output(ops.conv2d(graph.inputs[0], one, padding=(0, 1, 2, 1)))
    assert run(graph, INPUT.reshape(1, 2, 3, 1))[0][0, :, :, 0].tolist() == PADDED


@example("graph.ops", 10)
def test_conv2d_transpose_padding() -> None:
    output = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)  # 2x4
    with Graph("conv", input_types=[TensorType(DType.float32, [1, 1, 1, 1])]) as graph:
        # one pixel that is 1 spreads the whole filter; the padding is what is cut off of it
        x, filter = graph.inputs[0], output.reshape(2, 4, 1, 1)
        graph.output(
            ops.conv2d_transpose(x, filter),
            ops.conv2d_transpose(x, filter, padding=(0, 1, 2, 1)),
        )
    whole, padded = run(graph, np.ones((1, 1, 1, 1), np.float32))
    assert whole[0, :, :, 0].tolist() == output.tolist()
    assert padded[0, :, :, 0].tolist() == [[3]]  # 1x1


@example("graph.ops", 11)
def test_conv3d_padding() -> None:
    with Graph("conv", input_types=[TensorType(DType.float32, [1, 1, 2, 3, 1])]) as graph:
        one = np.ones((1, 1, 1, 1, 1), np.float32)
        graph.output(
            ops.conv3d(
                graph.inputs[0],
                one,
                padding=(0, 0, 0, 1, 2, 1),  # the page pads H and W; D comes first
                filter_layout=FilterLayout.QRSCF,
            )
        )
    assert run(graph, INPUT.reshape(1, 1, 2, 3, 1))[0][0, 0, :, :, 0].tolist() == PADDED


# ---------------------------------------------------------------- indexing
@example("graph.ops", 12)
def test_gather_nd() -> None:
    input_shape: list[DimLike] = ["a", "b", "c", "d", "e"]
    indices_shape: list[DimLike] = ["a", "f", 3]
    input_type = TensorType(DType.bfloat16, input_shape)
    indices_type = TensorType(DType.int32, indices_shape)
    with Graph("gather_nd", input_types=[input_type, indices_type]) as graph:
        input, indices = graph.inputs
        gathered = ops.gather_nd(input, indices, batch_dims=1)
        # the page prints the type; here its text is that of the IR, and its repr names the class
        assert gathered.type == TensorType(DType.bfloat16, ["a", "f", "e"])
        assert repr(gathered.type).startswith("TensorType(dtype=DType.bfloat16, shape=[")
        graph.output(ops.cast(gathered, DType.float32))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (2, 3, 4, 5, 6)).astype(np.float32)
    where = np.stack([rng.integers(0, size, (2, 7)) for size in (3, 4, 5)], -1).astype(np.int32)
    session = engine.InferenceSession()
    given = as_bfloat16(x)
    found = session.load(graph).execute(given, where)[0].to_numpy()
    for i, j in np.ndindex(2, 7):
        b, c, d = where[i, j]
        np.testing.assert_array_equal(found[i, j], x[i, b, c, d])


def as_bfloat16(x: Array) -> Any:
    """``x`` as a tensor of bfloat16, cast by a graph."""
    graph = Graph(
        "cast", lambda v: v.cast(DType.bfloat16), [TensorType(DType.float32, list(x.shape))]
    )
    return engine.InferenceSession().load(graph).execute(x)[0]


@example("graph.ops", 20)
def test_slice_tensor() -> None:
    with Graph("slice", input_types=[TensorType(DType.float32, ["n", 2])]) as graph:
        x = graph.inputs[0].tensor  # the page does not say what x is
        graph.output(
            ops.slice_tensor(x, [slice(None, None, -1)]),
            ops.slice_tensor(x, [..., None, slice(None)]),
        )
    matrix = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    backwards, longer = run(graph, matrix)
    assert backwards.tolist() == [[5, 6], [3, 4], [1, 2]]
    np.testing.assert_array_equal(longer, matrix[:, None, :])


# ---------------------------------------------------------------- printing
@example("graph.ops", 13)
def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    def add_tensors(a: Array, b: Array) -> dict[str, Any]:
        input_type = TensorType(dtype=DType.float32, shape=(1,), device=DeviceRef.CPU())
        with Graph("simple_add_graph", input_types=(input_type, input_type)) as graph:
            lhs, rhs = graph.inputs
            out = ops.add(lhs, rhs)
            ops.print(out, label="addition_output")
            graph.output(out)
            print("final graph:", graph)
        # the page stops here, before it has a dict to return
        return {"out": run(graph, a, b)[0]}

    made = add_tensors(np.array([1], np.float32), np.array([2], np.float32))
    assert made["out"].tolist() == [3]
    printed = capfd.readouterr().out
    assert "final graph: mo.graph @simple_add_graph(" in printed
    assert printed.splitlines()[-1] == "addition_output = tensor([3.], dtype=float32, shape=[1])"


# ---------------------------------------------------------------- repeats
def repeated(repeat: Callable[[TensorValue], TensorValue]) -> Array:
    """What ``repeat`` makes of the matrix of the page."""
    x = [[1.0, 2.0], [3.0, 4.0]]
    with Graph("repeat") as graph:
        input = TensorValue(x)
        graph.output(repeat(input))
    return run(graph)[0]


@example("graph.ops", 14)
def test_repeat_interleave_input() -> None:
    found = repeated(lambda x: x)
    assert found.shape == (2, 2)
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@example("graph.ops", 15)
def test_repeat_interleave_rows() -> None:
    found = repeated(lambda x: ops.repeat_interleave(x, repeats=2, axis=0))
    assert found.tolist() == [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]


@example("graph.ops", 16)
def test_repeat_interleave_columns() -> None:
    found = repeated(lambda x: ops.repeat_interleave(x, repeats=2, axis=1))
    assert found.tolist() == [[1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0]]


@example("graph.ops", 17)
def test_repeat_interleave_with_a_tensor() -> None:
    def repeat(input: TensorValue) -> TensorValue:
        repeat_value = TensorValue([2, 3])
        output = ops.repeat_interleave(input, repeats=repeat_value, axis=0)
        assert output.shape == [5, 2]
        return output

    assert repeated(repeat).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4], [3, 4]]


@example("graph.ops", 18)
def test_repeat_interleave_flat() -> None:
    found = repeated(lambda x: ops.repeat_interleave(x, repeats=2))
    assert found.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]


# ---------------------------------------------------------------- shapes as tensors
@example("graph.ops", 19)
def test_shape_to_tensor() -> None:
    with Graph("shapes") as graph:
        x = ops.constant(np.zeros((1,)), DType.int64, device=DeviceRef.CPU())
        result = ops.stack([x, ops.shape_to_tensor(x.shape)])
        assert result.dtype is DType.int64
        assert list(result.shape) == [StaticDim(2), StaticDim(1)]
        graph.output(result)
    assert run(graph)[0].tolist() == [[0], [1]]
