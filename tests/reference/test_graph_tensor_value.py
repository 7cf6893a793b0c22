"""The examples of ``graph.TensorValue``: a tensor inside of a graph, its facts and its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.reference.examples import Array, example, run

Printed = pytest.CaptureFixture[str]
MATRIX = np.array([[1, 2], [3, 4]], dtype=np.float32)
WIDE = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
DATA = np.array([[1, 5, 3], [7, 0, 2]], np.float32)


@example("graph.TensorValue", 1)
def test_tensor_demo(capsys: Printed) -> None:
    with Graph("tensor_demo") as graph:
        # the page does not import DeviceRef, here and below
        tensor = ops.constant(MATRIX, dtype=DType.float32, device=DeviceRef.CPU())
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
@example("graph.TensorValue", 7)
@example("graph.TensorValue", 8)
@example("graph.TensorValue", 9)
@example("graph.TensorValue", 13)
@example("graph.TensorValue", 16)
@pytest.mark.parametrize(
    ("name", "of_numpy"),
    [
        ("argmax", np.argmax),
        ("max", np.max),
        ("mean", np.mean),
        ("min", np.min),
        ("stdev", np.std),
        ("var", np.var),
    ],
)
def test_reductions(name: str, of_numpy: Callable[..., Any], capsys: Printed) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=DeviceRef.CPU())
    with Graph(f"{name}_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        made = getattr(x, name)(axis=1)
        print(f"Input shape: {x.shape}")
        print(f"{name.capitalize()} shape: {made.shape}")
        graph.output(made)
    said = f"Input shape: [2, 3]\n{name.capitalize()} shape: [2, 1]\n"
    assert capsys.readouterr().out == said
    assert made.dtype is (DType.int64 if name == "argmax" else DType.float32)
    expected = of_numpy(DATA, axis=1, keepdims=True)
    np.testing.assert_allclose(run(graph, DATA)[0], expected, rtol=1e-6)


@example("graph.TensorValue", 3)
@example("graph.TensorValue", 6)
@example("graph.TensorValue", 11)
@example("graph.TensorValue", 15)
@pytest.mark.parametrize(
    ("word", "matrix", "make", "expected"),
    [
        (
            "Broadcasted",
            MATRIX,
            lambda tensor: tensor.broadcast_to((3, 2, 2)),
            np.broadcast_to(MATRIX, (3, 2, 2)),
        ),
        ("Flattened", MATRIX, lambda tensor: tensor.flatten(), MATRIX.reshape(4)),
        ("Reshaped", MATRIX, lambda tensor: tensor.reshape((1, 4)), MATRIX.reshape(1, 4)),
        ("Transposed", WIDE, lambda tensor: tensor.transpose(dim_1=0, dim_2=1), WIDE.T),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_shapes(
    word: str,
    matrix: Array,
    make: Callable[[TensorValue], TensorValue],
    expected: Array,
    capsys: Printed,
) -> None:
    with Graph("shapes_demo") as graph:
        tensor = ops.constant(matrix, dtype=DType.float32, device=DeviceRef.CPU())
        made = make(tensor)
        print(f"Original shape: {tensor.shape}")
        print(f"{word} shape: {made.shape}")
        graph.output(made)
    shapes = list(matrix.shape), list(expected.shape)
    said = f"Original shape: {shapes[0]}\n{word} shape: {shapes[1]}\n"
    assert capsys.readouterr().out == said
    np.testing.assert_array_equal(run(graph)[0], expected)


@example("graph.TensorValue", 4)
def test_cast_demo(capsys: Printed) -> None:
    with Graph("cast_demo") as graph:
        tensor = ops.constant(MATRIX, dtype=DType.float32, device=DeviceRef.CPU())
        casted_tensor = tensor.cast(DType.int32)
        print(f"Original dtype: {tensor.dtype}")
        print(f"Casted dtype: {casted_tensor.dtype}")
        graph.output(casted_tensor)
    assert capsys.readouterr().out == "Original dtype: DType.float32\nCasted dtype: DType.int32\n"
    made = run(graph)[0]
    assert (made.dtype, made.tolist()) == (np.int32, [[1, 2], [3, 4]])


@example("graph.TensorValue", 5)
@example("graph.TensorValue", 10)
@example("graph.TensorValue", 12)
def test_facts(capsys: Printed) -> None:
    with Graph("facts_demo"):
        tensor = ops.constant(MATRIX, dtype=DType.float32, device=DeviceRef.CPU())
        print(f"Data type: {tensor.dtype}")
        print(f"Rank: {tensor.rank}")
        # the page prints [Dim(2), Dim(2)] here and [2, 2] for the same statement above: the repr
        print(f"Shape: {tensor.shape!r}")
    assert capsys.readouterr().out.splitlines() == [
        "Data type: DType.float32",
        "Rank: 2",
        "Shape: [Dim(2), Dim(2)]",
    ]


@example("graph.TensorValue", 14)
def test_to_device_example(capsys: Printed) -> None:
    with Graph("to_device_example"):
        tensor = ops.constant(MATRIX, dtype=DType.float32, device=DeviceRef.CPU())
        gpu_tensor = tensor.to(DeviceRef.GPU())
        print(f"Original device: {tensor.device}")
        print(f"New device: {gpu_tensor.device}")
    assert capsys.readouterr().out == "Original device: cpu:0\nNew device: gpu:0\n"
