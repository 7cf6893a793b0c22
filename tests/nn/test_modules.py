"""Modules: names, state dicts, sharing, hooks, scopes and subgraphs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError, ModuleError, NoGraphError
from maxlab.graph import DeviceRef, Graph, Shape, TensorType, Weight, ops
from maxlab.ir import Function
from maxlab.opset import evaluate
from maxlab.opset.verify import verify
from tests.ids import stable

F32 = DType.float32
CPU = DeviceRef.CPU()
Array = np.ndarray[Any, Any]


def interpret(graph: Graph, registry: dict[str, Any], *inputs: Array) -> list[Array]:
    """What NumPy computes for ``graph``: the op table's references, op by op."""
    function: Function = graph.function
    verify(function)
    env: dict[str, int] = {}
    values: dict[Any, Array] = {}
    for value, array in zip(function.inputs, inputs, strict=True):
        values[value] = array
        for dim, size in zip(value.tensor_type.shape, array.shape, strict=True):
            env.setdefault(str(dim), size)
    for op in function.ops:
        if op.name == "mo.output":
            return [values[v] for v in op.operands]
        if op.name == "mo.constant.external":
            values[op.result] = registry[op.attrs["name"]]
            continue
        made = evaluate(op, [values[v] for v in op.operands], env)
        values.update(zip(op.results, made, strict=True))
    raise AssertionError("no output")


def linear(in_dim: int = 2, out_dim: int = 2, **more: Any) -> nn.Linear:
    return nn.Linear(in_dim, out_dim, F32, CPU, **more)


def rows(size: int) -> TensorType:
    return TensorType(F32, ["n", size])


