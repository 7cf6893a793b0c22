"""What branches and loops run, in documents, listings and pictures."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab import svg
from maxlab.lab.documents import checked_document
from maxlab.lab.folding import fold
from maxlab.lab.regions import readable, unnumbered
from maxlab.lab.snapshot import take
from maxlab.lab.text import listing

CPU = DeviceRef.CPU()
ROW = TensorType(DType.float32, ["n"], CPU)
INT = TensorType(DType.int64, [], CPU)
loop: Any = ops.while_loop
branch: Any = ops.cond


def counted() -> Graph:
    """A loop with a branch in its body; the body is a function with a name."""
    with Graph("counted", input_types=[ROW, INT]) as graph:
        x, turns = (value.tensor for value in graph.inputs)

        def step(i: Any, y: Any) -> Any:
            (z,) = branch(i > 1, [ROW], lambda: ops.exp(y), lambda: x)
            return i + 1, z

        zero = ops.constant(0, DType.int64, CPU)
        _, y = loop((zero, x), lambda i, y: i < turns, step)
        graph.output(ops.tanh(y))
    return graph


def by_op(document: Any) -> dict[str, Any]:
    return {node["op"]: node for node in document["nodes"]}


def test_every_op_is_a_node_in_the_scope_of_its_part() -> None:
    document = take(counted()).document
    nodes = by_op(document)
    loop_id, cond_id = nodes["while"]["id"], nodes["cond"]["id"]
    body = f"{loop_id}:while.body"
    assert nodes["while"]["scope"] == f"{loop_id}:while"
    assert nodes["add"]["scope"] == body
    assert nodes["cond"]["scope"] == f"{body}.{cond_id}:cond"
    assert nodes["exp"]["scope"] == f"{body}.{cond_id}:cond.then"
    assert nodes["tanh"]["scope"] == ""
    scopes = {scope["path"]: scope for scope in document["scopes"]}
    assert scopes[f"{loop_id}:while"]["label"] == f"while {loop_id}"
    assert (scopes[body]["label"], scopes[body]["type"]) == ("body", "step")
    ids = [node["id"] for node in document["nodes"]]
    assert len(set(ids)) == len(ids)


def test_arguments_of_regions_are_what_they_stand_for() -> None:
    """A carried value is the loop's result, what was captured is the value outside."""
    document = take(counted()).document
    nodes = by_op(document)
    carried = nodes["while"]["results"]
    x, turns = document["inputs"]
    assert nodes["add"]["operands"][0] == carried[0]
    assert nodes["exp"]["operands"] == [carried[1]]
    assert turns in [v for node in document["nodes"] for v in node["operands"]]
    zero, begun = nodes["while"]["operands"]
    assert begun == x
    assert any(node["op"] == "constant" and zero in node["results"] for node in document["nodes"])
    flag, following = nodes["while"]["gives"]
    assert len(flag) == 1
    assert following == [nodes["add"]["results"][0], nodes["cond"]["results"][0]]
    assert nodes["cond"]["gives"] == [nodes["exp"]["results"], [x]]
    assert nodes["tanh"]["operands"] == [carried[1]]
    checked_document(document)


def test_a_loop_stands_before_its_parts_and_a_branch_behind_them() -> None:
    order = [node["op"] for node in take(counted()).document["nodes"]]
    assert order.index("while") < order.index("add")
    assert order.index("exp") < order.index("cond") < order.index("tanh")


def test_loops_of_equal_layers_have_one_fingerprint() -> None:
    def layer(x: Any) -> Any:
        zero = ops.constant(0, DType.int64, CPU)
        return loop((zero, x), lambda i, y: i < 3, lambda i, y: (i + 1, ops.tanh(y)))[1]

    def other(x: Any) -> Any:
        zero = ops.constant(0, DType.int64, CPU)
        return loop((zero, x), lambda i, y: i < 3, lambda i, y: (i + 1, ops.exp(y)))[1]

    with Graph("layers", input_types=[ROW]) as graph:
        x: Any = graph.inputs[0].tensor
        for kind in (layer, layer, other):
            x = kind(x)
        graph.output(x)
    prints = {s["path"]: s["fingerprint"] for s in take(graph).document["scopes"]}
    assert prints["layer.0"] == prints["layer.1"] != prints["other"]


def test_what_comes_back_counts_in_a_fingerprint() -> None:
    def made(swapped: bool) -> str:
        with Graph("pair", input_types=[INT]) as graph:
            one, two = (ops.constant(n, DType.int64, CPU) for n in (1, 2))
            limit = graph.inputs[0].tensor

            def pair(a: Any, b: Any) -> Any:
                return (b, a + b) if swapped else (a + b, b)

            graph.output(loop((one, two), lambda a, b: a < limit, pair)[0])
        scopes = take(graph).document["scopes"]
        return next(s["fingerprint"] for s in scopes if s["label"].startswith("while"))

    assert made(True) != made(False)
    assert made(True) == made(True)


def test_the_listing_names_what_parts_give() -> None:
    document = take(counted()).document
    text = listing(document)
    nodes = by_op(document)
    assert f"# while {nodes['while']['id']}.body" in text
    (made,) = nodes["exp"]["results"]
    assert f"then=[%{made}], else=[input0]" in text
    assert "predicate=[%" in text


@pytest.mark.parametrize(
    ("path", "words", "plain"),
    [
        ("n38:while", "while n38", "while"),
        (
            "a.n3:while.body.n4_1:cond.then",
            "a.while n3.body.cond n4_1.then",
            "a.while.body.cond.then",
        ),
        ("encoder.layers.0", "encoder.layers.0", "encoder.layers.0"),
    ],
)
def test_paths_in_words(path: str, words: str, plain: str) -> None:
    assert (readable(path), unnumbered(path)) == (words, plain)


def test_pictures_have_the_way_back() -> None:
    document = take(counted()).document
    picture = fold(document)
    nodes = by_op(document)
    assert (nodes["add"]["id"], nodes["while"]["id"]) in picture.turns
    assert all(wire not in picture.wires for wire in picture.turns)
    if shutil.which("dot"):
        assert 'class="w t"' in svg.draw(document, limit_seconds=30)
