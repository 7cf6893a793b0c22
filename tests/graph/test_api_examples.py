"""The examples of the API reference that use what exists, with `max` read as `maxlab`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab.dtype import DType
from maxlab.graph import (
    AlgebraicDim,
    DeviceRef,
    Dim,
    Graph,
    StaticDim,
    SymbolicDim,
    TensorType,
    TensorValue,
    Value,
    ops,
)
from maxlab.graph.weights import WeightsFormat, load_weights, weights_format
from tests.graph.interpreter import run

MATRIX = np.array([[1, 2], [3, 4]], dtype=np.float32)
CPU = DeviceRef.CPU()


def matrix() -> TensorValue:
    return ops.constant(MATRIX, dtype=DType.float32, device=CPU)


# ---------------------------------------------------------------- TensorValue
def test_tensor_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("tensor_demo"):
        tensor = matrix()
        print(f"Shape: {tensor.shape}")
        print(f"Data type: {tensor.dtype}")
        transposed = tensor.T
        doubled = tensor * 2
        assert transposed.shape == doubled.shape == [2, 2]
    assert capsys.readouterr().out == "Shape: [Dim(2), Dim(2)]\nData type: DType.float32\n"


@pytest.mark.parametrize("name", ["argmax", "max", "mean", "min", "stdev", "var"])
def test_reduction_methods(name: str) -> None:
    input_type = TensorType(DType.float32, (2, 3), device=CPU)
    with Graph(f"{name}_demo", input_types=[input_type]) as graph:
        x = graph.inputs[0].tensor
        made = getattr(x, name)(axis=1)
        assert x.shape == [2, 3]
        assert made.shape == [2, 1]
        assert made.dtype is (DType.int64 if name == "argmax" else DType.float32)


def test_shape_methods() -> None:
    with Graph("demo"):
        tensor = matrix()
        assert tensor.broadcast_to((3, 2, 2)).shape == [3, 2, 2]
        assert tensor.cast(DType.int32).dtype is DType.int32
        assert tensor.flatten().shape == [4]
        assert tensor.rank == 2
        assert tensor.reshape((1, 4)).shape == [1, 4]
        gpu_tensor = tensor.to(DeviceRef.GPU())
        assert str(gpu_tensor.device) == "gpu:0"


def test_transpose_demo() -> None:
    with Graph("transpose_demo"):
        tensor = ops.constant(np.array([[1, 2, 3], [4, 5, 6]]), dtype=DType.float32, device=CPU)
        assert tensor.transpose(dim_1=0, dim_2=1).shape == [3, 2]


# ---------------------------------------------------------------- Value, Graph
def test_value_example() -> None:
    with Graph("value_example"):
        a = ops.constant(np.array([1, 2, 3]), dtype=DType.float32, device=CPU)
        b = ops.constant(np.array([4, 5, 6]), dtype=DType.float32, device=CPU)
        c = a + b
        assert isinstance(c, Value)


def test_linear_graph() -> None:
    @dataclass
    class Linear:
        weight: np.ndarray[Any, Any]
        bias: np.ndarray[Any, Any]

        def __call__(self, x: TensorValue) -> TensorValue:
            weight_tensor = ops.constant(self.weight, dtype=DType.float32, device=CPU)
            bias_tensor = ops.constant(self.bias, dtype=DType.float32, device=CPU)
            return ops.matmul(x, weight_tensor) + bias_tensor

    linear_graph = Graph(
        "linear",
        Linear(np.ones((2, 2)), np.ones((2,))),
        input_types=[TensorType(DType.float32, (2,))],
    )
    assert run(linear_graph, np.array([1, 2], np.float32))[0].tolist() == [4, 4]


def test_type_example() -> None:
    with Graph():
        tensor_type = TensorType(DType.float32, [2, 3])
        assert tensor_type.dtype is DType.float32
        assert tensor_type.shape == [2, 3]


# ---------------------------------------------------------------- dims, devices
def test_dims() -> None:
    tensor_type = TensorType(DType.int64, ("batch", 10), device=CPU)
    assert tensor_type.shape == ["batch", 10]
    some_dims = [SymbolicDim("batch"), StaticDim(5), AlgebraicDim(Dim("batch") + 1)]
    assert all(isinstance(dim, Dim) for dim in some_dims)
    assert isinstance(Dim("batch") * 5, AlgebraicDim)
    assert str(Dim("batch") * 5) == "batch * 5"
    assert -Dim("x") - 4 == -(Dim("x") + 4)
    named = TensorType(DType.bool, (SymbolicDim("batch"), SymbolicDim("x"), 10))
    assert named.shape == ["batch", "x", 10]


def test_devices() -> None:
    assert str(DeviceRef.GPU()) == "gpu:0"
    assert str(DeviceRef.CPU(id=1)) == "cpu:1"


# ---------------------------------------------------------------- ops
def test_acos_graph() -> None:
    input_type = TensorType(dtype=DType.float32, shape=(3,), device=CPU)
    with Graph("acos_graph", input_types=(input_type,)) as graph:
        x = graph.inputs[0]
        out = ops.acos(x)
        graph.output(out)
    found = run(graph, np.array([-2, 0, 1], np.float32))[0]
    np.testing.assert_allclose(found, [np.pi, np.pi / 2, 0], rtol=1e-6)


def test_repeat_interleave() -> None:
    with Graph("g") as graph:
        input = TensorValue([[1.0, 2.0], [3.0, 4.0]])
        graph.output(
            ops.repeat_interleave(input, repeats=2, axis=0),
            ops.repeat_interleave(input, repeats=2, axis=1),
            ops.repeat_interleave(input, repeats=2),
        )
    rows, columns, flat = (a.tolist() for a in run(graph))
    assert rows == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert columns == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert flat == [1, 1, 2, 2, 3, 3, 4, 4]


def test_shape_to_tensor() -> None:
    with Graph("g"):
        x = ops.constant(np.zeros((1,)), DType.int64, device=CPU)
        result = ops.stack([x, ops.shape_to_tensor(x.shape)])
        assert (result.dtype, list(result.shape)) == (DType.int64, [Dim(2), Dim(1)])


def test_slice_tensor() -> None:
    with Graph("g") as graph:
        x = matrix()
        graph.output(
            ops.slice_tensor(x, [slice(None, None, -1)]),
            ops.slice_tensor(x, [..., None, slice(None)]),
        )
    backwards, longer = run(graph)
    assert backwards.tolist() == [[3, 4], [1, 2]]
    assert longer.shape == (2, 1, 2)


# ---------------------------------------------------------------- weights
def test_graph_weights() -> None:
    graph = Graph("my_model")
    weights = graph.weights()
    attn_weight = weights.transformer.layers[0].attention.weight.allocate(
        dtype=DType.float32, shape=(768, 768)
    )
    assert attn_weight.name == "transformer.layers.0.attention.weight"
    if weights.transformer.layers[0].mlp.weight.exists():
        raise AssertionError("nothing of that name was allocated")
    with graph:
        assert graph.add_weight(attn_weight).shape == [768, 768]


def test_safetensors_weights(tmp_path: Path) -> None:
    names = ["model.embeddings.weight", "transformer.layers.0.attention.weight"]
    for number, name in enumerate(names):
        save_file({name: MATRIX.astype(np.float16)}, tmp_path / f"model-{number}.safetensors")
    paths = sorted(tmp_path.glob("*.safetensors"))
    assert weights_format(paths) is WeightsFormat.safetensors
    weights: Any = load_weights(paths)
    assert weights.model.embeddings.weight.exists()
    attn_weight = weights.transformer.layers[0].attention.weight.allocate(dtype=DType.float16)
    assert attn_weight.shape == [2, 2]
    weight_data = weights.model.embeddings.weight.data()
    assert weight_data.astype(DType.float32).data.tolist() == MATRIX.tolist()
    assert [name for name, _ in weights.transformer.layers[0].items()] == ["attention.weight"]
