"""Modules: graphs that call each other, and are saved together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError, ParseError
from maxlab.graph import DeviceRef, Graph, Module, TensorType, Weight, ops
from maxlab.ir.parser import parse_function, parse_module
from maxlab.ir.printer import generic, generic_module
from maxlab.lab.documents import document_of

F32 = DType.float32
ROW = TensorType(F32, ["n"])
X = np.array([1, -2, 3], np.float32)


def run(graph: Any, *args: Any, **more: Any) -> list[Any]:
    return [y.to_numpy().tolist() for y in engine.InferenceSession().load(graph, **more)(*args)]


def two() -> Module:
    """A module with a graph that calls another one twice, and a weight."""
    module = Module()

    def scale(x: Any) -> Any:
        return x * Weight("by", F32, [], DeviceRef.CPU())

    one = Graph("scale", scale, [ROW], module=module)
    Graph("twice", lambda x: ops.call(one, *ops.call(one, x)), [ROW], module=module)
    return module


WEIGHTS = {"by": np.array(3, np.float32)}


def test_graphs_by_name() -> None:
    module = two()
    assert list(module) == ["scale", "twice"]
    assert len(module) == 2
    assert "twice" in module
    assert "thrice" not in module
    assert repr(module) == "Module(scale, twice)"
    assert [graph.name for graph in module.graphs] == ["scale", "twice"]
    assert module["scale"].module is module
    assert Graph("alone").module is None
    assert "@scale" in str(module)
    assert "@twice" in str(module)


def test_a_graph_calls_another_one_of_its_module() -> None:
    module = two()
    registry = {"weights_registry": WEIGHTS}
    assert run(module["scale"], X, **registry) == [[3, -6, 9]]
    assert run(module["twice"], X, **registry) == [[9, -18, 27]]
    assert document_of(module["twice"])["nodes"]


def test_a_call_is_of_what_the_graph_was_then() -> None:
    module = Module()
    one = Graph("one", lambda x: x * 2, [ROW], module=module)
    with Graph("two", input_types=[ROW], module=module) as both:
        (a,) = ops.call(one, both.inputs[0])
        (b,) = ops.call(one, a)
        with one, pytest.warns(UserWarning, match="replaces it"):
            one.output(one.inputs[0].tensor + 1)
        (c,) = ops.call(one, b)
        (d,) = ops.call(one, c)
        both.output(b, d)
    assert run(both, X) == [[4, -8, 12], [6, -6, 14]]
    assert run(one, X) == [[2, -1, 4]]


def test_a_graph_of_a_subgraph_is_called_too() -> None:
    module = Module()
    one = Graph("one", lambda x: x * 2, [ROW], module=module)
    with Graph("outer", input_types=[ROW], module=module) as outer:
        inner = outer.add_subgraph("inner", lambda x: ops.call(one, x), [ROW])
        outer.output(*ops.call(inner, *ops.call(inner, outer.inputs[0])))
    assert list(module) == ["one", "outer"]
    assert run(outer, X) == [[4, -8, 12]]


def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "both.mlir"
    module = two()
    module.save(path)
    again = Module(path)
    assert list(again) == ["scale", "twice"]
    registry = {"weights_registry": WEIGHTS}
    for name in module:
        assert str(again[name]) == str(module[name])
        read = Graph(name, path=path)
        assert read.name == name
        assert run(read, X, **registry) == run(module[name], X, **registry)
    again["scale"].save(path)  # one alone, as graphs were saved before
    assert list(Module(path)) == ["scale"]
    assert Graph("renamed", path=path).name == "renamed"
    module.save(path)
    with pytest.raises(RuntimeError, match="has no graph 'graph'"):
        engine.InferenceSession().load(path)


def test_a_module_reads_and_adds(tmp_path: Path) -> None:
    path = tmp_path / "both.mlir"
    two().save(path)
    module = Module(path)
    Graph("more", lambda x: ops.call(module["twice"], x), [ROW], module=module)
    Graph("scale2", path=_alone(module, tmp_path), module=module)
    module.save(path)
    assert list(Module(path)) == ["scale", "twice", "more", "scale2"]
    assert run(Graph("more", path=path), X, weights_registry=WEIGHTS) == [[9, -18, 27]]


def _alone(module: Module, folder: Path) -> Path:
    module["scale"].save(folder / "scale.mlir")
    return folder / "scale.mlir"


def test_text_of_several_graphs() -> None:
    functions = [graph.function for graph in two().graphs]
    text = generic_module(functions)
    assert [generic(f) for f in parse_module(text)] == [generic(f) for f in functions]
    with pytest.raises(ParseError, match="the text has 2 graphs, expected one"):
        parse_function(text)
    assert generic(parse_function(generic_module(functions[:1]))) == generic(functions[0])
    with pytest.raises(ParseError, match="there are two graphs 'scale'"):
        parse_module(generic_module([functions[0], functions[0]]))
    with pytest.raises(ParseError, match="end of the text"):
        parse_module(text.replace("}) : () -> ()\n", "}) : () -> () x"))


def test_a_graph_that_fails_is_not_in_the_module() -> None:
    module = Module()
    with pytest.raises(ValueError, match="mul"):
        Graph("bad", lambda x, y: x * y, [ROW, TensorType(F32, ["m"])], module=module)
    assert len(module) == 0
    Graph("bad", lambda x: x, [ROW], module=module)
    assert list(module) == ["bad"]


def _foreign(tmp_path: Path) -> None:
    with Graph("g", input_types=[ROW], module=Module()) as graph:
        ops.call(Graph("h", lambda x: x, [ROW], module=Module()), graph.inputs[0])


def _itself(tmp_path: Path) -> None:
    with Graph("g", input_types=[ROW], module=Module()) as graph:
        graph.output(graph.inputs[0])
        ops.call(graph, graph.inputs[0])


def _around(tmp_path: Path) -> None:
    with Graph("g", input_types=[ROW], module=Module()) as graph:
        graph.output(graph.inputs[0])
        graph.add_subgraph("inner", lambda x: ops.call(graph, x), [ROW])


def _not_finished(tmp_path: Path) -> None:
    module = Module()
    Graph("g", input_types=[ROW], module=module)
    module.save(tmp_path / "g.mlir")


def _other_name(tmp_path: Path) -> None:
    two().save(tmp_path / "g.mlir")
    Graph("thrice", path=tmp_path / "g.mlir")


def _read_twice(tmp_path: Path) -> None:
    module = two()
    module.save(tmp_path / "g.mlir")
    Graph("scale", path=tmp_path / "g.mlir", module=module)


@pytest.mark.parametrize(
    ("code", "kind", "act"),
    [
        ("ML365", ValueError, lambda p: Graph("scale", module=two())),
        ("ML365", ValueError, _read_twice),
        ("ML366", ValueError, lambda p: two()["thrice"]),
        ("ML366", ValueError, lambda p: Module().save(p / "g.mlir")),
        ("ML366", ValueError, _other_name),
        ("ML319", ValueError, lambda p: Graph("g", module=object())),
        ("ML319", ValueError, lambda p: Graph("g", module=two(), context=object())),
        ("ML322", ValueError, _not_finished),
        ("ML346", ValueError, _foreign),
        ("ML346", ValueError, _itself),
        ("ML346", ValueError, _around),
        ("ML793", RuntimeError, lambda p: Module(p / "none.mlir")),
    ],
)
def test_what_is_refused(code: str, kind: Any, act: Any, tmp_path: Path) -> None:
    with pytest.raises(kind) as caught:
        act(tmp_path)
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == code, str(caught.value)
