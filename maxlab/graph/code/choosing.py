"""Which way an operation is written: the first that makes exactly it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph.code import calls
from maxlab.graph.code.calls import short_name, ways
from maxlab.graph.code.literals import dim, literal, numbers
from maxlab.graph.code.naming import given_name
from maxlab.graph.code.probe import Probe
from maxlab.graph.code.text import Atom, Node, Slice, call, mapped, number
from maxlab.ir import ChainType, Dim, Op, Shape, StaticDim, Value
from maxlab.opset import is_constant, lookup

CUTS = frozenset({"slice", "buffer.load_slice"})
HELPERS = frozenset({"nonzero.count", "bind_dim", "range.size"})
"""Operations that no function makes alone: they are parts of what is written as one call."""


@dataclass(frozen=True, slots=True)
class Written:
    """How an operation is written.

    Attributes:
        node: The expression, in which ``_0``, ``_1`` and so on stand for ``values``.
        values: What it reads.
        parts: Operations that are written with it.
        is_list: Whether it gives a list of the results, even of one.
    """

    node: Node
    values: tuple[Value, ...]
    parts: tuple[Op, ...] = ()
    is_list: bool = False

    def on(self, nodes: Sequence[Node]) -> Node:
        """The expression on ``nodes``."""
        by = {f"_{n}": node for n, node in enumerate(nodes)}
        return mapped(self.node, lambda atom: by.get(atom.text, atom))


class Chooser:
    """Chooses how operations are written, and remembers it."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._found: dict[Op, Written] = {}

    def of(self, op: Op) -> Written:
        """How ``op`` is written.

        Raises:
            GraphError: ML837, nothing that can be written makes it.
        """
        found = self._found.get(op)
        if found is None:
            found = self._found[op] = self._chosen(op)
        return found

    def _chosen(self, op: Op) -> Written:
        for parts, values, nodes in self._readings(op):
            operands = {f"_{n}": value for n, value in enumerate(values)}
            tried = compounds(op, nodes, parts) if parts else ways(op, nodes)
            alone = any(short_name(part) in HELPERS for part in parts)
            try:
                for node in tried:
                    if self._probe.makes(node, operands, [*parts, op], alone=alone):
                        node = self._probe.least(node, operands, [*parts, op], alone=alone)
                        is_list = self._probe.gives_list(node, operands)
                        return Written(node, tuple(values), tuple(parts), is_list)
            except MaxlabError as error:
                raise _cannot(op, error.what) from error
        raise _cannot(op, self._probe.why or "no expression makes it")

    def _readings(self, op: Op) -> Iterator[tuple[list[Op], list[Value], list[Node]]]:
        """Which operations may be written with ``op``, what is read then, and the operands."""
        own = [v for v in op.operands if not isinstance(v.type, ChainType)]
        helpers = _helpers(op)
        if helpers:
            reads = dict.fromkeys(
                v
                for part in (*helpers, op)
                for v in part.operands
                if v.op not in helpers and not isinstance(v.type, ChainType)
            )
            values = list(reads)
            yield helpers, values, [Atom(f"_{n}") for n in range(len(values))]
        for short in _numbers(own):
            parts = [own[n].op for n in short]
            values = list(dict.fromkeys(v for n, v in enumerate(own) if n not in short))
            nodes = [
                short[n] if n in short else Atom(f"_{values.index(v)}") for n, v in enumerate(own)
            ]
            yield [part for part in parts if part is not None], values, nodes
        yield from _turned(op, own)
        source = own[0].op if own else None
        if short_name(op) in ("reshape", "squeeze") and source is not None and _is_cut(source, op):
            read = [v for v in source.operands if not isinstance(v.type, ChainType)]
            values = list(dict.fromkeys(read))
            yield [source], values, [Atom(f"_{values.index(v)}") for v in read]
        values = list(dict.fromkeys(own))
        yield [], values, [Atom(f"_{values.index(v)}") for v in own]


def _helpers(op: Op) -> list[Op]:
    """The helpers that ``op`` alone reads, in order."""
    if short_name(op) in HELPERS or op.block is None:
        return []
    found: list[Op] = []
    waiting = [v.op for v in op.operands]
    while waiting:
        at = waiting.pop()
        if at is not None and short_name(at) in HELPERS and at not in found:
            found.append(at)
            waiting += [v.op for v in at.operands]
    users = {user for helper in found for result in helper.results for user in result.uses}
    if not found or not users <= {*found, op}:
        return []
    order = {each: n for n, each in enumerate(op.block.ops)}
    return sorted(found, key=lambda each: order.get(each, 0))


