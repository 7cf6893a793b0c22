"""Layers and snippets of the palette: they compute what they compute in a graph that is written,
whatever stands for their weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from maxlab import engine, nn
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab import examples, layers, palette, snippets, weighting
from maxlab.lab.models import model_for
from maxlab.opset import is_weight
from maxlab.opset.verify import verify
from tests.lab.test_changes import ask, change, offered

F32 = DType.float32
TYPES = (
    TensorType(F32, ["n", 8]),
    TensorType(F32, [2, 4, 3, 6]),
    TensorType(DType.int32, ["n", 3]),
)
TYPED = {"out_dim": "5", "feed_forward_length": "12", "num_groups": "2", "vocab_size": "7",
         "hidden_dim": "6", "layers": "nn.Linear(out_dim=16, has_bias=True), ReLU, LayerNorm(), "
         "Linear(16, 3)"}  # fmt: skip
"""What is typed for parameters that have no default and follow from no input."""
HAND: dict[str, Callable[[], Any]] = {
    "nn.ConstantLayerNorm": lambda: nn.ConstantLayerNorm(8, DeviceRef.CPU(), F32),
    "nn.Embedding": lambda: nn.Embedding(7, 6),
    "nn.Flatten": nn.Flatten,
    "nn.GELU": nn.GELU,
    "nn.GroupNorm": lambda: nn.GroupNorm(2, 8, device=DeviceRef.CPU()),
    "nn.LayerNorm": lambda: nn.LayerNorm(8),
    "nn.Linear": lambda: nn.Linear(8, 5),
    "nn.MLP": lambda: nn.MLP(F32, None, 8, 12, [DeviceRef.CPU()]),
    "nn.RMSNorm": lambda: nn.RMSNorm(8),
    "nn.ReLU": nn.ReLU,
    "nn.Sequential": lambda: nn.Sequential(
        nn.Linear(8, 16, has_bias=True), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3)
    ),
    "nn.SiLU": nn.SiLU,
    "nn.Sigmoid": nn.Sigmoid,
    "nn.Softmax": nn.Softmax,
    "nn.Tanh": nn.Tanh,
}
"""The layers as people write them."""


def net(type: TensorType) -> Graph:
    with Graph("net", input_types=[type]) as graph:
        graph.output(graph.inputs[0].tensor)
    return graph


@cache
def placed() -> dict[str, TensorType]:
    """Every layer that some input fits, with the first that does."""
    found: dict[str, TensorType] = {}
    for type in TYPES:
        for one in offered(net(type), on=("input0",)):
            if one["family"] == "layer":
                found.setdefault(one["name"], type)
    return found


def test_every_layer_that_adds_something_is_offered() -> None:
    known = [getattr(nn, name) for name in nn.__all__]
    classes = [one for one in known if isinstance(one, type) and issubclass(one, nn.Module)]
    modules = {one.__name__ for one in classes} - {"Module"}
    nothing = {"Identity", "Dropout", "LayerList"}
    several = {"ColumnParallelLinear", "VocabParallelEmbedding", "GPTQLinear"}
    windows = {"Conv1D", "Conv2d", "Conv3D", "ConvTranspose1d", "WeightNormConvTranspose1d"}
    not_yet = several | windows  # their sizes follow from no input, and their dtype has no default
    assert {name.removeprefix("nn.") for name in placed()} == modules - nothing - not_yet
    assert set(placed()) == set(HAND)
    for offer in layers.layers().values():
        for blank in offer.typed:
            assert blank.hint, f"{offer.name}.{blank.name}"


def array(type: TensorType) -> np.ndarray[Any, Any]:
    shape = [int(dim) if str(dim).isdigit() else 5 for dim in type.shape]
    rng = np.random.default_rng(3)
    if type.dtype.is_float():
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 7, shape).astype(np.int32)


@pytest.mark.parametrize("way", weighting.WAYS)
@pytest.mark.parametrize("name", HAND)
def test_a_layer_computes_what_it_computes_in_code(name: str, way: str) -> None:
    type = placed()[name]
    graph, x = net(type), array(type)
    told = next(one for one in offered(graph, on=("input0",)) if one["name"] == name)
    before = graph.document.text()
    typed = {field: TYPED[field] for field in told["needs"] if field != "weights"}
    if "weights" in told["needs"]:
        typed["weights"] = way
    made = change(graph, "add", name, ("input0",), "", 0, **typed)
    assert made["wrong"] == []
    ids = {op.id: op for op in graph.function.ops}
    change(graph, "outputs", on=(made["select"][-1],))
    verify(graph.function)

    layer: Any = HAND[name]()
    rng = np.random.default_rng(0)  # the numbers are drawn in the order of the weights
    registry = {k: weighting.start_of(w, rng) for k, w in layer.raw_state_dict().items()}
    hand = Graph("hand", layer, [type])
    want = engine.InferenceSession().load(hand, weights_registry=registry)(x)[0].to_numpy()

    scope = name.removeprefix("nn.").lower()
    assert all(op.scope.split(".")[0] == scope for op in ids.values() if op.name != "mo.output")
    given = [x]
    if way == weighting.INPUTS:
        names = [value.name for value in graph.function.inputs[1:]]
        assert names == [f"{scope}.{key}".replace(".", "_") for key in registry]
        given += list(registry.values())
    is_named = any(is_weight(op) for op in graph.function.ops)
    assert is_named == (way == weighting.NAMED and bool(registry))
    loaded = model_for(graph)
    np.testing.assert_allclose(loaded(*given)[0].to_numpy(), want, rtol=1e-5, atol=1e-6)
    if is_named:
        named = {f"{scope}.{key}": value for key, value in registry.items()}
        session = engine.InferenceSession().load(graph, weights_registry=named)
        np.testing.assert_array_equal(session(*given)[0].to_numpy(), want)
    for _ in range(2):
        change(graph, "undo")
    assert graph.document.text() == before


def test_sublayers_stand_in_scopes_of_their_own() -> None:
    graph = net(TYPES[0])
    for _ in range(2):
        change(
            graph, "add", "nn.MLP", ("input0",), feed_forward_length="4", weights="named weights"
        )
    scopes = {op.scope for op in graph.function.ops if op.scope}
    assert {"mlp", "mlp.gate_proj", "mlp.1.down_proj"} <= scopes
    names = [op.attrs["name"] for op in graph.function.ops if is_weight(op)]
    assert len(set(names)) == 6
    assert {"mlp.gate_proj.weight", "mlp.1.up_proj.weight"} <= set(names)


@pytest.mark.parametrize("way", weighting.WAYS)
@pytest.mark.parametrize("name", snippets.SNIPPETS)
def test_a_snippet_has_the_weights_that_were_chosen(name: str, way: str) -> None:
    type = TYPES[1] if name == "conv_block" else TYPES[0]
    results, weights = [], list[Any]()
    for chosen in (weighting.CONSTANTS, way):
        graph = net(type)
        before = graph.document.text()
        made = change(graph, "add", name, ("input0",), "", 0, weights=chosen, seed="3")
        assert made["wrong"] == []
        named = {op.attrs["name"]: op for op in graph.function.ops if is_weight(op)}
        assert bool(named) == (chosen == weighting.NAMED)
        change(graph, "outputs", on=(made["select"][-1],))
        constants = [
            op.attrs["value"].array
            for op in graph.function.ops
            if op.name == "mo.constant" and op.result.name
        ]
        weights = weights or constants
        more = weights if chosen == weighting.INPUTS else []
        results.append(model_for(graph)(array(type), *more)[0].to_numpy())
        change(graph, "undo")
        change(graph, "undo")
        assert graph.document.text() == before
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "typed", "wrong"),
    [
        ("nn.Linear", {"out_dim": ""}, "out_dim"),
        ("nn.Linear", {"out_dim": "0"}, "out_dim"),
        ("nn.Linear", {"out_dim": "many"}, "out_dim"),
        ("nn.Linear", {"out_dim": "3", "clip_weight": "-1"}, "clip_weight"),
        ("nn.Linear", {"out_dim": "3", "has_bias": "7"}, "has_bias"),
        ("nn.Linear", {"out_dim": "3", "dtype": "float33"}, "dtype"),
        ("nn.Linear", {"out_dim": "3", "weights": "none"}, "weights"),
        ("nn.Linear", {"out_dim": "3", "seed": "x"}, "seed"),
        ("nn.Linear", {"out_dim": "900000"}, "weights"),
        ("nn.LayerNorm", {"eps": "-1"}, "eps"),
        ("nn.Sequential", {"layers": ""}, "layers"),
        ("nn.Sequential", {"layers": "exit()"}, "layers"),
        ("nn.Sequential", {"layers": "ReLU(], ["}, "layers"),
        ("nn.Sequential", {"layers": "Linear(7, 2)"}, "layers"),
        ("nn.Sequential", {"layers": "Linear(out=2)"}, "layers"),
    ],
)  # fmt: skip
def test_a_wrong_text_names_its_field(name: str, typed: dict[str, str], wrong: str) -> None:
    graph = net(TensorType(F32, ["n", 32]))
    before = graph.document.text()
    try:
        found = [
            one["name"] for one in change(graph, "add", name, ("input0",), "", 0, **typed)["wrong"]
        ]
    except MaxlabError as error:
        found = [str(error)]
    assert found == [wrong]
    assert graph.document.text() == before


def test_a_trial_calls_no_hooks() -> None:
    seen: list[Any] = []
    graph = net(TYPES[0])
    with nn.layer_hooks(lambda layer, args, kwargs, outputs: seen.append(type(layer).__name__)):
        offered(graph, on=("input0",))
        assert seen == []
        change(graph, "add", "nn.Tanh", ("input0",))
        assert seen == ["Tanh"]


def test_a_layer_is_put_on_an_edge() -> None:
    with Graph("net", input_types=[TYPES[0]]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor) @ np.ones((8, 2), np.float32))
    (matmul,) = [op.id for op in graph.function.ops if op.name == "mo.matmul"]
    on_edge = ask(graph, "offer", way="insert", on=[], op=matmul, operand=0)["offers"]
    names = {one["name"] for one in on_edge}
    assert {"nn.ReLU", "nn.LayerNorm", "attention"} <= names
    assert not {"nn.Embedding", "conv_block"} & names
    change(graph, "insert", "nn.LayerNorm", (), matmul, 0)
    kinds = [op.name for op in graph.function.ops]
    assert kinds.index("mo.tanh") < kinds.index("mo.layer_norm") < kinds.index("mo.matmul")
    x = array(TYPES[0])
    want = np.tanh(x)
    want = (want - want.mean(-1, keepdims=True)) / np.sqrt(want.var(-1, keepdims=True) + 1e-5)
    made = model_for(graph)(x)[0].to_numpy()
    np.testing.assert_allclose(made, want @ np.ones((8, 2), np.float32), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- examples
@pytest.mark.parametrize("name", [name for name in palette.offers() if name != "print"])
def test_the_example_of_an_operation_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = examples.example_of(name)
    assert f"{name}(" in program or name == "clamp"  # that of clip, which takes a bound at least
    exec(compile(program, name, "exec"), {})


@pytest.mark.parametrize("name", layers.layers())
def test_the_example_of_a_layer_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = examples.example_of_layer(name)
    assert f"nn.{name}(" in program
    exec(compile(program, name, "exec"), {})


@pytest.mark.parametrize("name", snippets.SNIPPETS)
def test_the_example_of_a_snippet_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippets.SNIPPETS[name].example, name, "exec"), {})
    assert capsys.readouterr().out
