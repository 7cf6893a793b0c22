"""What an operand can read is said before it is connected, and is what connecting then says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, Editor, Graph, TensorType, TensorValue, ops
from maxlab.ir import ChainType
from maxlab.lab import reaching
from maxlab.lab.palette import offers
from maxlab.lab.ports import operand_names
from maxlab.lab.reaching import End, taken, takers
from maxlab.opset.verify import infer_types

F32, I32 = DType.float32, DType.int32


def accepted(graph: Graph, op: str, operand: int, value: str) -> str | None:
    """The type of the first result when the operand is connected in a copy; None if refused."""
    editor = Editor(Graph(path=graph.function.clone()))
    try:
        editor.connect(op, operand, value)
    except MaxlabError:
        return None
    made = editor.op(op).results
    return str(made[0].type) if made else ""


def require_true(graph: Graph, end: End) -> None:
    """What ``end`` says of ``graph`` is what connecting says."""
    found = accepted(graph, end.op, end.operand, end.value)
    assert end.state in ("same", "fits" if found is not None else "refused"), end
    assert end.says


def _some(values: Sequence[TensorValue], rng: random.Random) -> TensorValue:
    return rng.choice(values)


MAKERS: tuple[Callable[[Sequence[TensorValue], random.Random], object], ...] = (
    lambda v, r: ops.relu(_some(v, r)),
    lambda v, r: _some(v, r) + _some(v, r),
    lambda v, r: _some(v, r) @ _some(v, r),
    lambda v, r: ops.sum(_some(v, r), axis=-1),
    lambda v, r: ops.transpose(_some(v, r), -1, -2),
    lambda v, r: ops.reshape(_some(v, r), ["n", 2, 2]),
    lambda v, r: ops.cast(_some(v, r), I32),
    lambda v, r: ops.concat([_some(v, r), _some(v, r)], axis=-1),
    lambda v, r: ops.split(_some(v, r), [2, 2], axis=-1),
    lambda v, r: ops.rebind(_some(v, r), ["n", 4], "told"),
    lambda v, r: ops.softmax(_some(v, r)),
)


def grown(seed: int) -> Graph:
    """A graph of operations at random, those that do not fit left out."""
    rng = random.Random(seed)
    dims: tuple[list[int | str], ...] = (["n", 4], [4, 4], ["n"], ["n", 4])
    types = [TensorType(F32, sizes) for sizes in dims]
    with Graph("g", input_types=[*types, TensorType(I32, ["n", 4])]) as graph:
        values = [x.tensor for x in graph.inputs]
        for _ in range(14):
            try:
                made = rng.choice(MAKERS)(values, rng)
            except MaxlabError:
                continue
            found = made if isinstance(made, (list, tuple)) else [made]
            values += [v for v in found if isinstance(v, TensorValue)]
        graph.output(*values[-3:])
    return graph


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_is_what_connecting_says(seed: int) -> None:
    graph = grown(seed)
    before, revision = str(graph), graph.log.revision
    editor = Editor(graph)
    rng = random.Random(seed)
    values = [*graph.function.inputs, *(v for op in graph.function.ops for v in op.results)]
    for value in rng.sample(values, min(5, len(values))):
        for end in takers(editor, value):
            require_true(graph, end)
    for op in rng.sample(list(graph.function.ops), 2):
        for number in range(len(op.operands)):
            for end in taken(editor, op, number):
                require_true(graph, end)
    assert (str(graph), graph.log.revision) == (before, revision)


def test_loops_and_buffers_are_told_as_they_are() -> None:
    types = [TensorType(F32, ["n", 4]), TensorType(F32, [4]), TensorType(DType.bool, [])]
    with Graph("g", input_types=[*types, BufferType(F32, [4])]) as graph:
        x, row, flag = (graph.inputs[i].tensor for i in range(3))
        buffer = graph.inputs[3].buffer
        buffer[...] = ops.relu(row)
        held = buffer[...]
        (chosen,) = ops.cond(
            flag, [TensorType(F32, ["n", 4])], lambda: ops.exp(x) + held, lambda: ops.neg(x)
        )
        graph.output(chosen, ops.tanh(held))
    editor = Editor(graph)
    values = [*graph.function.inputs]
    values += [
        v for op in graph.function.ops for v in op.results if not isinstance(v.type, ChainType)
    ]
    for value in values:
        ends = takers(editor, value)
        assert ends
        for end in ends:
            require_true(graph, end)


def test_an_operation_is_not_offered_what_is_made_of_it() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        a = ops.relu(graph.inputs[0].tensor)
        graph.output(ops.tanh(a))
    editor = Editor(graph)
    first, second = graph.function.ops[:2]
    (end,) = [e for e in taken(editor, first, 0) if e.value == second.results[0].id]
    assert (end.state, end.says) == ("refused", f"it is made of relu {first.id}")
    (end,) = [e for e in takers(editor, second.results[0]) if e.op == first.id]
    assert end.state == "refused"


def test_a_large_graph_is_followed_once_and_not_for_each_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Types are inferred a few times for each operation, however long the way to the outputs is."""
    types = [TensorType(F32, ["n", 8]), TensorType(F32, ["n", 4])]
    with Graph("g", input_types=types) as graph:
        x = graph.inputs[0].tensor
        for _ in range(100):
            x = x + ops.relu(ops.tanh(x))
        graph.output(x)
    count = 0

    def counted(*args: object) -> object:
        nonlocal count
        count += 1
        return infer(*args)  # type: ignore[arg-type]

    infer = infer_types
    monkeypatch.setattr(reaching, "infer_types", counted)
    editor = Editor(graph)
    for name in ("input0", "input1"):
        takers(editor, editor.in_function(name))
    assert count < 2 * 5 * len(graph.function.ops)


# ---------------------------------------------------------------- names
def test_operands_have_the_names_of_the_parameters_that_they_are_given_by() -> None:
    """Where an operation can be built of as many inputs as it has values, these are its operands in
    that order."""
    checked = 0
    for name, offer in offers().items():
        places = [p for p in offer.parameters if p.kind == "value" and p.default is None]
        if len(places) != len(offer.parameters) or len(places) < 2:
            continue
        for types in (
            [TensorType(F32, [4, 4])] * len(places),
            [TensorType(DType.bool, [4]), *[TensorType(F32, [4])] * (len(places) - 1)],
            [TensorType(F32, [4]), TensorType(I32, [4]), TensorType(I32, [4])][: len(places)],
        ):
            with Graph("g", input_types=types) as graph:
                try:
                    made = getattr(ops, name)(*graph.inputs)
                except MaxlabError:
                    continue
            found = [op for op in graph.function.ops if op.name == f"mo.{name}"]
            if made is None or len(found) != 1 or len(graph.function.ops) != 1:
                continue
            assert list(found[0].operands) == list(graph.function.inputs), name
            assert operand_names(name) == [p.name for p in places]
            checked += 1
            break
    assert checked > 10


def test_names_of_operands() -> None:
    assert operand_names("matmul") == ["lhs", "rhs"]
    assert operand_names("concat")[0].endswith(" 0")
