"""Merges of graphs with branches and loops: what stands inside is merged as what stands outside."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.graph import DeviceRef, Editor, Graph, TensorType, ops
from maxlab.graph.reading import graph_of
from maxlab.opset.verify import verify

ROW = TensorType(DType.float32, ["n", 4])
FLAG = TensorType(DType.bool, [])
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def branch(
    then: str = "relu", scale: float = 2.0, inside: bool = False, behind: bool = False
) -> Graph:
    """A program with a branch."""
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        y = ops.exp(graph.inputs[0].tensor)

        def yes() -> Any:
            z = getattr(ops, then)(y) * scale
            return ops.tanh(z) if inside else z

        (z,) = ops.cond(graph.inputs[1].tensor, [ROW], yes, lambda: y - 1.0)
        graph.output(ops.abs(z) if behind else z)
    return graph


def straight() -> Graph:
    return Graph("g", lambda x, p: ops.exp(x.tensor), [ROW, FLAG])


def loop(step: float = 1.0, inside: bool = False, behind: bool = False) -> Graph:
    """A program with a loop."""
    with Graph("w", input_types=[ROW]) as graph:
        start = ops.constant(np.float32(0), DType.float32, DeviceRef.CPU())

        def body(i: Any, x: Any) -> list[Any]:
            y = ops.tanh(x)
            return [i + step, ops.relu(y) if inside else y]

        _, y = ops.while_loop([start, graph.inputs[0].tensor], lambda i, x: i < 4.0, body)
        graph.output(ops.abs(y) if behind else y)
    return graph


def run(graph: Graph) -> Any:
    model = maxlab.load(graph_of(graph.document.text(), "again"))
    if len(graph.inputs) == 1:
        return model(X)[0].to_numpy()
    return np.stack([model(X, np.array(flag))[0].to_numpy() for flag in (False, True)])


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.function.walk()]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both"),
    [
        (branch(), branch(behind=True), branch("tanh"), branch("tanh", behind=True)),
        (branch(), branch(scale=3.0), branch(inside=True), branch(scale=3.0, inside=True)),
        (loop(), loop(inside=True), loop(behind=True), loop(inside=True, behind=True)),
        (loop(), loop(inside=True), loop(0.5), loop(0.5, inside=True)),
        (branch(), branch("tanh"), branch(), branch("tanh")),
    ],
)
def test_what_does_not_touch_is_merged(
    base: Graph, ours: Graph, theirs: Graph, both: Graph
) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        made = maxlab.merge(base, one, other)
        assert made.is_clean, str(made)
        assert not maxlab.diff(both, made.graph), str(maxlab.diff(both, made.graph))
        np.testing.assert_array_equal(run(made.graph), run(both))


@pytest.mark.filterwarnings("ignore:the graph")  # it is run with what is left to decide
@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (branch(), branch("tanh"), branch("sigmoid")),
        (branch(), branch(scale=3.0), branch(scale=4.0)),
        (loop(), loop(2.0), loop(0.5)),
        (branch(), straight(), branch("tanh")),
        (branch(), branch("tanh"), straight()),
        (branch(), straight(), branch(inside=True)),
        (branch(), branch(inside=True), straight()),
    ],
)
def test_what_touches_is_asked(base: Graph, ours: Graph, theirs: Graph) -> None:
    """Until it is decided the graph is as ours has it; nothing that a side has is lost."""
    made = maxlab.merge(base, ours, theirs)
    assert len(made.conflicts) == 1
    np.testing.assert_array_equal(run(made.graph), run(ours))
    editor = Editor(made.graph)
    before = made.graph.document.text()
    editor.resolve("m0", "theirs")
    verify(made.graph.function)
    kinds = {name for name in names(theirs) if name not in ("mo.output", "mo.constant")}
    assert kinds <= set(names(made.graph))
    if "mo.cond" in names(ours) and "mo.cond" in names(theirs):
        np.testing.assert_array_equal(run(made.graph), run(theirs))
    assert editor.undo()
    assert made.graph.document.text() == before
    editor.resolve("m0", "ours")
    np.testing.assert_array_equal(run(made.graph), run(ours))


BRANCHES = [
    branch(*given)
    for given in itertools.product(("relu", "tanh"), (2.0, 3.0), (False, True), (False, True))
]
PAIRS = list(itertools.product(range(len(BRANCHES)), repeat=2))


@pytest.mark.filterwarnings("ignore:the graph")
@pytest.mark.parametrize("pair", PAIRS[::5], ids=str)
def test_laws_of_merging_programs_with_branches(pair: tuple[int, int]) -> None:
    """Programs that are built anew, whose operations have other ids each time."""
    base, ours, theirs = branch(), *(BRANCHES[number] for number in pair)
    made, turned = maxlab.merge(base, ours, theirs), maxlab.merge(base, theirs, ours)
    assert made.is_clean == turned.is_clean
    verify(made.graph.function)
    if made.is_clean:
        assert made.text() == turned.text()
    else:  # it runs as it is
        assert run(made.graph).shape == run(turned.graph).shape == run(base).shape
    for given in (maxlab.merge(base, base, ours), maxlab.merge(base, ours, ours)):
        np.testing.assert_array_equal(run(given.graph), run(ours))


def test_a_side_with_a_circle_of_blocks_is_refused() -> None:
    from maxlab.analysis.merging.front import merge_parts
    from maxlab.graph.parted import split

    parts = [split(branch(then).document.data()) for then in ("relu", "tanh", "relu")]
    (cond,) = [
        key for (one, key), f in parts[1].parts.items() if one == "op" and f["name"] == "mo.cond"
    ]
    parts[1].put(("op", cond), "at", f"{cond}#0")
    with pytest.raises(GraphError):
        merge_parts(*parts)