def _turned(op: Op, own: Sequence[Value]) -> Iterator[tuple[list[Op], list[Value], list[Node]]]:
    """A convolution with the operation that turns its filter into the order that it has."""
    if short_name(op) not in ("conv", "conv_transpose"):
        return
    source = own[1].op
    if source is not None and short_name(source) == "permute" and sum(own[1].uses.values()) == 1:
        read = [own[0], source.operands[0], *own[2:]]
        values = list(dict.fromkeys(read))
        yield [source], values, [Atom(f"_{values.index(v)}") for v in read]


def _numbers(values: Sequence[Value]) -> Iterator[dict[int, Node]]:
    """Which operands may be written as numbers, by their places."""
    known: dict[int, list[Node]] = {}
    for n, value in enumerate(values):
        op = value.op
        if not is_constant(op) or sum(value.uses.values()) != 1 or given_name(value):
            continue
        array = op.attrs["value"].array
        if array.ndim == 0:
            known[n] = list(_digits(array))
    if len(known) == len(values):
        return
    for n, nodes in known.items():
        for node in nodes:
            yield {n: node}


def _digits(array: np.ndarray[Any, Any]) -> Iterator[Node]:
    if array.dtype.kind == "f" or array.dtype.kind == "V":
        value = float(array)
        if value.is_integer() and abs(value) < 1e6:
            yield number(str(int(value)))
    yield from numbers(array)


# ---------------------------------------------------------------- several operations at once
def compounds(op: Op, operands: Sequence[Node], parts: Sequence[Op]) -> Iterator[Node]:
    """The ways to write ``op`` together with its helpers, or with a number for an operand."""
    short = short_name(op)
    if short == "nonzero":
        yield call("ops.nonzero", operands[0], dim(Dim(op.attrs["out_dim"])))
    elif short == "masked_scatter":
        for order in permutations(operands):
            yield call("ops.masked_scatter", *order, dim(op.operands[2].tensor_type.shape[0]))
    elif short in ("reshape", "squeeze") and short_name(parts[0]) in CUTS:
        entries = _dropped(parts[0], operands[1:], op.results[0].tensor_type.shape)
        if entries is not None:
            yield calls.subscript(operands[0], entries)
    else:
        yield from _with_numbers(op, operands)


def _with_numbers(op: Op, operands: Sequence[Node]) -> Iterator[Node]:
    for node in ways(op, operands):
        if "Graph.current" not in node.flat():  # a primitive takes values alone
            yield node


def _is_cut(source: Op, op: Op) -> bool:
    """Whether ``source`` cuts what ``op`` alone reads, so that both may be one index."""
    if short_name(source) not in CUTS or sum(source.results[0].uses.values()) != 1:
        return False
    if source.block is not op.block or op.block is None:
        return False
    if short_name(source) == "slice":
        return not given_name(source.results[0])
    at = op.block.ops.index(source)  # what is read at one time is not read at another
    return op.block.ops[at + 1] is op


def _dropped(source: Op, computed: Sequence[Node], wanted: Shape) -> list[Node] | None:
    """The entries of an index that cuts as ``source`` does, and drops dims of size 1 until the
    shape is ``wanted``."""
    shape = Shape(source.attrs["shape"])
    entries = calls.entries(source, computed)
    if entries is None:
        return None
    drops = len(shape) - len(wanted)
    made: list[Node] = []
    left = list(wanted)
    for n, size in enumerate(shape):
        is_slice = isinstance(entries[n], Slice)
        if is_slice and left and left[0] == size and not (size == 1 and drops):
            left.pop(0)
            made.append(entries[n])
        elif size == 1 and drops:
            drops -= 1
            start = Dim(source.attrs["starts"][n])
            whole = source.operands[0].tensor_type.shape[n]
            made.append(_index(start, whole) if is_slice else entries[n])
        else:
            return None
    return made if not left else None


def _index(start: Dim, size: Dim) -> Node:
    if isinstance(start, StaticDim):
        return number(str(start.dim))
    if isinstance(start - size, StaticDim):
        return literal(int(start - size))
    return dim(start, alone=True)


def _cannot(op: Op, why: str) -> GraphError:
    row = lookup(op.name)
    return GraphError(
        "ML837",
        f"the operation {op.id}, {row.name}, cannot be written as Python: {why}",
        at=op.loc,
        fix="save the graph as it is: graph.save('name.mlgraph'); or replace the operation, and "
        "write it then",
    )


__all__ = ["Chooser", "Written"]
