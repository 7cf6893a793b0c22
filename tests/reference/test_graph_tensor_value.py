"""The examples of ``graph.TensorValue``: a tensor inside of a graph, its facts and its methods."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.reference.examples import example, run

Printed = pytest.CaptureFixture[str]


@example("graph.TensorValue", 1)
def test_tensor_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("tensor_demo") as graph:
        # the page does not import DeviceRef, here and below
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        print(f"Shape: {tensor.shape}")
        print(f"Data type: {tensor.dtype}")
        transposed = tensor.T
        doubled = tensor * 2
        print(f"Original shape: {tensor.shape}")
        print(f"Transposed shape: {transposed.shape}")
        graph.output(transposed, doubled)
    assert capsys.readouterr().out.splitlines() == [
        "Shape: [2, 2]",
        "Data type: DType.float32",
        "Original shape: [2, 2]",
        "Transposed shape: [2, 2]",
    ]
    turned, twice = run(graph)
    assert turned.tolist() == [[1, 3], [2, 4]]
    assert twice.tolist() == [[2, 4], [6, 8]]


@example("graph.TensorValue", 2)
def test_argmax_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("argmax_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        indices = x.argmax(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Argmax shape: {indices.shape}")
        graph.output(indices)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nArgmax shape: [2, 1]\n"
    assert indices.dtype is DType.int64
    assert run(graph, np.array([[1, 5, 2], [7, 0, 3]], np.float32))[0].tolist() == [[1], [0]]


@example("graph.TensorValue", 3)
def test_broadcast_to_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("broadcast_to_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        broadcasted_tensor = tensor.broadcast_to((3, 2, 2))
        print(f"Original shape: {tensor.shape}")
        print(f"Broadcasted shape: {broadcasted_tensor.shape}")
        graph.output(broadcasted_tensor)
    assert capsys.readouterr().out == "Original shape: [2, 2]\nBroadcasted shape: [3, 2, 2]\n"
    np.testing.assert_array_equal(run(graph)[0], np.broadcast_to(matrix, (3, 2, 2)))


@example("graph.TensorValue", 4)
def test_cast_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("cast_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        casted_tensor = tensor.cast(DType.int32)
        print(f"Original dtype: {tensor.dtype}")
        print(f"Casted dtype: {casted_tensor.dtype}")
        graph.output(casted_tensor)
    assert capsys.readouterr().out == "Original dtype: DType.float32\nCasted dtype: DType.int32\n"
    made = run(graph)[0]
    assert (made.dtype, made.tolist()) == (np.int32, [[1, 2], [3, 4]])


@example("graph.TensorValue", 5)
def test_dtype_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("dtype_demo"):
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        print(f"Data type: {tensor.dtype}")
    assert capsys.readouterr().out == "Data type: DType.float32\n"


@example("graph.TensorValue", 6)
def test_flatten_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("flatten_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        flattened_tensor = tensor.flatten()
        print(f"Original shape: {tensor.shape}")
        print(f"Flattened shape: {flattened_tensor.shape}")
        graph.output(flattened_tensor)
    assert capsys.readouterr().out == "Original shape: [2, 2]\nFlattened shape: [4]\n"
    assert run(graph)[0].tolist() == [1, 2, 3, 4]


@example("graph.TensorValue", 7)
def test_max_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("max_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        m = x.max(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Max shape: {m.shape}")
        graph.output(m)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nMax shape: [2, 1]\n"
    assert run(graph, np.array([[1, 5, 2], [7, 0, 3]], np.float32))[0].tolist() == [[5], [7]]


@example("graph.TensorValue", 8)
def test_mean_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("mean_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        mu = x.mean(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Mean shape: {mu.shape}")
        graph.output(mu)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nMean shape: [2, 1]\n"
    assert run(graph, np.array([[1, 5, 3], [7, 0, 2]], np.float32))[0].tolist() == [[3], [3]]


@example("graph.TensorValue", 9)
def test_min_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("min_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        mn = x.min(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Min shape: {mn.shape}")
        graph.output(mn)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nMin shape: [2, 1]\n"
    assert run(graph, np.array([[1, 5, 2], [7, 0, 3]], np.float32))[0].tolist() == [[1], [0]]


@example("graph.TensorValue", 10)
def test_rank_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("rank_demo"):
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        print(f"Rank: {tensor.rank}")
    assert capsys.readouterr().out == "Rank: 2\n"


@example("graph.TensorValue", 11)
def test_reshape_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("reshape_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        reshaped_tensor = tensor.reshape((1, 4))
        print(f"Original shape: {tensor.shape}")
        print(f"Reshaped shape: {reshaped_tensor.shape}")
        graph.output(reshaped_tensor)
    assert capsys.readouterr().out == "Original shape: [2, 2]\nReshaped shape: [1, 4]\n"
    assert run(graph)[0].tolist() == [[1, 2, 3, 4]]


@example("graph.TensorValue", 12)
def test_shape_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("shape_demo"):
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        # the page prints [Dim(2), Dim(2)] here and [2, 2] for the same statement above: the repr
        print(f"Shape: {tensor.shape!r}")
    assert capsys.readouterr().out == "Shape: [Dim(2), Dim(2)]\n"


@example("graph.TensorValue", 13)
def test_stdev_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("stdev_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        sd = x.stdev(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Stdev shape: {sd.shape}")
        graph.output(sd)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nStdev shape: [2, 1]\n"
    array = np.array([[1, 5, 2], [7, 0, 3]], np.float32)
    np.testing.assert_allclose(run(graph, array)[0], array.std(1, keepdims=True), rtol=1e-6)


@example("graph.TensorValue", 14)
def test_to_device_example(capsys: Printed) -> None:
    matrix = np.array([[1, 2], [3, 4]], dtype=np.float32)
    with Graph("to_device_example"):
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        gpu_tensor = tensor.to(DeviceRef.GPU())
        print(f"Original device: {tensor.device}")
        print(f"New device: {gpu_tensor.device}")
    assert capsys.readouterr().out == "Original device: cpu:0\nNew device: gpu:0\n"


@example("graph.TensorValue", 15)
def test_transpose_demo(capsys: Printed) -> None:
    matrix = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    with Graph("transpose_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        transposed_tensor = tensor.transpose(dim_1=0, dim_2=1)
        print(f"Original shape: {tensor.shape}")
        print(f"Transposed shape: {transposed_tensor.shape}")
        graph.output(transposed_tensor)
    assert capsys.readouterr().out == "Original shape: [2, 3]\nTransposed shape: [3, 2]\n"
    assert run(graph)[0].tolist() == [[1, 4], [2, 5], [3, 6]]


@example("graph.TensorValue", 16)
def test_var_demo(capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph("var_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        vr = x.var(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"Var shape: {vr.shape}")
        graph.output(vr)
    assert capsys.readouterr().out == "Input shape: [2, 3]\nVar shape: [2, 1]\n"
    array = np.array([[1, 5, 2], [7, 0, 3]], np.float32)
    np.testing.assert_allclose(run(graph, array)[0], array.var(1, keepdims=True), rtol=1e-6)