class Attention(nn.Module):
    def __init__(self) -> None:
        self.query = linear()
        self.output = linear()

    def __call__(self, x: Any) -> Any:
        return self.output(ops.softmax(self.query(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        self.attention = Attention()
        self.norm = nn.LayerNorm(2, [CPU], F32)

    def __call__(self, x: Any) -> Any:
        return self.norm(x + self.attention(x))


class Encoder(nn.Module):
    def __init__(self, count: int) -> None:
        self.layers = nn.LayerList([Block() for _ in range(count)])

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Model(nn.Module):
    def __init__(self, count: int = 2) -> None:
        self.embeddings = nn.Embedding(5, 2, F32, CPU)
        self.encoder = Encoder(count)

    def __call__(self, ids: Any) -> Any:
        return self.encoder(self.embeddings(ids)) * 2


IDS = TensorType(DType.int32, ["n"])


# ---------------------------------------------------------------- names
def test_names_are_attribute_paths_breadth_first() -> None:
    assert [name for name, _ in nn.recursive_named_layers(Model(1))] == [
        "",
        "embeddings",
        "encoder",
        "encoder.layers",
        "encoder.layers.0",
        "encoder.layers.0.attention",
        "encoder.layers.0.norm",
        "encoder.layers.0.attention.query",
        "encoder.layers.0.attention.output",
    ]
    assert list(Model(1).state_dict()) == [
        "embeddings.weight",
        "encoder.layers.0.norm.weight",
        "encoder.layers.0.norm.bias",
        "encoder.layers.0.attention.query.weight",
        "encoder.layers.0.attention.output.weight",
    ]


def test_a_prefix_precedes_all_names() -> None:
    names = [name for name, _ in nn.recursive_named_layers(Attention(), "model.a")]
    assert names == ["model.a", "model.a.query", "model.a.output"]


def test_weights_register_before_and_without_super_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = Weight("w", F32, [2])
            self.child = linear()
            super().__init__()

    assert list(Early().state_dict()) == ["w", "child.weight"]


def test_a_module_reached_twice_keeps_its_shortest_path() -> None:
    class Leaf(nn.Module):
        def __init__(self, a: nn.Linear) -> None:
            self.a = a

    class Root(nn.Module):
        def __init__(self) -> None:
            shared = linear()
            self.layers = nn.LayerList([Leaf(shared), Leaf(linear())])
            self.shared = shared

    assert list(Root().state_dict()) == ["shared.weight", "layers.1.a.weight"]


def test_modules_that_contain_each_other_have_names() -> None:
    a: Any = nn.Module()
    b: Any = nn.Module()
    a.b, b.a = b, a
    b.weight = Weight("w", F32, [1])
    assert list(a.state_dict()) == ["b.w"]


def test_plain_lists_and_dicts_are_searched() -> None:
    m: Any = nn.Module()
    m.hidden = [linear()]
    m.listed = nn.LayerList([linear()])
    m.keyed = {"up": linear()}
    assert list(m.state_dict()) == ["hidden.0.weight", "keyed.up.weight", "listed.0.weight"]
    m.hidden.append(linear())
    assert "hidden.1.weight" in m.state_dict()


def test_keys_are_names_of_weights_not_attributes() -> None:
    m: Any = nn.Module()
    m.w = Weight("kernel", F32, [1])
    assert list(m.layer_weights) == ["kernel"]
    m.state_dict()
    n: Any = nn.Module()
    n.child = m
    assert list(n.state_dict()) == ["child.kernel"]
    assert m.w.name == "child.kernel"
    assert list(m.layer_weights) == ["kernel"]


def test_reassigning_and_deleting_replace_the_entry() -> None:
    m: Any = nn.Module()
    m.w = Weight("a", F32, [1])
    m.w = Weight("b", F32, [1])
    m.child = linear()
    m.child = nn.Embedding(2, 2, F32, CPU, name="table")
    assert list(m.state_dict()) == ["b", "child.table"]
    m.w = None
    del m.child
    assert m.state_dict() == {}
    assert m.sublayers == {}


def test_two_weights_of_one_name_in_one_module_are_refused() -> None:
    m: Any = nn.Module()
    m.a = Weight("weight", F32, [1])
    with pytest.raises(ModuleError, match=r"ML702"):
        m.b = Weight("weight", F32, [1])
    assert not hasattr(m, "b")


def test_names_that_meet_by_accident_are_refused() -> None:
    m: Any = nn.Module()
    m.a = Weight("x.weight", F32, [1])
    m.x = linear()
    with pytest.raises(ModuleError, match=r"two weights have the full name 'x.weight'"):
        m.state_dict()


def test_a_changed_tree_gets_new_names() -> None:
    model = Model(1)
    assert len(model.state_dict()) == 5
    model.encoder.layers.append(Block())
    assert len(model.state_dict()) == 9
    model.encoder.layers.pop(0)
    names = list(model.state_dict())
    assert len(names) == 5
    assert all(".1." not in name for name in names)


def test_deep_trees_do_not_recurse() -> None:
    root: Any = nn.Module()
    at = root
    for _ in range(3000):
        at.n = nn.Module()
        at = at.n
    at.w = Weight("w", F32, [1])
    (name,) = root.state_dict()
    assert name == "n." * 3000 + "w"


def test_copies_are_their_own_models() -> None:
    model = Model(1)
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    twin = copy.deepcopy(model)
    twin.encoder.layers.append(Block())
    assert len(twin.state_dict()) == 9
    assert len(model.state_dict()) == 5
    assert twin.embeddings.weight is not model.embeddings.weight
    assert np.array_equal(twin.state_dict()["embeddings.weight"], np.ones((5, 2)))
    assert list(pickle.loads(pickle.dumps(linear())).state_dict()) == ["weight"]


# ---------------------------------------------------------------- lists
def test_layer_list_is_a_list_that_keeps_its_names() -> None:
    a, b, c, d = (linear(2, i) for i in range(1, 5))

    def sizes(items: nn.LayerList) -> list[int]:
        assert list(items.sublayers) == [str(i) for i in range(len(items))]
        assert list(items.sublayers.values()) == list(items)
        return [int(layer.weight.shape[0]) for layer in items]

    layers = nn.LayerList([a, b])
    layers.append(c)
    layers.insert(0, d)
    assert sizes(layers) == [4, 1, 2, 3]
    layers.extend([a, b])
    assert sizes(layers) == [4, 1, 2, 3, 1, 2]
    layers[0] = b
    layers[4:] = []
    assert sizes(layers) == [2, 1, 2, 3]
    del layers[0]
    layers.reverse()
    assert sizes(layers) == [3, 2, 1]
    assert layers.pop() is a
    layers.remove(c)
    assert sizes(layers) == [2]
    layers += [c, d]
    assert sizes(layers) == [2, 3, 4]
    layers.sort(key=lambda x: -int(x.weight.shape[0]))
    assert sizes(layers) == [4, 3, 2]
    assert layers[-1] is b
    assert layers[:2] == [d, c]
    assert layers.index(c) == 1
    assert layers.count(d) == 1
    assert d in layers
    assert a not in layers
    assert list(reversed(layers)) == [b, c, d]
    assert isinstance(layers + [a], nn.LayerList)  # noqa: RUF005 - what is tested
    layers.clear()
    assert not layers
    assert layers.state_dict() == {}


def test_lists_hold_layers_only() -> None:
    with pytest.raises(ArgumentTypeError, match="ML715"):
        nn.LayerList([1])  # type: ignore[list-item]
    layers = nn.LayerList([linear()])
    with pytest.raises(ArgumentTypeError):
        layers.extend([linear(), "x"])  # type: ignore[list-item]
    assert len(layers) == 1
    with pytest.raises(NotImplementedError, match="Sequential"):
        layers(1)


def test_sequential_chains_and_unpacks_tuples() -> None:
    class Split(nn.Module):
        def __call__(self, x: Any) -> Any:
            return x, x * 2

    class Sum(nn.Module):
        def __call__(self, x: Any, y: Any) -> Any:
            return x + y

    model = nn.Sequential([Split(), Sum(), linear(2, 3)])
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    model.load_state_dict({"2.weight": weight})
    graph = Graph("g", model, [rows(2)])
    x = np.ones((4, 2), np.float32)
    (y,) = interpret(graph, model.state_dict(), x)
    assert np.allclose(y, 3 * x @ weight.T)
    assert model.layers == list(model)
    empty = Graph("e", nn.Sequential([]), [rows(2)])
    assert empty.output_types == [rows(2)]


# ---------------------------------------------------------------- state dicts
def test_state_dict_fills_with_zeros_that_stay() -> None:
    model = linear(2, 3, has_bias=True)
    first = model.state_dict()
    assert {k: v.shape for k, v in first.items()} == {"weight": (3, 2), "bias": (3,)}
    assert not any(v.any() for v in first.values())
    assert model.state_dict()["weight"] is first["weight"]


def test_state_dict_without_values() -> None:
    with pytest.raises(ModuleError, match="'weight', 'bias'"):
        linear(has_bias=True).state_dict(auto_initialize=False)
    m: Any = nn.Module()
    m.w = Weight("w", F32, ["n", 2])
    with pytest.raises(ModuleError, match="ML705"):
        m.state_dict()
    value = np.ones((3, 2), np.float32)
    m.load_state_dict({"w": value})
    assert m.state_dict(auto_initialize=False)["w"] is value


def test_loaded_arrays_are_kept_themselves() -> None:
    model = linear()
    value = np.ones((2, 2), np.float32)
    model.load_state_dict({"weight": value})
    assert model.state_dict()["weight"] is value
    # a part of the model and the model see the same values
    outer = nn.Sequential([model])
    assert outer.state_dict()["0.weight"] is value


def test_missing_and_unexpected_names_are_reported_together() -> None:
    model = Model(1)
    given = model.state_dict()
    given["embedding.weight"] = given.pop("embeddings.weight")
    given["encoder.layers.9.norm.bias"] = np.zeros(2, np.float32)
    with pytest.raises(ModuleError) as caught:
        model.load_state_dict(given)
    text = str(caught.value)
    assert "1 missing: 'embeddings.weight'" in text
    assert "2 unexpected: 'embedding.weight', 'encoder.layers.9.norm.bias'" in text
    assert "'embedding.weight': did you mean 'embeddings.weight'?" in text
    model.load_state_dict(given, strict=False)


def test_a_failed_load_changes_nothing() -> None:
    model = linear(has_bias=True)
    before = model.state_dict()
    weight = model.weight
    with pytest.raises(ModuleError):
        model.load_state_dict(
            {"weight": np.ones((2, 2), np.float32), "bias": np.ones(3, np.float32)},
            weight_alignment=4,
        )
    assert model.state_dict()["weight"] is before["weight"]
    assert weight.align is None


class Data:
    """As ``WeightData`` is: data, and what it is, side by side."""

    def __init__(self, data: Any, encoding: Any = None) -> None:
        self.data = data
        self.dtype = DType.from_numpy(data.dtype)
        self.shape = Shape(data.shape)
        self.quantization_encoding = encoding


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.ones((2, 3), np.float32), "ML707"),
        (np.ones((3, 2), np.float64), "ML707"),
        (np.ones((3, 2), np.int32), "ML707"),
        (np.ones((6,), np.float32), "ML707"),
        (np.ones((2, 3), np.float32).T, "ML708"),
        ([[1.0, 2.0]] * 3, "ML710"),
        (1.0, "ML710"),
        (object(), "ML710"),
        (np.array([["a"] * 2] * 3), "ML710"),
        (Data(np.ones((3, 2), np.float32), "q4_0"), "ML709"),
    ],
    ids=stable,
)
def test_values_that_do_not_fit_are_refused(value: Any, code: str) -> None:
    with pytest.raises(ModuleError, match="'weight'") as caught:
        linear(2, 3).load_state_dict({"weight": value})
    assert caught.value.code == code


