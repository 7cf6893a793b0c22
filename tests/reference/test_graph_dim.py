"""The examples of ``graph.dim``: dims of each kind, outside of any graph."""

from __future__ import annotations

import pytest

from maxlab.dtype import DType
from maxlab.graph import AlgebraicDim, DeviceRef, Dim, StaticDim, SymbolicDim, TensorType
from tests.reference.examples import example


@example("graph.dim", 1)
def test_algebraic_dim(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(Dim("batch") * 5, AlgebraicDim)
    print(Dim("batch") * 5)
    assert capsys.readouterr().out == "batch * 5\n"
    assert -Dim("x") - 4 == -(Dim("x") + 4)


@example("graph.dim", 2)
def test_conversion() -> None:
    tensor_type = TensorType(DType.int64, ("batch", 10), device=DeviceRef.CPU())
    batch, ten = tensor_type.shape  # the page speaks of three dims and writes two
    assert isinstance(batch, SymbolicDim)
    assert (batch.name, ten) == ("batch", StaticDim(10))


@example("graph.dim", 3)
def test_explicit_dims() -> None:
    some_dims = [
        SymbolicDim("batch"),
        StaticDim(5),
        AlgebraicDim(Dim("batch") + 1),
    ]
    assert some_dims == ["batch", 5, Dim("batch") + 1]
    assert [type(dim) for dim in some_dims] == [SymbolicDim, StaticDim, AlgebraicDim]


@example("graph.dim", 4)
def test_static_dims() -> None:
    tensor = TensorType(DType.int64, (4, 5))
    assert [dim.dim for dim in tensor.shape if isinstance(dim, StaticDim)] == [4, 5]


@example("graph.dim", 5)
def test_notation() -> None:
    # the page's text has one bracket too many
    text = "!mo.tensor<[batch, x, 10], si32>"
    made = TensorType(DType.int32, ("batch", "x", 10))
    assert str(made.to_mlir()) == text
    assert TensorType.from_mlir(text) == made
    assert [dim.name for dim in made.shape if isinstance(dim, SymbolicDim)] == ["batch", "x"]


@example("graph.dim", 6)
def test_symbolic_dim() -> None:
    dim = SymbolicDim("name")
    assert dim.name == "name"
    assert dim == Dim("name")


@example("graph.dim", 7)
def test_symbolic_dims_of_a_type() -> None:
    tensor_type = TensorType(DType.bool, (SymbolicDim("batch"), SymbolicDim("x"), 10))
    assert tensor_type.shape == ["batch", "x", 10]
    assert tensor_type.dtype is DType.bool
