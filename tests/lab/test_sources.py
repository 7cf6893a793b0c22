"""The palette beside operations: subgraphs, kernels, snippets; constants from arrays and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab import namespace, palette, snippets
from maxlab.lab.kernel_magic.magic import define_cell
from maxlab.opset.verify import verify
from tests.lab.test_changes import ask, change, offered

F32 = DType.float32


def net(*dims: int | str, more: tuple[Any, ...] = (), kernels: Any = ()) -> Graph:
    types = [TensorType(F32, dims or ["n", 8]), *more]
    with Graph("net", input_types=types, custom_extensions=kernels) as graph:
        graph.output(ops.exp(graph.inputs[0].tensor))
    return graph


def run(graph: Graph, *inputs: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = engine.InferenceSession().load(graph)(*inputs)[0].to_numpy()
    return found


def named(graph: Graph, name: str, *on: str) -> dict[str, Any]:
    """What the palette says of ``name``; empty where it is not offered."""
    return next((one for one in offered(graph, on=on or ("input0",)) if one["name"] == name), {})


def numbers(graph: Graph) -> list[np.ndarray[Any, Any]]:
    """The constants of a snippet, in their order."""
    constants = [op for op in graph.function.ops if op.name == "mo.constant" and op.scope]
    return [op.attrs["value"].array for op in constants]


# ---------------------------------------------------------------- snippets
def test_an_mlp_is_what_its_layers_are() -> None:
    graph = net()
    text = graph.document.text()
    assert named(graph, "mlp")["needs"] == ["hidden", "out", "activation", "weights", "seed"]
    fields = {"hidden": "16, 4", "out": "3", "activation": "tanh", "seed": "5"}
    made = change(graph, "add", "mlp", ("input0",), "", 0, **fields)
    assert made["said"] == "added mlp"
    assert {op.scope for op in graph.function.ops} == {"", "mlp"}
    change(graph, "outputs", on=tuple(made["select"]))
    verify(graph.function)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    w1, b1, w2, b2, w3, b3 = numbers(graph)
    assert w1.shape == (8, 16)
    want = np.tanh(np.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3
    np.testing.assert_allclose(run(graph, x), want, rtol=1e-4, atol=1e-6)
    change(graph, "undo")
    change(graph, "undo")
    assert graph.document.text() == text


@pytest.mark.parametrize("dims", [("n", 8), (2, "n", 8)])
def test_attention_is_what_its_heads_are(dims: tuple[int | str, ...]) -> None:
    graph = net(*dims)
    made = change(graph, "add", "attention", on=("input0",), heads="2")
    change(graph, "outputs", on=tuple(made["select"]))
    shape = (5, 8) if len(dims) == 2 else (2, 5, 8)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    wq, wk, wv, wo = (w for w in numbers(graph) if w.shape == (8, 8))

    def heads(w: Any) -> Any:
        return np.swapaxes((x @ w).reshape(*x.shape[:-1], 2, 4), -3, -2)

    q, k, v = heads(wq), heads(wk), heads(wv)
    scores = np.exp(q @ np.swapaxes(k, -1, -2) / 2)
    scores /= scores.sum(-1, keepdims=True)
    want = np.swapaxes(scores @ v, -3, -2).reshape(x.shape) @ wo
    np.testing.assert_allclose(run(graph, x), want, rtol=1e-4, atol=1e-5)


def test_a_conv_block_keeps_the_size_of_images() -> None:
    graph = net(1, 6, 5, 2)
    assert not named(net(), "conv_block")
    for kernel in ("1", "2", "3"):
        made = change(graph, "add", "conv_block", on=("input0",), filters="4", kernel=kernel)
        change(graph, "outputs", on=tuple(made["select"]))
        assert graph.output_types == [TensorType(F32, [1, 6, 5, 4])]
        x = np.ones((1, 6, 5, 2), np.float32)
        assert run(graph, x).min() >= 0
    assert {op.scope for op in graph.function.ops if op.scope} == {
        "conv_block", "conv_block.1", "conv_block.2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields", "wrong"),
    [
        ("mlp", {"hidden": "many"}, "hidden"),
        ("mlp", {"hidden": "0"}, "hidden"),
        ("mlp", {"activation": "cos"}, "activation"),
        ("mlp", {"hidden": "1000000", "out": "1000000"}, "weights"),
        ("attention", {"heads": "3"}, "heads"),
        ("dense", {"out": ""}, "out"),
    ],
)
def test_a_wrong_size_names_its_field(name: str, fields: dict[str, str], wrong: str) -> None:
    graph = net()
    before = graph.document.text()
    found = change(graph, "add", name, ("input0",), "", 0, **fields)
    assert [one["name"] for one in found["wrong"]] == [wrong]
    assert graph.document.text() == before


def test_snippets_read_floats_of_a_known_width() -> None:
    graph = net("n", "k", more=(TensorType(DType.int32, [4, 4]),))
    with pytest.raises(MaxlabError, match="the last size"):
        change(graph, "add", "dense", on=("input0",))
    assert not named(graph, "dense", "input1")
    assert not named(graph, "dense", "input0", "input1")


# ---------------------------------------------------------------- subgraphs and kernels
def test_a_group_can_be_called_with_what_it_takes() -> None:
    graph = net(more=(TensorType(F32, ["n", 8]), TensorType(F32, [3])))
    (total,) = change(graph, "add", "add", on=("input0", "input1"))["select"]
    change(graph, "group", on=(total,), name="sums")
    whole = named(graph, "call sums", "input1", "input0")
    assert (whole["needs"], whole["result"]) == ([], "float32[n, 8]")
    assert not named(graph, "call sums", "input2")
    half = named(graph, "call sums", "input1")
    assert half["needs"] == ["input1"]
    wrong = change(graph, "add", "call sums", on=("input0",))["wrong"]
    assert wrong[0]["name"] == "input1"
    made = change(graph, "add", "call sums", ("input0",), "", 0, input1="v0")
    change(graph, "outputs", on=tuple(made["select"]))
    x = np.ones((2, 8), np.float32)
    np.testing.assert_allclose(run(graph, x, x, np.ones(3, np.float32)), x + np.exp(x), rtol=1e-6)
    assert len(graph.function.calls) == 2


KERNEL = """
// @op scaled(x: float32[n, m]) -> (y: float32[n, m])
// @both
store(y, i, 3 * load(x, i));
"""


def test_kernels_of_the_graph_are_offered() -> None:
    graph = net(kernels=[KERNEL])
    told = named(graph, "kernel scaled")
    assert told["needs"] == ["type of y"]
    assert told["fields"][0]["text"] == "float32[n, 8]"
    made = change(graph, "add", "kernel scaled", on=("input0",))
    change(graph, "outputs", on=tuple(made["select"]))
    x = np.ones((2, 8), np.float32)
    assert run(graph, x).tolist() == (3 * x).tolist()
    assert not named(net(), "kernel scaled")


def test_a_kernel_of_a_cell_is_placed_in_a_graph_built_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables: dict[str, Any] = {}
    monkeypatch.setattr(namespace, "user_variables", lambda: variables)
    define_cell("mine", KERNEL, variables, "In[1]")
    graph = net()
    before = graph.document.text()
    told = named(graph, "kernel scaled")
    assert "cell In[1]" in told["says"]
    about = ask(graph, "about", name="kernel scaled", way="add", on=["input0"], op="", operand=0)
    shown: dict[str, Any] = dict(variables)
    exec(about["example"], shown)
    assert shown["graph"].output_types == graph.output_types
    made = change(graph, "add", "kernel scaled", on=("input0",))
    change(graph, "outputs", on=tuple(made["select"]))
    x = np.ones((2, 8), np.float32)
    assert run(graph, x).tolist() == (3 * x).tolist()

    # The cell is run again with another text: what is placed from then on is new, the rest stays.
    define_cell("mine", KERNEL.replace("3 *", "5 *"), variables, "In[1]")
    (first,) = made["select"]
    made = change(graph, "add", "kernel scaled", on=(first,))
    change(graph, "outputs", on=tuple(made["select"]))
    assert run(graph, x).tolist() == (15 * x).tolist()
    for _ in range(4):
        change(graph, "undo")
    assert graph.document.text() == before
    assert "scaled" not in net().kernels

    # What is refused leaves the library of the graph as it is.
    other = net("n", 8, 2)
    with pytest.raises(MaxlabError):
        change(other, "add", "kernel scaled", on=("input0",))
    assert "scaled" not in other.kernels
    del variables["mine"]
    assert not named(net(), "kernel scaled")


# ---------------------------------------------------------------- constants
def constant(graph: Graph, source: str, **fields: str) -> Any:
    usual = {"name": "", "on": [], "op": "", "operand": 0, "do": "random"}
    return ask(graph, "change", **usual, fields={"from": source, **fields})


def test_a_constant_is_read_from_a_file(tmp_path: Path) -> None:
    graph, given = net(), np.arange(8, dtype=np.float32)
    np.save(tmp_path / "w.npy", given)
    constant(graph, str(tmp_path / "w.npy"), name="w")
    (made,) = [op for op in graph.function.ops if op.name == "mo.constant"]
    assert made.results[0].name == "w"
    assert made.attrs["value"].array.tolist() == given.tolist()
    head = b'{"a.w": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}'
    content = len(head).to_bytes(8, "little") + head + given.tobytes()
    (tmp_path / "w.safetensors").write_bytes(content)
    weights = tmp_path / "w.safetensors"
    assert constant(graph, f"{weights}:a.w", type="int32[8]")["said"].startswith("added")
    before = graph.document.text()
    for source, type in (
        (str(tmp_path / "none.npy"), ""),
        ("nothing", ""),
        (f"{weights}:a.v", ""),
        (f"{weights}:a.w", "float32[9]"),
    ):
        assert constant(graph, source, type=type)["wrong"], source
        assert graph.document.text() == before


def test_no_source_has_the_name_of_an_operation() -> None:
    assert not snippets.SNIPPETS.keys() & palette.offers().keys()


# ---------------------------------------------------------------- in the place of an operation
def test_an_operation_is_replaced_by_a_layer_a_network_or_a_group() -> None:
    types = [TensorType(F32, ["n", 8]), TensorType(F32, [8, 4])]
    with Graph("net", input_types=types) as graph:
        x, w = (value.tensor for value in graph.inputs)
        graph.output(ops.relu(ops.tanh(x @ w)))
    before = graph.document.text()
    change(graph, "group", on=("n2",), name="last")
    found = {one["name"]: one for one in offered(graph, "replace", ("n1",), "n1")}
    assert {"exp", "mlp", "nn.Linear", "nn.ReLU", "call last"} <= found.keys()
    assert found["nn.ReLU"]["result"] == "float32[n, 4]"
    # All operands of the other are read, or the first: a layer has its own weights.
    found = {one["name"]: one for one in offered(graph, "replace", ("n0",), "n0")}
    assert "nn.Linear" in found
    assert "call last" not in found

    made = change(graph, "replace", "nn.Linear", op="n0", out_dim="4", seed="3")
    assert made["said"] == "replaced matmul by nn.Linear"
    names = [op.name.removeprefix("mo.") for op in graph.function.ops if op.operands]
    assert names[-3:] == ["tanh", "relu", "output"]
    change(graph, "replace", "call last", op="n1")
    verify(graph.function)
    assert [call.body.name for call in graph.function.calls].count("last") == 2
    x_now = np.ones((2, 8), np.float32)
    found_now = run(graph, x_now, np.zeros((8, 4), np.float32))
    assert found_now.shape == (2, 4)
    assert (found_now >= 0).all()
    for _ in range(3):
        change(graph, "undo")
    assert graph.document.text() == before


def test_what_does_not_fit_in_the_place_of_an_operation_is_refused() -> None:
    graph = net()
    text = graph.document.text()
    with pytest.raises(MaxlabError, match="no operation 'nothing'"):
        change(graph, "replace", "nothing", op="n0")
    assert change(graph, "replace", "nn.Linear", op="n0", out_dim="x")["wrong"]
    assert graph.document.text() == text
