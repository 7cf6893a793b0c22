"""The examples of the page of modules that compute at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from maxlab import driver
from maxlab.driver import CPU, Accelerator
from maxlab.dtype import DType
from maxlab.experimental.tensor import Tensor, defaults
from maxlab.graph import TensorType
from maxlab.nn.module_v3 import (
    Embedding,
    LayerNorm,
    Linear,
    Module,
    Sequential,
    module_dataclass,
)
from tests.reference.examples import example

Printed = pytest.CaptureFixture[str]


@module_dataclass
class Line(Module[..., Tensor]):
    """The page's class Linear of the examples that write one themselves."""

    weight: Tensor
    bias: Tensor | int = 0

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


@module_dataclass
class MLP(Module[..., Tensor]):
    """Two layers, one behind the other."""

    fc1: Linear
    fc2: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x))


@example("nn.module_v3", 1)
def test_embedding() -> None:
    embedding = Embedding(vocab_size=1000, dim=128)
    tokens = Tensor.ones([10], dtype=DType.uint64)
    embedded = embedding(tokens)
    assert embedded.shape == [10, 128]


@example("nn.module_v3", 2)
def test_embedding_of_several_dims() -> None:
    embedding = Embedding(vocab_size=1000, dims=[16, 128])
    tokens = Tensor.ones([10], dtype=DType.uint64)
    embedded = embedding(tokens)
    assert embedded.shape == [10, 16, 128]


@example("nn.module_v3", 3)
def test_linear() -> None:
    model = Linear(5, 10)
    parameters = dict(model.parameters)
    # The page compares the dicts, and == of tensors is one truth value for each element.
    assert parameters.keys() == {"weight", "bias"}
    assert parameters["weight"] is model.weight
    assert parameters["bias"] is model.bias
    result = model(Tensor.ones([5]))
    assert result.shape == [10]


@example("nn.module_v3", 4)
def test_a_module_of_ones_own(capsys: Printed) -> None:
    linear = Line(Tensor.zeros([5, 4]))
    print(linear)
    print(linear(Tensor.constant([1, 2, 3, 4])))
    shown = capsys.readouterr().out
    assert "weight" in shown
    assert "5" in shown


@example("nn.module_v3", 5)
def test_parameters_move_to_a_gpu() -> None:
    with driver.simulated():
        model = Linear(2, 3)
        model.apply_to_parameters(lambda _, t: t.to(Accelerator()))
        assert not model.weight.device.is_host


@example("nn.module_v3", 6)
def test_parameters_of_modules_in_modules_move_to_a_gpu() -> None:
    with driver.simulated():
        model = MLP(fc1=Linear(10, 20), fc2=Linear(20, 5))
        model.apply_to_parameters(lambda name, t: t.to(Accelerator()))
        assert [t.device.is_host for _, t in model.parameters] == [False] * 4


@example("nn.module_v3", 7)
def test_compile(capsys: Printed) -> None:
    linear = Line(weight=Tensor.zeros([10, 5]), bias=Tensor.zeros([10]))
    _, device = defaults()
    input_type = TensorType(DType.float32, [3, 5], device=device)
    model = linear.compile(input_type)
    input_data = Tensor.ones([3, 5], dtype=DType.float32)
    result = model(input_data)
    print(result)
    assert "0" in capsys.readouterr().out
    assert result.shape == [3, 10]


@example("nn.module_v3", 8)
def test_load_state() -> None:
    model = Linear(2, 3)
    weights = {"weight": Tensor.zeros([3, 2]), "bias": Tensor.zeros([3])}
    model.load_state(weights.__getitem__)
    assert not model.weight.to_numpy().any()


@example("nn.module_v3", 9)
def test_load_state_of_a_module_of_ones_own() -> None:
    model = Line(weight=Tensor.ones([10, 5]), bias=Tensor.ones([10]))
    weights = {"weight": Tensor.zeros([10, 5]), "bias": Tensor.zeros([10])}
    model.load_state(weights.__getitem__)
    bias: Any = model.bias
    assert not bias.to_numpy().any()


@example("nn.module_v3", 10)
def test_a_copy_with_other_parameters() -> None:
    with driver.simulated():
        model = Linear(2, 3)
        model.to(CPU())
        model_on_gpu = model.map_parameters(lambda _, t: t.to(Accelerator()))
        assert not model_on_gpu.weight.device.is_host
        assert model.weight.device.is_host


@example("nn.module_v3", 11)
def test_parameters_are_counted(capsys: Printed) -> None:
    model = MLP(fc1=Linear(10, 20), fc2=Linear(20, 5))
    total_params = sum(param.num_elements() for name, param in model.parameters)
    print(f"Total parameters: {total_params}")
    assert capsys.readouterr().out == "Total parameters: 325\n"


@example("nn.module_v3", 12)
def test_to() -> None:
    model = Linear(2, 3)
    model.to(CPU())
    assert model.weight.device.is_host


@example("nn.module_v3", 13)
@example("nn.module_v3", 14)
def test_sequential() -> None:
    """Also the form of a call of one argument, which a sequence and its members have."""
    model = Sequential(Linear(5, 10), LayerNorm(10), Linear(10, 5))
    result = model(Tensor.ones([5]))
    assert result.shape == [5]


@example("nn.module_v3", 15)
def test_sequential_of_many() -> None:
    hidden_dims = [5, 10, 15, 20]
    model = Sequential(
        *(
            Linear(in_dim, out_dim)
            for in_dim, out_dim in pairwise(hidden_dims)  # the page: zip of two slices
        )
    )
    assert model(Tensor.ones([5])).shape == [20]
