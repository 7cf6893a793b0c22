"""Documents of graphs that were cut, mutated, merged badly or written to do harm."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab.analysis.opening import open_file
from maxlab.dtype import DType
from maxlab.graph import BufferType, Comment, DeviceRef, Draft, Graph, Place, TensorType, ops
from maxlab.ir.printer import generic
from maxlab.lab.snapshot import take
from maxlab.opset import custom
from tests.hostile.harness import Case, Family, WrongResultError, mutated

CPU = DeviceRef.CPU()
KERNEL = """
// @op double(x: float32[n, m]) -> (y: float32[n, m])
// @both
store(y, i, 2 * load(x, i));
"""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**63, 10**30, 0.5, 1e308, "", "n1", "v1", "a0", "mo.output",
    "mo.custom", "x" * 3000, "../../etc/passwd", "</script><script>alert(1)</script>", "\0",
    "é\ud800", "!mo.tensor<[n], f32>", "!mo.tensor<[n * 99999999999], f32>",
    "dense<0> : tensor<999999xf32>",
    "(" * 2000, [], {}, [None], {"ops": []}, {"id": "n1"}, [["axis", "0"]], [[[]]],
)  # fmt: skip


F32 = DType.float32
TYPES = (TensorType(F32, ["n", 4], CPU), BufferType(F32, [4]))


def fill(graph: Graph) -> None:
    """Give ``graph``, whose inputs are `TYPES`, loops, constants, a kernel and effects."""

    def body(i: Any, x: Any) -> list[Any]:
        return [ops.add(i, 1), ops.mul(x, 0.5)]

    x = graph.inputs[0].tensor
    table = ops.constant(np.arange(40, dtype=np.float32).reshape(10, 4), F32, CPU)
    (y,) = ops.custom("double", CPU, [x], [x.type])
    start = ops.constant(0, DType.int32, CPU)
    turns = ops.while_loop([start, y], lambda i, _: ops.greater(3, i), body)
    row = ops.buffer_load(graph.inputs[1].buffer)
    graph.output(turns[1] @ table.T, ops.softmax(x + row), ops.nonzero(x > 2, "k"))


def _whole() -> bytes:
    """A document with what documents have: loops, constants, kernels, layout, comments, drafts."""
    with Graph("whole", input_types=TYPES, custom_extensions=[KERNEL]) as graph:
        fill(graph)
    document = graph.document
    document.places["n3"] = Place(x=1, y=2.5, pinned=True)
    document.folds["encoder"] = True
    document.comments.append(Comment(id="c0", text="why?", on="n3"))
    document.drafts.append(
        Draft(id="n90", name="mo.matmul", reason="an operand is missing", operands=("a0", None))
    )
    return document.text().encode()


_made: list[bytes] = []


def _ready() -> None:
    import nbformat.sign  # noqa: F401 - what saving imports takes more than a second, once

    _made[:] = [_whole()]


def _run(text: bytes, folder: Path) -> None:
    """Open the document, look at it, save it, and open it again; nothing may be declared or run."""
    file = folder / "graph.mlgraph"
    file.write_bytes(text)
    before = len(custom.DECLARED)
    graph = open_file(file)
    assert isinstance(graph, Graph)
    take(graph)
    graph.save(file)
    saved = file.read_bytes()
    again = Graph(path=file)
    again.save(file)
    if len(custom.DECLARED) != before:
        raise WrongResultError("opening a file has declared kernels")
    if generic(again.function) != generic(graph.function) or file.read_bytes() != saved:
        raise WrongResultError("the document that was saved again is another one")


def _case(what: str, text: bytes) -> Case:
    return Case(what, lambda folder: _run(text, folder))


def _nodes(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """``(container, key)`` of every node in ``value``."""
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            _nodes(value[key], found)
    return found


def changed(data: Any, random: Random) -> list[str]:
    """Changes parts of ``data`` at random; what was done, in words."""
    told = []
    for _ in range(random.choice((1, 1, 2, 5))):
        nodes = _nodes(data, [])
        place, key = random.choice(nodes)
        other, its = random.choice(nodes)
        change = random.choice(("value", "gone", "copied", "swapped", "twice", "turned"))
        told.append(f"{change} at {key}")
        if change == "value":
            place[key] = random.choice(VALUES)
        elif change == "gone":
            del place[key]
        elif change == "copied":
            place[key] = json.loads(json.dumps(other[its]))
        elif change == "swapped":
            mine, theirs = json.dumps(place[key]), json.dumps(other[its])
            place[key], other[its] = json.loads(theirs), json.loads(mine)
        elif change == "twice" and isinstance(place, list):
            place.insert(random.randrange(len(place) + 1), json.loads(json.dumps(place[key])))
        elif isinstance(place[key], list):
            random.shuffle(place[key])
    return told


def _draw(random: Random) -> Case:
    whole = _made[0]
    kind = random.randrange(4)
    if kind == 0:
        return _case("a document with other bytes", mutated(whole, random))
    if kind == 1:
        end = random.randrange(len(whole))
        return _case(f"a document that ends after {end} of {len(whole)} bytes", whole[:end])
    data = json.loads(whole)
    told = changed(data, random)
    text = json.dumps(data, ensure_ascii=random.random() < 0.5)
    return _case(f"a document with {', '.join(told)}", text.encode("utf-8", "surrogatepass"))


def _op(id: int, operand: str) -> str:
    kind = "!mo.tensor<[n], f32>"
    result = f'{{"id": "v{id}", "type": "{kind}"}}'
    return f'{{"id": "n{id}", "name": "mo.relu", "operands": ["{operand}"], "results": [{result}]}}'


def _graph(ops: str, more: str = "", version: str = "1") -> bytes:
    inputs = '[{"id": "a0", "type": "!mo.tensor<[n], f32>"}]'
    return (
        f'{{"format": "maxlab.document", "version": {version}{more}, "graph": {{"name": "g", '
        f'"inputs": {inputs}, "parameters": ["n"], "ops": [{ops}]}}}}'
    ).encode()


SEEDS = [
    _case(what, text)
    for what, text in {
        "nothing but a brace": b"{",
        "braces": b"{" * 100_000,
        "lists in lists": b'{"a": ' + b"[" * 100_000,
        "keys in keys": b'{"a":' * 100_000,
        "empty lists": b'{"a": [' + b"[]," * 17_000_000 + b"[]]}",
        "a long number": _graph("", ', "x": ' + "9" * 100_000),
        "a number of the version": _graph("", version="9" * 100_000),
        "no number": _graph("", ', "x": NaN'),
        "an infinite number": _graph("", ', "x": 1e999'),
        "a newer version": _graph("", version="2"),
        "no version": _graph("", version="null"),
        "a key twice": _graph("", ', "version": 1'),
        "an op that reads itself": _graph(_op(0, "v0")),
        "a circle": _graph(f"{_op(0, 'v1')}, {_op(1, 'v0')}"),
        "an id twice": _graph(f"{_op(0, 'a0')}, {_op(0, 'a0')}"),
        "an input as a result": _graph(_op(0, "a0").replace("v0", "a0")),
        "half of a pair": _graph("", ', "x": "\\ud800"'),
        "another encoding": _graph("").decode().encode("utf-16"),
        "a mark in front": b"\xef\xbb\xbf" + _graph(""),
        "no graph": b'{"format": "maxlab.document", "version": 1}',
        "4 000 ops": _graph(", ".join(_op(n, f"v{n - 1}" if n else "a0") for n in range(4_000))),
        "regions in regions": _graph(
            '{"id": "n", "name": "mo.if", "regions": [{"ops": [' * 500 + "]}]}" * 500
        ),
        "subgraphs in subgraphs": _graph("").replace(
            b'"ops": []', b'"ops": [], "subgraphs": [{"name": "s"' * 200 + b"}]" * 200
        ),
        "a constant that is not there": _graph(
            '{"id": "n0", "name": "mo.constant", "attrs": [["value", {"constant": "ab", "dtype": '
            '"f32", "shape": [9223372036854775807, 0]}]], "results": []}'
        ),
    }.items()
]

FAMILIES = (Family("documents", SEEDS, _draw, 4000, _ready),)
