"""Functions of all sorts, and random changes of them, for the tests of edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import Location
from maxlab.graph import BufferType, Graph, TensorType, Weight, ops
from maxlab.ir import (
    Block,
    ChainType,
    Constant,
    DeviceRef,
    Dim,
    FilterLayout,
    Function,
    Op,
    Shape,
    Type,
    Value,
    symbols_of,
)
from maxlab.ir.listening import ABSENT
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic
from maxlab.ir.rewriting import Rewriting

F32 = DType.float32
CPU = DeviceRef.CPU()
T = TypeVar("T")


# ---------------------------------------------------------------- what is changed
def _plain() -> Graph:
    with Graph("plain", input_types=[TensorType(F32, ["n", 4]), TensorType(F32, [4])]) as graph:
        x, w = (v.tensor for v in graph.inputs)
        y = ops.softmax(ops.relu(x) * w + 1.0)
        graph.output(y, ops.sum(y, axis=0))
    return graph


def _regions() -> Graph:
    types = [TensorType(F32, [4]), TensorType(DType.bool, [], CPU)]
    with Graph("regions", input_types=types) as graph:
        x, yes = (v.tensor for v in graph.inputs)
        (y,) = ops.cond(yes, [x.type], lambda: ops.exp(x), lambda: x * 2)
        (z,) = ops.while_loop(
            [y],
            lambda v: ops.cond(yes, [yes.type], lambda: yes, lambda: ops.max(v, axis=0)[0] > 3)[0],
            lambda v: [v + x],
        )
        graph.output(z)
    return graph


def _chains() -> Graph:
    with Graph("chains", input_types=[BufferType(F32, [4]), TensorType(F32, [4])]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        first = ops.buffer_load(b)
        ops.buffer_store(b, first * x)
        graph.output(ops.buffer_load(b))
    return graph


def _weights() -> Graph:
    with Graph("weights", input_types=[TensorType(F32, ["batch", 4])]) as graph:
        w = graph.add_weight(Weight("layer.w", F32, [4, 8], CPU))
        c = ops.constant(np.array([1, np.nan], np.float32), F32, CPU)
        graph.output(graph.inputs[0].tensor @ w, c)
    return graph


def _subgraphs() -> Graph:
    with Graph("calls", input_types=[TensorType(F32, [4])]) as graph:
        body = graph.add_subgraph("body", lambda x: ops.tanh(x.tensor) + 1, [TensorType(F32, [4])])
        y: Any = graph.inputs[0].tensor
        for _ in range(2):
            (y,) = ops.call(body, y)
        graph.output(y)
    return graph


_WITH_SUBGRAPH = """"mo.graph"() ({
^bb0(%a0: !mo.tensor<[n], f32>):
  %v0 = "mo.relu"(%a0) : (!mo.tensor<[n], f32>) -> !mo.tensor<[n], f32>
  "mo.output"(%v0) : (!mo.tensor<[n], f32>) -> ()
}, {
  "mo.graph"() ({
  ^bb0(%a0: !mo.tensor<[4], f32>):
    "mo.output"(%a0) : (!mo.tensor<[4], f32>) -> ()
  }) {sym_name = "inner"} : () -> ()
}) {sym_name = "outer", parameters = ["n"]} : () -> ()
"""


@cache
def texts() -> dict[str, str]:
    """The texts of functions with attributes, regions, chains, weights and subgraphs."""
    graphs = (_plain(), _regions(), _chains(), _weights(), _subgraphs())
    found = {graph.name: str(generic(graph.function)) for graph in graphs}
    return {**found, "subgraph": generic(parse_function(_WITH_SUBGRAPH))}


def function(name: str) -> Function:
    """One of those functions, new each time."""
    return parse_function(texts()[name])


# ---------------------------------------------------------------- how it is changed
ATTRS: tuple[Any, ...] = (
    0, True, None, -(2**70), 1.5, -0.0, float("nan"), float("inf"), "text", 'q"uo\\te \n é', (),
    (1, "a"), DType.int8, DType.bfloat16, Dim(3), Dim("n") * 2 + 1, Shape([2, "k"]),
    TensorType(F32, ["n"]), ChainType(), DeviceRef.GPU(1), FilterLayout.RSCF,
    Constant(np.array([[1, 2], [3, 4]], np.int64)),
    Constant(np.array([np.nan, -0.0], np.float32)), Constant(np.arange(40, dtype=np.uint8)),
    Constant(np.zeros((0, 3), np.float64)),
)  # fmt: skip
TYPES: tuple[Type, ...] = (
    TensorType(F32, [4]), TensorType(DType.int32, ["n", "k"]),
    TensorType(F32, [], DeviceRef.GPU(0)), BufferType(F32, [Dim("n") + 1]), ChainType(),
)  # fmt: skip
NAMES = ("", "x", "layer.0", 'quo"ted\n', "é")
KEYS = ("axis", "k", "mo.k", "a b")


class Steps:
    """Random changes of ``function``; each takes three numbers, and does nothing where there is
    nothing to change."""

    def __init__(self, function: Function) -> None:
        self.f = function

    # ------------------------------------------------------------ choosing
    def blocks(self) -> list[Block]:
        """All blocks."""
        return [self.f.block, *(r for op in self.f.walk() for r in op.regions)]

    def ops(self) -> list[Op]:
        """All ops but the outputs of blocks."""
        return [op for op in self.f.walk() if op.name != "mo.output"]

    def before(self, block: Block, op: Op | None) -> list[Value]:
        """The values that ``op`` of ``block`` may read, or any op at its end."""
        found = list(block.args)
        for other in block.ops:
            if other is op:
                break
            found += other.results
        return found

    def values(self) -> list[Value]:
        """All values."""
        found = [v for block in self.blocks() for v in block.args]
        return found + [v for op in self.f.walk() for v in op.results]

    # ------------------------------------------------------------ ops
    def add_op(self, a: int, b: int, c: int) -> None:
        """An op anywhere, also in a region."""
        block = pick(self.blocks(), a)
        self._add(block, pick(block.ops, b) if block.ops else None, b, c)

    def _add(self, block: Block, before: Op | None, b: int, c: int, *regions: Block) -> Op:
        known = self.before(block, before)
        operands = [pick(known, b + n) for n in range(c % 3)] if known else []
        op = self.f.create(
            "mo.any",
            operands,
            [pick(TYPES, c + n) for n in range(1 + b % 2)],
            {key: pick(ATTRS, b + n) for n, key in enumerate(KEYS[: c % 4])},
            loc=Location("cell [2]", b % 9 + 1, c % 5, "x = y" * (b % 2)) if c % 2 else None,
            scope=pick(NAMES, b),
            origins=("n0", "n7") if b % 5 == 1 else (),
        )
        for region in regions:
            op.add_region(region)
        op.results[0].rename(pick(NAMES, c))
        return block.insert(op, before)

    def add_region(self, a: int, b: int, c: int) -> None:
        """An op with a region, which is built, changed, and then had."""
        region = self.f.region()
        for n in range(1 + c % 3):
            region.add_argument(f"b{self.f.fresh()}", pick(TYPES, b + n), pick(NAMES, a))
        inner = self._add(region, None, a, b)
        inner.set_attr("k", pick(ATTRS, c))
        region.append(self.f.create("mo.output", [inner.results[0]], []))
        if c % 2:
            region.order_arguments(region.args[::-1])
        block = pick(self.blocks(), a)
        self._add(block, block.ops[-1] if block.ops else None, b, c, region)

    def remove_op(self, a: int, b: int, c: int) -> None:
        """An op goes; what reads it reads something before it."""
        op = pick_or_none(self.ops(), a)
        if op is None or op.block is None:
            return
        known = self.before(op.block, op)
        if any(v.uses for v in op.results):
            if not known:
                return
            for value in op.results:
                value.replace_with(pick(known, b))
        op.block.remove(op)

    def move_op(self, a: int, b: int, c: int) -> None:
        """An op stands elsewhere in its block: behind what it reads, before what reads it."""
        ops = self.ops()
        for op in (*ops[a % len(ops) :], *ops[: a % len(ops)]) if ops else ():
            if op.block is None:
                continue
            order = op.block.ops
            made = [order.index(v.op) + 1 for v in op.operands if v.op in order]
            read = [order.index(user) for v in op.results for user in v.uses if user in order]
            first, last = max(made, default=0), min(read, default=len(order) - order[-1].ends_block)
            here = order.index(op)
            if elsewhere := [n for n in range(first, last + 1) if n not in (here, here + 1)]:
                target = pick(elsewhere, b)
                op.block.move(op, order[target] if target < len(order) else None)
                return

    def rewrite(self, a: int, b: int, c: int) -> None:
        """A pass: many ops go, and others come, in one go."""
        with Rewriting(self.f) as rewriting:
            for n, op in enumerate([o for o in self.f.ops if o.name != "mo.output"]):
                known = self.before(self.f.block, self.f.ops[0])
                if (a + n) % 3 or not known:
                    continue
                rewriting.rule("some", op)
                made = self.f.create(
                    "mo.made", [known[b % len(known)]], [r.type for r in op.results]
                )
                rewriting.insert(made, op)
                if c % 2:
                    more = self.f.create("mo.more", [known[0]], [known[0].type])
                    rewriting.insert(more, made)
                    rewriting.remove(more)
                rewriting.replace(op, made.results)

    # ------------------------------------------------------------ parts of ops
    def set_operands(self, a: int, b: int, c: int) -> None:
        """An op, perhaps the output, reads others, more or less of them."""
        op = pick(list(self.f.walk()), a)
        assert op.block is not None
        known = self.before(op.block, op)
        if known:
            op.set_operands([pick(known, b + n) for n in range(c % 4)])

    def set_operand(self, a: int, b: int, c: int) -> None:
        """One operand."""
        op = pick(list(self.f.walk()), a)
        assert op.block is not None
        if op.operands:
            op.set_operand(b % len(op.operands), pick(self.before(op.block, op), c))

    def replace_uses(self, a: int, b: int, c: int) -> None:
        """All that read a value read one that is made before."""
        value = pick_or_none(self.values(), a)
        block = None if value is None else value.block
        if value is None or block is None:
            return
        known = self.before(block, value.op) if value.op is not None else block.args
        if known:
            value.replace_with(pick(known, b))

    def set_results(self, a: int, b: int, c: int) -> None:
        """The last results, which nobody reads, go."""
        op = pick_or_none(self.ops(), a)
        if op is not None:
            used = [n for n, v in enumerate(op.results) if v.uses]
            op.set_results(op.results[: max([b % 2, *(n + 1 for n in used)])])

    def set_attr(self, a: int, b: int, c: int) -> None:
        """One attribute is set, put somewhere, or goes."""
        op = pick(list(self.f.walk()), a)
        before = pick([None, *op.attrs], c)
        op.set_attr(pick(KEYS, b), ABSENT if c % 4 == 0 else pick(ATTRS, b + c), before)

    def set_attrs(self, a: int, b: int, c: int) -> None:
        """All attributes at once."""
        op = pick(list(self.f.walk()), a)
        keys = [pick(KEYS, b + n) for n in range(c % 4)]
        op.set_attrs({key: pick(ATTRS, a + n) for n, key in enumerate(keys)})

    def set_source(self, a: int, b: int, c: int) -> None:
        """Another place, scope and origins."""
        op = pick(list(self.f.walk()), a)
        loc = None if b % 3 == 0 else Location("m.py", b % 7 + 1, 2, "text é", "f", 9)
        op.set_whole_source((loc, pick(NAMES, b), (op.id, "n3") if c % 2 else (op.id,)))

    # ------------------------------------------------------------ values and blocks
    def rename(self, a: int, b: int, c: int) -> None:
        """A value, or the function, is called otherwise."""
        if c % 8 == 0:
            self.f.rename(pick(("f", "g", "two words"), b))
        elif values := self.values():
            pick(values, a).rename(pick(NAMES, b))

    def retype(self, a: int, b: int, c: int) -> None:
        """A value of another type."""
        if values := self.values():
            pick(values, a).retype(pick(TYPES, b))
            self.set_parameters(a, b, c)

    def add_argument(self, a: int, b: int, c: int) -> None:
        """An argument of a region, anywhere, or an input."""
        block = pick(self.blocks(), a)
        if block is self.f.block:
            self.f.add_input(pick(TYPES, b), pick(NAMES, c))
        else:
            number, name = self.f.fresh(), pick(NAMES, c)
            index = c % (len(block.args) + 1)
            block.add_argument(f"b{number}", pick(TYPES, b), name, index=index)

    def remove_argument(self, a: int, b: int, c: int) -> None:
        """An argument that nobody reads goes."""
        unread = [v for block in self.blocks() for v in block.args if not v.uses]
        value = pick_or_none(unread, a)
        if value is not None and value.block is not None:
            value.block.remove_argument(value)

    def order_arguments(self, a: int, b: int, c: int) -> None:
        """The arguments in another order."""
        several = [block for block in self.blocks() if len(block.args) > 1]
        block = pick_or_none(several, a)
        if block is not None:
            turn = 1 + b % (len(block.args) - 1)
            block.order_arguments([*block.args[turn:], *block.args[:turn]])

    def set_parameters(self, a: int, b: int, c: int) -> None:
        """Other symbolic dims."""
        needed = [str(dim) for dim in symbols_of(v.type for v in self.f.inputs)]
        more = [pick(("n", "k", "batch", "m"), a + n) for n in range(b % 4)]
        self.f.set_parameters([*more, *needed])

    # ------------------------------------------------------------ beside the function
    def set_note(self, a: int, b: int, c: int) -> None:
        """What people laid beside it is set, put somewhere, or goes."""
        table = pick(("places", "comments"), a)
        keys = [*self.f.notes.get(table, {})]
        note = None if c % 3 == 0 else pick(NAMES, b)
        self.f.set_note(
            table, pick(("n0", "n1", "c0", "c1", "c2"), b), note, pick([None, *keys], c)
        )


STEPS: tuple[Callable[[Steps, int, int, int], None], ...] = (
    Steps.add_op, Steps.add_region, Steps.remove_op, Steps.move_op, Steps.rewrite,
    Steps.set_operands, Steps.set_operand, Steps.replace_uses, Steps.set_results, Steps.set_attr,
    Steps.set_attrs,
    Steps.set_source, Steps.rename, Steps.retype, Steps.add_argument, Steps.remove_argument,
    Steps.order_arguments, Steps.set_parameters, Steps.set_note,
)  # fmt: skip


def pick(items: Sequence[T], number: int) -> T:
    """One of ``items``."""
    return items[number % len(items)]


def pick_or_none(items: Sequence[T], number: int) -> T | None:
    """One of ``items``, None if there is none."""
    return items[number % len(items)] if items else None


__all__ = ["STEPS", "Steps", "function", "texts"]
