"""Documents: what is in them, that they are the same every time, and which scopes are alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.lab import protocol
from maxlab.lab.scopes import Paths, declared
from maxlab.lab.snapshot import ERROR_NODE, take, unpack, without_times
from maxlab.opset import OPSET, Family
from tests.lab.graphs import layered, load, registry, small

ROOT = Path(__file__).resolve().parents[2]


def by_id(items: Any) -> dict[str, Any]:
    """The items of a document by id; ids are unique."""
    found = {item["id"]: item for item in items}
    assert len(found) == len(items)
    return found


def test_a_small_graph() -> None:
    document = take(small()).document
    assert document["format"] == protocol.FORMAT
    assert document["version"] == protocol.VERSION
    nodes, values = by_id(document["nodes"]), by_id(document["values"])
    assert [n["op"] for n in document["nodes"]] == [
        "constant", "mul", "constant", "add", "gelu", "softmax",
    ]  # fmt: skip
    assert document["inputs"] == ["a0"]
    assert values["a0"] == {
        "id": "a0",
        "type": "f32[n, 8]",
        "dtype": "float32",
        "shape": ["n", 8],
        "kind": "input",
        "name": "input0",
    }
    two = values[nodes["n0"]["results"][0]]
    assert (two["kind"], two["name"], two["nbytes"], two["type"]) == ("constant", "2", 4, "f32[]")
    assert nodes["n5"]["attrs"] == {"axis": "-1"}
    assert document["outputs"] == nodes["n5"]["results"]
    assert document["kernels"] == []
    assert document["profile"] is None
    assert document["error"] is None


def test_every_reference_is_declared() -> None:
    document = take(load(layered(), weights_registry=registry())).document
    nodes, values = by_id(document["nodes"]), by_id(document["values"])
    scopes = {s["path"] for s in document["scopes"]}
    for node in document["nodes"]:
        assert {*node["operands"], *node["results"]} <= set(values)
        assert not node["scope"] or node["scope"] in scopes
    for kernel in by_id(document["kernels"]).values():
        assert set(kernel["nodes"]) <= set(nodes)
        lines = (kernel["source"] or "").count("\n")
        for first, last, node in kernel["lines"]:
            assert 1 <= first <= last <= lines
            assert node in kernel["nodes"]
    covered = {n for k in document["kernels"] for n in k["nodes"]}
    assert {n["id"] for n in document["nodes"] if n["op"] in ("matmul", "gelu", "add")} <= covered


def test_source_places() -> None:
    document = take(small()).document
    [node] = [n for n in document["nodes"] if n["op"] == "gelu"]
    source = node["source"]
    assert source is not None
    assert source["file"].endswith("graphs.py")
    assert "ops.gelu(x * 2.0 + 1.0)" in source["text"]
    assert source["text"][source["col"] :].startswith("ops.gelu")
    assert source.get("function") == "small"


def test_only_graphs_models_and_profiles() -> None:
    with pytest.raises(ArgumentTypeError, match="ML801"):
        take(3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- determinism and size


def test_two_builds_make_one_document() -> None:
    assert take(layered()).json == take(layered()).json


def test_models_differ_in_times_only() -> None:
    first, second = (take(load(layered(), weights_registry=registry())) for _ in range(2))
    assert without_times(first.document) == without_times(second.document)


def test_processes_agree() -> None:
    """Nothing hangs on the order of a set or on an address."""
    code = (
        "from tests.lab.graphs import layered; from maxlab.lab.snapshot import take; "
        "print(take(layered()).json)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_packed_documents_unpack() -> None:
    snapshot = take(small())
    packed = snapshot.packed
    assert packed["encoding"] == protocol.PACKED_ENCODING
    assert unpack(packed) == json.loads(snapshot.json)


def test_size_of_a_six_layer_model() -> None:
    model = load(layered(), weights_registry=registry())
    model.profile(np.ones((2, 3, 16), np.float32), runs=1)
    assert len(take(model, sources=False).base64) < 20_000
    assert len(take(model).base64) < 30_000


def test_no_data_of_weights_or_large_constants() -> None:
    table = np.arange(100_000, 100_100, dtype=np.int64)
    with Graph("table", input_types=[TensorType(DType.int64, ["n"])]) as graph:
        graph.output(
            ops.gather(ops.constant(table, device=DeviceRef.CPU()), graph.inputs[0].tensor, 0)
        )
    snapshot = take(graph)
    assert "100050" not in snapshot.json
    [constant] = [n for n in snapshot.document["nodes"] if n["op"] == "constant"]
    assert constant["attrs"]["value"] == "100 values"


def test_small_constants_are_written_out() -> None:
    with Graph("small") as graph:
        graph.output(ops.constant([1.5, -2.0, 1e-12], DType.float32, DeviceRef.CPU()))
    [node] = take(graph).document["nodes"]
    assert node["attrs"]["value"] == "[1.5, -2, 1e-12]"


def test_ten_thousand_ops_in_a_second() -> None:
    with Graph("long", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor

        def block(y: TensorValue) -> TensorValue:
            for _ in range(100):
                y = ops.tanh(y)
            return y

        for _ in range(100):
            x = block(x)
        graph.output(x)
    start = time.process_time()
    document = take(graph).document
    spent = time.process_time() - start
    assert len(document["nodes"]) == 10_000
    assert len({s["fingerprint"] for s in document["scopes"]}) == 1
    assert spent < 1.0


# ---------------------------------------------------------------- scopes


def test_equal_layers_have_one_fingerprint() -> None:
    scopes = take(layered(6)).document["scopes"]
    assert [s["path"] for s in scopes] == [f"layer.{n}" for n in range(6)]
    assert [s["label"] for s in scopes] == [f"layer.{n}" for n in range(6)]
    assert len({s["fingerprint"] for s in scopes}) == 1


def test_an_odd_layer_has_another() -> None:
    prints = [s["fingerprint"] for s in take(layered(6, odd=2)).document["scopes"]]
    assert len(set(prints)) == 2
    assert prints.count(prints[2]) == 1


def test_wiring_counts() -> None:
    def first(x: TensorValue) -> TensorValue:
        y = ops.exp(x)
        return y - ops.tanh(y)

    def second(x: TensorValue) -> TensorValue:
        y = ops.exp(x)
        return ops.tanh(y) - y

    with Graph("wires", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(first(x), second(x))
    one, two = take(graph).document["scopes"]
    assert one["fingerprint"] != two["fingerprint"]


def test_the_first_call_of_a_function_is_number_zero() -> None:
    paths = Paths(["block.inner", "block.1.inner", "block.1.inner.1", "other"], {})
    assert paths.of("block.inner") == "block.0.inner"
    assert paths.of("block.1.inner") == "block.1.inner.0"
    assert paths.of("block.1.inner.1") == "block.1.inner.1"
    assert paths.of("other") == "other"
    assert paths.of("") == ""


def test_paths_of_modules_stay() -> None:
    paths = Paths(["stack", "stack.1"], {"stack": "Stack", "stack.1": "Linear"})
    assert paths.of("stack") == "stack"
    assert paths.types == {"stack": "Stack", "stack.1": "Linear"}


def test_an_index_belongs_to_the_name_before_it() -> None:
    assert declared(["encoder.layers.0.attention", "encoder.layers.1", ""]) == {
        "encoder": "encoder",
        "encoder.layers.0": "layers.0",
        "encoder.layers.0.attention": "attention",
        "encoder.layers.1": "layers.1",
    }


def test_modules_name_their_classes() -> None:
    nn = pytest.importorskip("maxlab.nn")

    class Stack(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LayerList(
                [nn.Linear(4, 4, DType.float32, DeviceRef.CPU()) for _ in range(6)]
            )

        def __call__(self, x: TensorValue) -> TensorValue:
            for one in self.layers:
                x = one(x)
            return x

    with Graph("stack", input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        graph.output(Stack()(graph.inputs[0].tensor))
    scopes = [s for s in take(graph).document["scopes"] if s["type"] == "Linear"]
    assert [s["label"] for s in scopes] == [f"layers.{n}" for n in range(6)]
    assert len({s["fingerprint"] for s in scopes}) == 1


# ---------------------------------------------------------------- errors


def broken() -> Graph:
    """A graph whose last op could not be added."""
    types = [TensorType(DType.float32, ["n", 3]), TensorType(DType.float32, [4, "m"])]
    graph = Graph("broken", input_types=types)
    with graph:
        x, y = (v.tensor for v in graph.inputs)
        z = ops.exp(x)
        with pytest.raises(ShapeError):
            ops.matmul(z, y)
    return graph


def test_a_failed_op_is_shown_where_it_was_written() -> None:
    document = take(broken()).document
    error, node = document["error"], document["nodes"][-1]
    assert error is not None
    assert error["node"] == node["id"] == ERROR_NODE
    assert error["code"].startswith("ML2")
    assert node["op"] == "matmul"
    assert node["error"] == error["message"]
    assert node["source"] is not None
    assert "ops.matmul(z, y)" in node["source"]["text"]
    assert document["outputs"] == []
    known = {v["id"] for v in document["values"]}
    assert set(node["operands"]) <= known


def test_the_next_good_op_clears_the_error() -> None:
    graph = broken()
    with graph:
        graph.output(ops.tanh(graph.inputs[0].tensor))
    document = take(graph).document
    assert document["error"] is None
    assert all(n["error"] is None for n in document["nodes"])


# ---------------------------------------------------------------- models and profiles


def test_sources_can_be_left_out() -> None:
    model = load(small())
    [kernel] = take(model, sources=False).document["kernels"]
    assert kernel["source"] is None
    assert kernel["lines"] == []
    [full] = take(model).document["kernels"]
    assert full["source"] is not None
    assert kernel["symbol"] in full["source"]


def test_a_profile_brings_its_numbers() -> None:
    model: engine.Model = load(small())
    profile = model.profile(np.ones((4, 8), np.float32), runs=3)
    made = take(profile).document["profile"]
    assert made is not None
    assert made["dims"] == {"n": 4}
    assert made["runs"] == 3
    assert made["kernels"][0]["ns"] == profile.kernels[0].ns
    assert take(model).document["profile"] == made
    assert [p["name"] for p in take(model).document["passes"]]


def test_costs_are_numbers_or_expressions_of_the_dims() -> None:
    document = take(load(small())).document
    [kernel] = document["kernels"]
    assert isinstance(kernel["flops"], str)
    assert "n" in kernel["flops"]
    [gelu] = [n for n in document["nodes"] if n["op"] == "gelu"]
    assert isinstance(gelu["flops"], str)


# ---------------------------------------------------------------- families
def test_nodes_say_their_family() -> None:
    with Graph("families", input_types=[TensorType(DType.float32, [4, 8])]) as graph:
        x = graph.inputs[0].tensor
        y = ops.softmax(ops.matmul(x, x.T) * 2)
        flag = ops.sum(ops.sum(y, axis=0), axis=1).reshape([]) > 0
        graph.output(ops.cond(flag, [y.type], lambda: y, lambda: -y)[0])
    found = {node["op"]: node["family"] for node in take(graph).document["nodes"]}
    assert found["matmul"] == "contract"
    assert found["softmax"] == "activation"
    assert found["constant"] == "source"
    assert found["mul"] == found["greater"] == found["negate"] == "elementwise"
    assert found["transpose"] == found["reshape"] == "view"
    assert found["reduce.sum"] == "reduce"
    assert found["cond"] == "control"


def test_the_view_knows_every_family_and_no_op() -> None:
    source = ROOT / "extension" / "src" / "core" / "model" / "families.ts"
    text = source.read_text("utf-8")
    known = re.findall(r"^  \| '(\w+)'", text, re.MULTILINE)
    assert set(known) == {*get_args(Family), "other"}
    words = set(re.findall(r"'(\w+)'", text)) - set(known)
    assert not words & {name.removeprefix("mo.") for name in OPSET}
