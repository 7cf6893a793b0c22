"""Modules of eager tensors: their tree, their parameters replaced, and compiled."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import maxlab
import maxlab.experimental.nn as newer
import maxlab.nn.module_v3 as older
from maxlab import driver, nn
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.errors import (
    MaxlabError,
    MissingKeyError,
    ModuleError,
    UnsupportedError,
    UnusableArgumentError,
)
from maxlab.experimental import functional, random
from maxlab.experimental.nn import (
    Embedding,
    LayerNorm,
    Linear,
    Module,
    Sequential,
    module_dataclass,
)
from maxlab.experimental.tensor import Tensor, defaults
from maxlab.graph import DeviceRef, TensorType

RNG = np.random.default_rng(7)


def array(tensor: Tensor) -> np.ndarray[Any, Any]:
    return np.from_dlpack(tensor)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


@module_dataclass
class Affine(Module[[Tensor], Tensor]):
    weight: Tensor
    bias: Tensor | int = 0

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


@module_dataclass
class MLP(Module[[Tensor], Tensor]):
    fc1: Linear
    fc2: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.fc2(functional.relu(self.fc1(x)))


def test_all_generations_are_one_class() -> None:
    for name in older.__all__:
        assert getattr(older, name) is getattr(newer, name)
    assert older.Module.descendents.__get__(MLP(Linear(1, 1), Linear(1, 1)))


# ---------------------------------------------------------------- the tree
def test_parameters_come_before_those_of_children() -> None:
    class Net(Module[..., Any]):
        def __init__(self) -> None:
            self.inner = MLP(Linear(2, 3), Linear(3, 1, bias=False))
            self.scale = Tensor.ones([1])
            self.rest = [Linear(9, 9)]  # in a list: not found

    net = Net()
    assert [name for name, _ in net.local_parameters] == ["scale"]
    assert [name for name, _ in net.children] == ["inner"]
    assert [name for name, _ in net.descendants] == ["inner", "inner.fc1", "inner.fc2"]
    assert list(net.descendents) == list(net.descendants)
    assert [name for name, _ in net.parameters] == [
        "scale",
        "inner.fc1.weight",
        "inner.fc1.bias",
        "inner.fc2.weight",
    ]
    assert dict(net.parameters)["inner.fc1.bias"] is net.inner.fc1.bias


def test_parameters_may_have_any_name() -> None:
    class Named(Module[[Tensor], Tensor]):
        def __init__(self) -> None:
            self.attributes = Tensor.ones([2])

        def forward(self, x: Tensor) -> Tensor:
            return x * self.attributes

    compiled = Named().compile(TensorType(DType.float32, [2], DeviceRef.CPU()))
    assert [name for name, _ in Named().parameters] == ["attributes"]
    assert array(compiled(Tensor.ones([2]))).tolist() == [1, 1]


def test_children_of_a_sequence_have_numbers() -> None:
    model = Sequential(Linear(5, 10), LayerNorm(10), Linear(10, 5))
    assert [name for name, _ in model.parameters] == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
    ]
    assert len(model) == 3
    assert model[1] is list(model)[1]
    assert Sequential()
    x = Tensor.ones([5])
    assert Sequential()(x) is x
    with pytest.raises(TypeError, match="ML748"):
        Sequential([Linear(1, 1)])  # type: ignore[arg-type]


def test_layers_of_graphs_are_no_modules_of_tensors() -> None:
    layer = nn.Linear(2, 3, DType.float32, DeviceRef.CPU())
    with pytest.raises(TypeError, match=r"ML748") as caught:
        Sequential(layer)  # type: ignore[arg-type]
    assert "Linear of maxlab.nn" in str(caught.value)

    class Mixed(Module[..., Any]):
        def __init__(self) -> None:
            self.inner = Sequential(Linear(3, 3))
            self.inner.first = layer  # type: ignore[attr-defined]

        def forward(self, x: Tensor) -> Any:
            return self.inner(self.inner.first(x))  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match=r"ML748") as caught:
        Mixed().compile(TensorType(DType.float32, [1, 2], DeviceRef.CPU()))
    assert "Mixed.inner.first is a Linear" in str(caught.value)
    with pytest.raises(MaxlabError, match="ML313"):
        Mixed()(Tensor.ones([1, 2]))
    with pytest.raises(TypeError, match=r"Linear of maxlab.experimental.nn \[ML715\]"):
        nn.Sequential([Linear(2, 3)])  # type: ignore[list-item]


def test_cycles_are_named() -> None:
    inner, outer = MLP(Linear(1, 1), Linear(1, 1)), MLP(Linear(1, 1), Linear(1, 1))
    outer.fc1 = inner  # type: ignore[assignment]
    inner.fc2 = outer  # type: ignore[assignment]
    with pytest.raises(ModuleError, match=r"ML731.*") as caught:
        list(outer.parameters)
    assert "'fc1.fc2'" in str(caught.value)
    with pytest.raises(ModuleError, match="ML731"):
        outer.to(CPU())


def test_a_module_without_computation_says_so() -> None:
    with pytest.raises(UnsupportedError, match="ML732") as caught:
        Module[[Tensor], Tensor]()(Tensor.ones([1]))
    assert isinstance(caught.value, NotImplementedError)


def test_texts() -> None:
    assert repr(Linear(3, 2, bias=False)) == "Linear(in_dim=Dim(3), out_dim=Dim(2), bias=False)"
    assert repr(Linear(3, 2)) == "Linear(in_dim=Dim(3), out_dim=Dim(2))"
    assert repr(Affine(Tensor.zeros([5, 4]))) == "Affine(weight=float32[5, 4])"
    assert repr(Embedding(9, dims=[2, 3])) == (
        "Embedding(vocab_size=Dim(9), dims=[Dim(2), Dim(3)])"
    )
    text = repr(Sequential(MLP(Linear(100, 200), Linear(200, 300)), LayerNorm(300, eps=0.5)))
    assert text.splitlines() == [
        "Sequential(",
        "    MLP(",
        "        fc1=Linear(in_dim=Dim(100), out_dim=Dim(200)),",
        "        fc2=Linear(in_dim=Dim(200), out_dim=Dim(300)),",
        "    ),",
        "    LayerNorm(dim=Dim(300), eps=0.5),",
        ")",
    ]
    weight = Tensor.zeros([2, 2]) + 1
    repr(Affine(weight))
    assert not weight.real  # nothing is computed for a text


# ---------------------------------------------------------------- data classes
def test_data_classes_with_and_without_parentheses() -> None:
    @module_dataclass(repr=True, frozen=True)
    class Frozen(Module[[Tensor], Tensor]):
        inner: Linear
        scale: Tensor

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * self.scale

    model = Frozen(Linear(2, 3), Tensor.ones([1]))
    assert "Frozen(inner=Linear(in_dim=Dim(2), out_dim=Dim(3)), scale=" in repr(model)
    before = dict(model.parameters)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.apply_to_parameters(lambda _, x: x * 0)
    assert dict(model.parameters) == before
    zeros = model.map_parameters(lambda _, x: Tensor.zeros_like(x.type))
    assert not array(zeros(Tensor.ones([2]))).any()
    with pytest.raises(TypeError, match="ML748"):
        module_dataclass(int)  # type: ignore[type-var]


def test_data_classes_are_equal_to_themselves_only() -> None:
    one, two = Affine(Tensor.zeros([2, 2])), Affine(Tensor.zeros([2, 2]))
    assert one == one
    assert one != two
    assert len({one, two}) == 2


def test_data_classes_with_slots_have_parameters() -> None:
    @module_dataclass(slots=True)
    class Slotted(Module[[Tensor], Tensor]):
        weight: Tensor

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    model = Slotted(Tensor.ones([2]))
    assert [name for name, _ in model.parameters] == ["weight"]
    compiled = model.compile(TensorType(DType.float32, [2], DeviceRef.CPU()))
    model.apply_to_parameters(lambda _, x: x * 3)
    assert array(model(Tensor.ones([2]))).tolist() == [3, 3]
    assert array(compiled(Tensor.ones([2]))).tolist() == [1, 1]


# ---------------------------------------------------------------- layers
def test_layers_compute_what_numpy_does() -> None:
    x = floats(4, 5)
    linear = Linear(5, 3)
    wanted = x @ array(linear.weight).T + array(linear.bias)  # type: ignore[arg-type]
    np.testing.assert_allclose(array(linear(Tensor.from_dlpack(x))), wanted, rtol=1e-5, atol=1e-5)
    assert Linear(5, 3, bias=False).bias == 0
    norm = LayerNorm(5)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(
        array(norm(Tensor.from_dlpack(x))), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5
    )
    table = Embedding(10, dims=[2, 3])
    numbers = np.array([[3, 9], [0, 3]], np.uint64)
    np.testing.assert_array_equal(
        array(table(Tensor.from_dlpack(numbers))), array(table.weight)[numbers]
    )
    assert [int(dim) for dim in (table.vocab_size, *table.dims)] == [10, 2, 3]
    assert Embedding(10, dim=4).dim == 4


def test_embeddings_need_one_kind_of_size() -> None:
    for words in ({}, {"dim": 1, "dims": [1]}):
        with pytest.raises(UnusableArgumentError, match="ML794") as caught:
            Embedding(10, **words)  # type: ignore[arg-type]
        assert isinstance(caught.value, TypeError)
    with pytest.raises(UnusableArgumentError, match="ML794"):
        _ = Embedding(10, dims=[2, 3]).dim


def test_the_seed_decides_the_parameters() -> None:
    random.set_seed(5)
    first = Linear(4, 4)
    random.set_seed(5)
    again, other = Linear(4, 4), Linear(4, 4)
    np.testing.assert_array_equal(array(first.weight), array(again.weight))
    assert (array(first.weight) != array(other.weight)).any()


# ---------------------------------------------------------------- parameters replaced
def test_functions_replace_parameters_in_place_and_in_a_copy() -> None:
    model = MLP(Linear(2, 3), Linear(3, 1))
    weights = {name: array(x).copy() for name, x in model.parameters}
    seen: list[str] = []

    def doubled(name: str, x: Tensor) -> Tensor:
        seen.append(name)
        return x * 2

    twice = model.map_parameters(doubled)
    assert seen == list(weights)
    assert type(twice) is MLP
    assert twice.fc1 is not model.fc1
    for name, x in twice.parameters:
        np.testing.assert_array_equal(array(x), weights[name] * 2)
    for name, x in model.parameters:
        np.testing.assert_array_equal(array(x), weights[name])
    model.apply_to_parameters(doubled)
    for name, x in model.parameters:
        np.testing.assert_array_equal(array(x), weights[name] * 2)
    model.fc1.apply_to_local_parameters(lambda name, x: x * 0 if name == "bias" else x)
    assert not array(model.fc1.bias).any()  # type: ignore[arg-type]
    assert array(model.fc1.weight).any()


def test_a_function_that_fails_changes_nothing() -> None:
    model = MLP(Linear(2, 3), Linear(3, 1))
    before = list(model.parameters)

    def failing(name: str, x: Tensor) -> Tensor:
        if name == "fc2.bias":
            raise KeyError(name)
        return x * 2

    with pytest.raises(KeyError):
        model.apply_to_parameters(failing)
    with pytest.raises(ModuleError, match="ML734"):
        model.apply_to_parameters(lambda name, x: None if name == "fc2.bias" else x)  # type: ignore[arg-type,return-value]
    assert all(a is b for (_, a), (_, b) in zip(before, model.parameters, strict=True))


def test_a_module_with_two_paths_is_changed_once() -> None:
    inner = Linear(3, 3)
    model = MLP(inner, inner)
    assert [name for name, _ in model.parameters] == [
        "fc1.weight",
        "fc1.bias",
        "fc2.weight",
        "fc2.bias",
    ]
    before = array(inner.weight).copy()
    model.apply_to_parameters(lambda _, x: x * 2)
    np.testing.assert_array_equal(array(inner.weight), before * 2)
    assert model.fc1 is model.fc2


def test_devices() -> None:
    model = MLP(Linear(2, 3), Linear(3, 1))
    assert model.device == CPU()
    assert model.to(CPU()) is model
    assert model.fc1.device == CPU()

    class Placed(Module[..., Any]):
        def __init__(self) -> None:
            self.device = CPU()

    assert Placed().device == CPU()
    assert "device" not in vars(Placed())


# ---------------------------------------------------------------- states
def test_states_are_looked_up_with_one_argument_or_two() -> None:
    model = Linear(2, 3)
    state = {"weight": floats(3, 2), "bias": Tensor.ones([3])}
    model.load_state(state.__getitem__)
    np.testing.assert_array_equal(array(model.weight), state["weight"])
    model.load_state(lambda name, old: old * 2)
    np.testing.assert_array_equal(array(model.bias), [2, 2, 2])  # type: ignore[arg-type]
    model.load_state(lambda name: state[name])
    np.testing.assert_array_equal(array(model.bias), [1, 1, 1])  # type: ignore[arg-type]
    with pytest.raises(ModuleError, match="ML710"):
        model.load_state(lambda name: 3)


def test_states_are_checked_and_loaded_whole_or_not() -> None:
    model = MLP(Linear(2, 3), Linear(3, 1))
    good = {
        "fc1.weight": floats(3, 2),
        "fc1.bias": floats(3),
        "fc2.weight": floats(1, 3),
        "fc2.bias": floats(1),
    }
    before = list(model.parameters)
    for change, error, code in (
        ({"fc2.bias": floats(2)}, ValueError, "ML707"),
        ({"fc2.bias": np.ones(1, np.float64)}, ValueError, "ML707"),
        ({"fc2.bias": "text"}, ValueError, "ML710"),
        ({"fc2.bais": floats(1)}, ValueError, "ML706"),
    ):
        with pytest.raises(error, match=code):
            model.load_state_dict({**good, **change})
    for strict in (True, False):
        with pytest.raises(KeyError, match="ML733") as caught:
            model.load_state_dict({k: v for k, v in good.items() if k != "fc1.bias"}, strict)
        assert isinstance(caught.value, MissingKeyError)
    assert all(a is b for (_, a), (_, b) in zip(before, model.parameters, strict=True))
    model.load_state_dict({**good, "more": floats(1)}, strict=False)
    for name, x in model.parameters:
        np.testing.assert_array_equal(array(x), good[name])


def test_copies_and_pickles_compute_the_same() -> None:
    model = Sequential(Linear(2, 3), LayerNorm(3))
    x = Tensor.from_dlpack(floats(4, 2))
    wanted = array(model(x))
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(array(made(x)), wanted)


# ---------------------------------------------------------------- compiled
def test_a_compiled_module_gives_what_the_module_gives() -> None:
    _, device = defaults()
    model = Sequential(Linear(5, 16), LayerNorm(16), Linear(16, 3))
    compiled = model.compile(TensorType(DType.float32, ["n", 5], device=device))
    for size in (1, 3, 8):
        x = Tensor.from_dlpack(floats(size, 5))
        np.testing.assert_allclose(array(compiled(x)), array(model(x)), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(array(compiled(array(x))), array(compiled(x)))
    assert sorted(compiled.model.weights) == sorted(name for name, _ in model.parameters)


def test_operations_of_a_compiled_module_belong_to_the_paths_of_modules() -> None:
    model = Sequential(MLP(Linear(4, 8), Linear(8, 4)), LayerNorm(4))
    graph = model.compile(TensorType(DType.float32, ["n", 4], DeviceRef.CPU())).graph
    scopes = {op.scope for op in graph.function.ops if op.name == "mo.matmul"}
    assert scopes == {"0.fc1", "0.fc2"}
    assert {op.scope for op in graph.function.ops if op.name == "mo.relu"} == {"0"}
    assert graph.scope_types["0"] == "MLP"
    assert graph.scope_types["0.fc1"] == "Linear"
    assert "_path" not in vars(model[0])


def test_layers_say_the_types_of_their_inputs() -> None:
    for model, given, shape in (
        (Linear(5, 3), floats(4, 5), [4, 3]),
        (LayerNorm(5), floats(4, 5), [4, 5]),
        (Embedding(9, dim=3), np.arange(4), [4, 3]),
        (Sequential(Linear(5, 3), LayerNorm(3)), floats(4, 5), [4, 3]),
    ):
        compiled = model.compile(*model.input_types())
        assert list(array(compiled(given)).shape) == shape
    for silent in (Sequential(), MLP(Linear(1, 1), Linear(1, 1))):
        with pytest.raises(NotImplementedError, match="ML732"):
            silent.input_types()


def test_sessions_say_how_modules_are_compiled() -> None:
    with pytest.raises(MaxlabError, match=r"model.compile\(\*model.input_types\(\)\)"):
        maxlab.load(Linear(2, 3))  # type: ignore[arg-type]


def test_a_compiled_module_keeps_its_weights() -> None:
    model = Affine(Tensor.ones([3, 2]))
    compiled = model.compile(TensorType(DType.float32, [2], DeviceRef.CPU()))
    model.load_state_dict({"weight": np.zeros((3, 2), np.float32)})
    assert array(compiled(Tensor.ones([2]))).tolist() == [2, 2, 2]
    other = model.compile(
        TensorType(DType.float32, [2], DeviceRef.CPU()),
        weights={"weight": np.full((3, 2), 3, np.float32), "unused": np.ones(1)},
    )
    assert array(other(Tensor.ones([2]))).tolist() == [6, 6, 6]
    assert not array(model.weight).any()


def test_wrong_weights_of_a_compilation() -> None:
    model = Affine(Tensor.ones([3, 2]))
    type = TensorType(DType.float32, [2], DeviceRef.CPU())
    with pytest.raises(KeyError, match="ML733"):
        model.compile(type, weights={})
    with pytest.raises(ValueError, match="ML707"):
        model.compile(type, weights={"weight": np.ones((2, 3), np.float32)})
    with pytest.raises(ValueError, match="ML707"):
        model.compile(type, weights={"weight": np.ones((3, 2), np.float64)})


def test_a_compiled_module_keeps_signature_and_structure() -> None:
    Pair = namedtuple("Pair", "sum difference")

    class Both(Module[..., Any]):
        def forward(self, x: Tensor, y: Tensor, scale: float = 2.0) -> Any:
            return {"pair": Pair(x + y, x - y), "list": [x * scale, (y,)]}

    type = TensorType(DType.float32, [2], DeviceRef.CPU())
    compiled = Both().compile(type, type)
    made = compiled(y=np.ones(2, np.float32), x=np.full(2, 3, np.float32))
    assert isinstance(made["pair"], Pair)
    assert array(made["pair"].difference).tolist() == [2, 2]
    assert array(made["list"][0]).tolist() == [6, 6]
    assert isinstance(made["list"][1], tuple)
    x = np.ones(2, np.float32)
    for args in ((x,), (x, x, 3.0), (x, x, x, x)):
        with pytest.raises(TypeError, match="ML725"):
            compiled(*args)
    for types in ((), (type,), (type,) * 4):
        with pytest.raises(TypeError, match="ML725"):
            Both().compile(*types)


def test_results_that_are_no_tensors_are_named() -> None:
    class Text(Module[..., Any]):
        def forward(self, x: Tensor) -> Any:
            return x, "text"

    with pytest.raises(TypeError, match="ML735"):
        Text().compile(TensorType(DType.float32, [2], DeviceRef.CPU()))


def test_compiling_leaves_the_module_as_it_was() -> None:
    class Keeping(Module[[Tensor], Tensor]):
        def __init__(self) -> None:
            self.inner = Linear(2, 2)
            self.layers = [self.inner]
            self.call = self.apply
            self.last: Tensor | None = None

        def apply(self, x: Tensor) -> Tensor:
            return self.layers[0](x)

        def forward(self, x: Tensor) -> Tensor:
            self.last = self.call(x)
            return self.last

    model = Keeping()
    compiled = model.compile(TensorType(DType.float32, [2], DeviceRef.CPU()))
    assert model.last is None
    assert sorted(compiled.model.weights) == ["inner.bias", "inner.weight"]
    x = Tensor.ones([2])
    np.testing.assert_allclose(array(compiled(x)), array(model(x)), rtol=1e-6)


def test_modules_compute_while_another_thread_compiles() -> None:
    model = Sequential(*(Linear(8, 8) for _ in range(4)))
    x = floats(2, 8)
    wanted = array(model(Tensor.from_dlpack(x)))
    stop, wrong = threading.Event(), []

    def compute() -> None:
        while not stop.is_set():
            found = array(model(Tensor.from_dlpack(x)))
            if not np.array_equal(found, wanted):
                wrong.append(found)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(5):
            model.compile(TensorType(DType.float32, ["n", 8], DeviceRef.CPU()))
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_a_module_moves_to_a_device_and_is_compiled_there() -> None:
    model = Sequential(Linear(4, 8), LayerNorm(8), Linear(8, 2))
    x = floats(3, 4)
    wanted = array(model(Tensor.from_dlpack(x)))
    with driver.simulated():
        device = driver.Accelerator()
        model.to(device)
        assert {child.device for _, child in model.children} == {device}
        assert {tensor.device for _, tensor in model.parameters} == {device}
        type = TensorType(DType.float32, ["n", 4], DeviceRef.from_device(model.device))
        compiled = model.compile(type)
        there = Tensor.from_dlpack(x).to(device)
        for made in (model(there), compiled(there)):
            assert made.device == device
            np.testing.assert_allclose(array(made.to(CPU())), wanted, rtol=1e-4, atol=1e-5)
        cpu = {name: floats(*map(int, x.shape)) for name, x in model.parameters}
        other = model.compile(type, weights=cpu)
        model.load_state_dict(cpu)
        assert {tensor.device for _, tensor in model.parameters} == {device}
        np.testing.assert_allclose(
            array(other(there).to(CPU())), array(model(there).to(CPU())), rtol=1e-4, atol=1e-5
        )