def test_encodings_are_refused_with_and_without_override() -> None:
    data = Data(np.ones((3, 2), np.float32), "q4_0")
    for override in (False, True):
        with pytest.raises(ModuleError, match="ML709"):
            linear(2, 3).load_state_dict({"weight": data}, override_quantization_encoding=override)


def test_weight_data_and_dlpack_are_taken() -> None:
    array = np.ones((3, 2), np.float32)
    model = linear(2, 3)
    model.load_state_dict({"weight": Data(array)})
    assert model.state_dict()["weight"] is array
    from maxlab.driver import Tensor

    tensor = Tensor.from_numpy(array)
    model.load_state_dict({"weight": tensor})
    assert model.state_dict()["weight"] is tensor


@pytest.mark.parametrize(("wanted", "given"), [((), (1,)), ((1,), ())])
def test_a_rank_0_shape_may_come_as_1(wanted: tuple[int, ...], given: tuple[int, ...]) -> None:
    m: Any = nn.Module()
    m.scale = Weight("scale", F32, wanted)
    m.load_state_dict({"scale": np.full(given, 3, np.float32)})
    assert m.state_dict()["scale"].shape == wanted


def unaligned(shape: tuple[int, ...]) -> Array:
    raw = np.zeros(int(np.prod(shape)) * 4 + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64 + 2
    return raw[start : start + int(np.prod(shape)) * 4].view(np.float32).reshape(shape)


def test_alignment_is_checked_and_can_be_overridden() -> None:
    model = linear(2, 3)
    with pytest.raises(ModuleError, match="not a multiple of 4"):
        model.load_state_dict({"weight": unaligned((3, 2))})
    model.load_state_dict({"weight": unaligned((3, 2))}, weight_alignment=1)
    assert model.weight.align == 1
    model.weight.align = 64
    with pytest.raises(ModuleError, match="not a multiple of 64"):
        model.load_state_dict({"weight": unaligned((3, 2))})


def test_raw_state_dict_gives_weights_to_edit() -> None:
    model = linear(2, 3)
    raw = model.raw_state_dict()
    raw["weight"].dtype = DType.float16
    raw["weight"].shape = Shape([4, 2])
    assert model.state_dict()["weight"].dtype == np.float16
    assert model.state_dict()["weight"].shape == (4, 2)


# ---------------------------------------------------------------- sharing
def test_shared_weights_belong_to_their_owner() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embed = nn.Embedding(7, 2, F32, CPU)
            self.head = linear(2, 7)
            self.head.set_shared_weight("weight", self.embed.weight)

        def __call__(self, ids: Any) -> Any:
            return self.head(self.embed(ids))

    model = Tied()
    assert list(model.raw_state_dict()) == ["embed.weight"]
    assert model.head.weight is model.embed.weight
    assert "weight" in model.head.layer_weights
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    model.load_state_dict({"embed.weight": table})
    with pytest.raises(ModuleError, match="unexpected"):
        model.load_state_dict({"embed.weight": table, "head.weight": table})
    graph = Graph("tied", model, [IDS])
    (y,) = interpret(graph, model.state_dict(), np.array([1, 6], np.int32))
    assert np.allclose(y, table[[1, 6]] @ table.T)
    assert len([op for op in graph.function if op.name == "mo.constant.external"]) == 1
    with pytest.raises(ArgumentTypeError, match="ML712"):
        model.head.set_shared_weight("weight", np.ones(2))  # type: ignore[arg-type]
    model.head.weight = Weight("weight", F32, [7, 2])  # its own again
    assert list(model.raw_state_dict()) == ["embed.weight", "head.weight"]


def test_a_weight_with_two_owners_has_its_first_name_and_takes_both() -> None:
    model: Any = nn.Module()
    model.a = linear()
    model.b = linear()
    model.b.weight = model.a.weight
    assert list(model.state_dict()) == ["a.weight"]
    one, two = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    model.load_state_dict({"a.weight": one, "b.weight": one.copy()})
    model.load_state_dict({"b.weight": two})
    assert model.state_dict()["a.weight"] is two
    with pytest.raises(ModuleError, match="ML711"):
        model.load_state_dict({"a.weight": one, "b.weight": two})


# ---------------------------------------------------------------- the documented example
def test_the_documented_example_corrected() -> None:
    class Linear(nn.Module):
        def __init__(self, in_dim: int, out_dim: int) -> None:
            super().__init__()
            self.weight = Weight("weight", F32, (out_dim, in_dim), DeviceRef.CPU())

        def __call__(self, x: Any) -> Any:
            return x @ self.weight.T

    class MLP(nn.Module):
        def __init__(self) -> None:
            self.up = Linear(5, 10)
            self.gate = Linear(5, 10)
            self.down = Linear(10, 5)

        def __call__(self, x: Any) -> Any:
            return self.down(ops.silu(self.gate(x)) + self.up(x))

    model = MLP()
    state = model.state_dict()
    assert {k: v.shape for k, v in state.items()} == {
        "up.weight": (10, 5),
        "gate.weight": (10, 5),
        "down.weight": (5, 10),
    }
    rng = np.random.default_rng(1)
    state = {k: rng.standard_normal(v.shape).astype(np.float32) for k, v in state.items()}
    model.load_state_dict(state)
    graph = Graph("mlp", model, [rows(5)])
    x = rng.standard_normal((3, 5)).astype(np.float32)
    gate = x @ state["gate.weight"].T
    want = (gate / (1 + np.exp(-gate)) + x @ state["up.weight"].T) @ state["down.weight"].T
    assert np.allclose(interpret(graph, state, x)[0], want, atol=1e-5)


def test_weights_are_named_without_a_state_dict() -> None:
    model = Model(2)
    graph = Graph("g", model, [IDS])
    names = {op.attrs["name"] for op in graph.function if op.name == "mo.constant.external"}
    assert names == set(model.state_dict())


def test_parts_of_a_named_model_keep_their_names() -> None:
    model = Model(1)
    model.state_dict()
    with Graph("parts", input_types=[IDS]) as graph:
        graph.output(model.encoder(model.embeddings(graph.inputs[0].tensor)))
    names = {op.attrs["name"] for op in graph.function if op.name == "mo.constant.external"}
    assert names == set(model.state_dict())


def test_parts_that_nobody_named_collide_with_a_clear_error() -> None:
    a, b = linear(), linear()
    with Graph("g", input_types=[rows(2)]) as graph, pytest.raises(GraphError, match="ML321"):
        graph.output(b(a(graph.inputs[0].tensor)))


# ---------------------------------------------------------------- scopes
def scopes(graph: Graph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for op in graph.function:
        found.setdefault(op.scope, []).append(op.name.removeprefix("mo."))
    return found


def test_scopes_are_module_paths() -> None:
    graph = Graph("model", Model(2), [IDS])
    found = scopes(graph)
    assert set(found) == {
        "",
        "embeddings",
        "encoder.layers.0",
        "encoder.layers.0.norm",
        "encoder.layers.0.attention",
        "encoder.layers.0.attention.query",
        "encoder.layers.0.attention.output",
        "encoder.layers.1",
        "encoder.layers.1.norm",
        "encoder.layers.1.attention",
        "encoder.layers.1.attention.query",
        "encoder.layers.1.attention.output",
    }
    assert found["encoder.layers.0"] == ["add"]
    assert found["encoder.layers.0.attention"] == ["softmax"]
    assert found["embeddings"] == ["constant.external", "gather"]
    assert graph.scope_types["encoder.layers.1.attention"] == "Attention"
    assert graph.scope_types["encoder.layers"] == "LayerList"
    assert graph.scope_types[""] == "Model"


def test_places_are_in_the_users_code() -> None:
    graph = Graph("model", Model(1), [IDS])
    softmax = next(op for op in graph.function if op.name == "mo.softmax")
    assert softmax.loc is not None
    assert softmax.loc.file.endswith("test_modules.py")
    assert "ops.softmax(self.query(x))" in softmax.loc.text


def test_scopes_of_layers_called_on_their_own() -> None:
    a, b = linear(name="a"), linear(name="b")
    model, second = nn.Sequential([linear()]), nn.Sequential([nn.ConstantLayerNorm(2, CPU, F32)])
    with Graph("g", input_types=[rows(2)]) as graph:
        x = a(graph.inputs[0].tensor)
        x = a(b(model(x)))
        graph.output(second(x))
    assert set(scopes(graph)) == {"linear", "linear_2", "0", "sequential.0", ""}


def test_users_functions_and_modules_nest() -> None:
    model = linear()

    def outer(x: Any) -> Any:
        return model(x + 1)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            self.inner = model

        def __call__(self, x: Any) -> Any:
            return self.helper(self.inner(x))

        def helper(self, x: Any) -> Any:
            return ops.relu(x)

    graph = Graph("g", Wrapped(), [rows(2)])
    assert scopes(graph)["helper"] == ["relu"]
    with Graph("h", input_types=[rows(2)]) as graph:
        graph.output(outer(graph.inputs[0].tensor))
    assert "linear" in " ".join(scopes(graph))


def test_a_layer_made_in_a_call_stands_below_it() -> None:
    class Maker(nn.Module):
        def __init__(self) -> None:
            self.inner = linear()

        def __call__(self, x: Any) -> Any:
            norm = nn.ConstantLayerNorm(2, CPU, F32)
            return norm(self.inner(x))

    class Root(nn.Module):
        def __init__(self) -> None:
            self.maker = Maker()

        def __call__(self, x: Any) -> Any:
            return self.maker(x)

    found = scopes(Graph("g", Root(), [rows(2)]))
    assert "layer_norm" in found["maker.constantlayernorm"]


def test_an_error_in_a_call_leaves_no_scope_behind() -> None:
    model = Model(1)
    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        with pytest.raises(ValueError, match="integers"):
            model(graph.inputs[0].tensor)
        y = graph.inputs[0].tensor + 1
        graph.output(y)
    assert set(scopes(graph)) == {""}


# ---------------------------------------------------------------- hooks
@pytest.fixture(autouse=True)
def _no_hooks_left() -> Any:
    yield
    nn.clear_hooks()


def test_hooks_see_every_nested_call_with_bound_arguments() -> None:
    class Scale(nn.Module):
        def __call__(self, x: Any, by: float = 2.0, *, twice: bool = False) -> Any:
            return x * by

    class Root(nn.Module):
        def __init__(self) -> None:
            self.scale = Scale()

        def __call__(self, x: Any) -> Any:
            return self.scale(x, by=3.0, twice=True)

    seen: list[tuple[str, int, dict[str, Any]]] = []
    nn.add_layer_hook(
        lambda layer, args, kwargs, out: seen.append((type(layer).__name__, len(args), kwargs))
    )
    Graph("g", Root(), [rows(2)])
    assert seen == [("Scale", 2, {"twice": True}), ("Root", 1, {})]


def test_hooks_replace_outputs_in_turn() -> None:
    class Same(nn.Module):
        def __call__(self, x: Any) -> Any:
            return x

    order: list[str] = []

    def note(name: str) -> Any:
        return lambda layer, args, kwargs, out: order.append(name)

    nn.add_layer_hook(lambda layer, args, kwargs, out: out * 2)
    nn.add_layer_hook(note("none keeps"))
    nn.add_layer_hook(lambda layer, args, kwargs, out: out + 1)
    graph = Graph("g", Same(), [rows(2)])
    x = np.full((1, 2), 5, np.float32)
    assert interpret(graph, {}, x)[0].tolist() == [[11, 11]]
    assert order == ["none keeps"]


def test_a_super_call_fires_for_both_classes() -> None:
    class Base(nn.Module):
        def __call__(self, x: Any) -> Any:
            return x + 1

    class Derived(Base):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) * 2

    class Silent(Derived):
        pass

    seen: list[str] = []
    nn.add_layer_hook(lambda layer, args, kwargs, out: seen.append(type(layer).__name__))
    Graph("g", Derived(), [rows(2)])
    assert seen == ["Derived", "Derived"]
    Graph("h", Silent(), [rows(2)])
    assert seen[2:] == ["Silent", "Silent"]


def test_hooks_of_one_graph_stay_there() -> None:
    seen: list[str] = []
    model = linear()
    model.state_dict()
    with Graph("a", input_types=[rows(2)]) as a:
        nn.add_layer_hook(lambda layer, args, kwargs, out: seen.append("a"))
        model(a.inputs[0].tensor)
    with Graph("b", input_types=[rows(2)]) as b:
        model(b.inputs[0].tensor)
    assert seen == ["a"]
    with a:
        model(a.inputs[0].tensor)
        nn.clear_hooks()
        model(a.inputs[0].tensor)
    assert seen == ["a", "a"]


def test_hooks_of_a_context_end_with_it() -> None:
    seen: list[int] = []
    with nn.layer_hooks(lambda *facts: seen.append(1)):
        Graph("a", linear(), [rows(2)])
    Graph("b", linear(), [rows(2)])
    assert seen == [1]
    with pytest.raises(ArgumentTypeError, match="ML701"):
        nn.add_layer_hook(3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- subgraphs
def test_one_body_is_called_with_the_weights_of_each_layer() -> None:
    encoder = Encoder(3)
    rng = np.random.default_rng(2)
    state = {
        k: rng.standard_normal(v.shape).astype(np.float32) for k, v in encoder.state_dict().items()
    }
    encoder.load_state_dict(state)
    plain = Graph("plain", encoder, [rows(2)])
    with Graph("called", input_types=[rows(2)]) as graph:
        body = encoder.layers[0].build_subgraph("block", [rows(2)], weight_prefix="layers.0.")
        x: Any = graph.inputs[0].tensor
        for index in range(3):
            (x,) = ops.call(body, x, prefix=f"layers.{index}.")
        graph.output(x)
    array = rng.standard_normal((4, 2)).astype(np.float32)
    want = interpret(plain, state, array)[0]
    assert np.array_equal(interpret(graph, state, array)[0], want)
    names = [op.attrs["name"] for op in graph.function if op.name == "mo.constant.external"]
    assert sorted(names) == sorted(state)
    # the layer itself is as it was
    assert encoder.layers[0].attention.query.weight.name == "layers.0.attention.query.weight"
    assert not encoder.layers[0].attention.query.weight._placeholder
    assert graph.scope_types["block.attention"] == "Attention"
    assert "block.attention" in scopes(graph)


def test_lists_of_types_become_lists_of_values() -> None:
    class Add(nn.Module):
        def __call__(self, x: Any, rest: list[Any], y: Any) -> Any:
            assert isinstance(rest, list)
            return [x + rest[0], (rest[1] + y,)]

    row = rows(2)
    with Graph("g", input_types=[row] * 4) as graph:
        body = Add().build_subgraph("add", [row, [row, row], row])
        graph.output(*ops.call(body, *graph.inputs))
    arrays = [np.full((1, 2), float(i), np.float32) for i in range(4)]
    made = interpret(graph, {}, *arrays)
    assert [m[0, 0] for m in made] == [1, 5]


def test_a_subgraph_that_fails_is_not_kept() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            self.weight = Weight("weight", F32, [3, 3])

        def __call__(self, x: Any) -> Any:
            return x @ self.weight

    bad = Bad()
    bad.state_dict()
    with Graph("g", input_types=[rows(2)]) as graph:
        with pytest.raises(ValueError, match="ML203"):
            bad.build_subgraph("bad", [rows(2)], weight_prefix="wei")
        assert bad.weight.name == "weight"
        good = linear().build_subgraph("bad", [rows(2)])
        with pytest.raises(ArgumentError, match="ML323"):
            linear().build_subgraph("bad", [rows(2)])
        graph.output(*ops.call(good, graph.inputs[0].tensor))
    with pytest.raises(NoGraphError):
        linear().build_subgraph("x", [rows(2)])
    with Graph("h", input_types=[rows(2)]), pytest.raises(ArgumentTypeError, match="ML714"):
        linear().build_subgraph("x", [3])  # type: ignore[list-item]


# ---------------------------------------------------------------- devices, paths
def test_to_places_weights_and_work() -> None:
    model = nn.Sequential([linear(), nn.LayerNorm(2, [CPU], F32)])
    gpu = DeviceRef.GPU()
    model.to(gpu)
    assert {w.device for w in model.raw_state_dict().values()} == {gpu}
    assert model[0].device == gpu
    assert model[1].devices == [gpu]
    for devices in ((), (CPU, gpu)):
        with pytest.raises(ModuleError, match="ML713"):
            model.to(*devices)
    with pytest.raises(GraphError):
        model.to(CPU, sharding_strategy="rows")


def test_older_paths_lead_to_the_same_objects() -> None:
    from maxlab.nn import layer
    from maxlab.pipelines.nn import layer as older

    assert older.LayerV2 is nn.Module
    for name in older.__all__:
        assert getattr(older, name) is getattr(layer, name)
    assert layer.Layer is nn.Layer


def test_names_of_the_package() -> None:
    for name in nn.__all__:
        assert getattr(nn, name).__doc__
    assert isinstance(linear(), nn.Shardable)


def test_a_module_without_a_call_says_so() -> None:
    with Graph("g"), pytest.raises(NotImplementedError, match="has no __call__"):
        nn.Module()()
