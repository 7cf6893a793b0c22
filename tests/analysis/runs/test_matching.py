"""Ops and kernels find each other whatever their numbers are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from maxlab.analysis.runs.matching import Match, match_kernels
from maxlab.analysis.runs.nodes import match_nodes
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.lab.snapshot import take
from tests.analysis.runs.made import layered, loaded


def named(graph: Graph) -> dict[str, str]:
    """The ops of a graph by id."""
    return {node["id"]: node["op"] for node in take(graph).document["nodes"]}


def test_an_op_more_shifts_all_ids_and_loses_none() -> None:
    before, after = layered(6), layered(6, softmax_after=2)
    one, other = take(before).document, take(after).document
    found = match_nodes(one, other)
    assert set(found) == set(named(before)), "all ops of the one are in the other"
    left, right = named(before), named(after)
    assert all(left[a] == right[b] for a, b in found.items())
    assert set(right) - set(found.values()) == {n for n, op in right.items() if op == "softmax"}
    # The ids behind the new op differ, and each op still met its own, in order.
    moved = [(a, b) for a, b in found.items() if a != b]
    assert moved
    numbers = [int(b[1:]) for _, b in found.items()]
    assert numbers == sorted(numbers)


def test_a_layer_less_leaves_the_others_matched() -> None:
    one, other = take(layered(6)).document, take(layered(5)).document
    found = match_nodes(one, other)
    assert len(found) == len(other["nodes"])


def test_another_dtype_is_matched_op_by_op() -> None:
    one = take(layered(3)).document
    other = take(layered(3, dtype=DType.float64)).document
    assert match_nodes(one, other) == {n["id"]: n["id"] for n in one["nodes"]}


def branches(swapped: bool) -> Graph:
    kinds = [TensorType(DType.float32, [8]), TensorType(DType.float32, [8])]
    with Graph("branches", input_types=kinds) as graph:
        x, y = (v.tensor for v in graph.inputs)
        if swapped:
            right = ops.tanh(y)
            left = ops.exp(x)
        else:
            left = ops.exp(x)
            right = ops.tanh(y)
        graph.output(left - right)
    return graph


def test_order_of_writing_does_not_matter() -> None:
    one, other = take(branches(False)).document, take(branches(True)).document
    found = match_nodes(one, other)
    names = [{n["id"]: n["op"] for n in document["nodes"]} for document in (one, other)]
    assert len(found) == 3
    assert all(names[0][a] == names[1][b] for a, b in found.items())


def test_graphs_that_share_nothing_match_nothing() -> None:
    with Graph("other", input_types=[TensorType(DType.int32, [4])]) as graph:
        graph.output(-graph.inputs[0].tensor)
    assert match_nodes(take(layered(2)).document, take(graph).document) == {}


def test_many_equal_ops_take_no_square_of_time() -> None:
    with Graph("long", input_types=[TensorType(DType.float32, [4])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(2000):
            x = ops.exp(x)
        graph.output(x)
    document = take(graph).document
    cut = {
        **document,
        "nodes": [n for n in document["nodes"] if n["id"] != "n1000"],
    }
    found = match_nodes(document, cut)
    assert len(found) >= 1990


# ---------------------------------------------------------------- kernels


@dataclass
class Kernel:
    name: str
    nodes: tuple[str, ...]
    kind: str = "map"


def matched(before: list[Kernel], after: list[Kernel]) -> list[Match]:
    ids = {n: n for k in [*before, *after] for n in k.nodes}
    return match_kernels(before, after, ids)


def test_kernels_are_matched_by_their_ops() -> None:
    before = [Kernel("a", ("n1", "n2")), Kernel("b", ("n3",))]
    after = [Kernel("x", ("n9",)), Kernel("b", ("n3",)), Kernel("a", ("n1", "n2"))]
    assert matched(before, after) == [
        Match((), (0,), False),
        Match((1,), (1,), True),
        Match((0,), (2,), True),
    ]


def test_what_was_cut_otherwise_is_a_group() -> None:
    before = [Kernel("a", ("n1",)), Kernel("b", ("n2", "n3")), Kernel("c", ("n4",))]
    after = [Kernel("ab", ("n1", "n2")), Kernel("c", ("n3",)), Kernel("d", ("n4",))]
    assert matched(before, after) == [Match((0, 1), (0, 1), True), Match((2,), (2,), True)]


def test_an_op_that_many_compute_puts_nothing_together() -> None:
    before = [Kernel(f"k{n}", ("mask", f"n{n}")) for n in range(4)]
    after = [Kernel(f"k{n}", ("mask", f"n{n}", f"m{n}")) for n in range(4)]
    assert matched(before, after) == [Match((n,), (n,), False) for n in range(4)]


def test_kernels_with_no_op_are_matched_by_name() -> None:
    before = [Kernel("pack", (), "pack"), Kernel("a", ("n1",))]
    after = [Kernel("copy", (), "copy"), Kernel("pack", (), "pack"), Kernel("a", ("n1",))]
    assert matched(before, after) == [
        Match((), (0,), False),
        Match((0,), (1,), True),
        Match((1,), (2,), True),
    ]


def test_every_kernel_stands_in_one_match() -> None:
    graph = layered(4, softmax_after=1)
    model = loaded(graph)
    for options in (Options(fuse=False), Options(accuracy="fast")):
        other = model.reload(options=options)
        before = list(model.kernels.values())
        after = list(other.kernels.values())
        document = take(graph).document
        found = match_kernels(before, after, match_nodes(document, document))
        assert sorted(n for m in found for n in m.before) == list(range(len(before)))
        assert sorted(n for m in found for n in m.after) == list(range(len(after)))
        assert all(m.before and m.after for m in found), "the same graph computes the same"


@pytest.mark.parametrize("side", ["before", "after"])
def test_nothing_is_new_or_gone(side: str) -> None:
    kernels = [Kernel("a", ("n1",)), Kernel("b", ())]
    found = matched(kernels, []) if side == "before" else matched([], kernels)
    assert len(found) == 2
    assert all(getattr(m, side) and not m.same_nodes for m in found)
