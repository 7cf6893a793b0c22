"""The canonical text of a function: what it computes, without what does not matter for that.

Two functions have one canonical text when they have the same inputs, weights, constants, operations
with the same attributes and types, wired alike, the same effects in the same order, and the same
outputs. Ids, places in code, scopes and the order of operations without effects are not told.
What nobody reads stands last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.errors import GraphError
from maxlab.graph.code.naming import given_name
from maxlab.ir import Block, Constant, Dim, Function, Op, Poly, Value, from_poly
from maxlab.ir.attrtext import attr_text, quote
from maxlab.ir.dims import parse_dim
from maxlab.ir.function import Call
from maxlab.opset import OPSET, is_chain, role_of
from maxlab.opset.attributes import Schema


def canonical(function: Function, *, names: bool = True) -> str:
    """The canonical text of ``function``, one operation a line.

    Args:
        function: A function.
        names: Whether the names of inputs and those that people gave to values count. Names of
            weights and dims always do.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> row = TensorType(DType.float32, ["n"])
        >>> graph = Graph("double", lambda x: x + x, [row])
        >>> print(canonical(graph.function))
        graph "double"(0 "input0": !mo.tensor<[n], f32>)
        1 = mo.add(0, 0) {}: !mo.tensor<[n], f32>
        mo.output(1) {}
    """
    writer = _Writer(names)
    inputs = ", ".join(
        f"{writer.number(v)}{f' {quote(v.name)}' if names else ''}: {v.type}"
        for v in function.inputs
    )
    writer.lines.append(f"graph {quote(function.name)}({inputs})")
    writer.block(function.block, "")
    return "\n".join(writer.lines)


def are_equal(one: Function, other: Function) -> bool:
    """Whether two functions are the same graph, whatever their values are called.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> def net(step):
        ...     return Graph("g", step, [TensorType(DType.float32, [2])]).function
        >>> are_equal(net(lambda x: ops.exp(x)), net(lambda y: ops.exp(y)))
        True
        >>> are_equal(net(ops.exp), net(ops.tanh))
        False
    """
    return canonical(one, names=False) == canonical(other, names=False)


class _Writer:
    def __init__(self, names: bool) -> None:
        self.names = names
        self.lines: list[str] = []
        self.numbers: dict[Value, int] = {}
        self.outer: dict[Value, Value] = {}  # what captured values of regions stand for
        self.written: set[Op] = set()
        self.chains: dict[str, int] = {}
        self.digests: dict[Op, str] = {}

    def number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def block(self, block: Block, pad: str) -> None:
        unread, idle = [], []
        for op in block.ops:
            if is_unread(op):
                unread.append(op)
            elif is_idle(op):
                idle.append(op)
            elif is_root(op):
                self.need(op, pad)
        if len(idle) > 1:  # their order is that of what they compute, wherever they stand
            idle.sort(key=self.digest)
        for op in sorted(unread, key=lambda op: (op.name, told_attrs(op))):
            self.need(op, pad)
        for op in idle:
            self.need(op, pad)

    def digest(self, root: Op) -> str:
        """A text that is the same for operations which compute the same of the same inputs."""
        waiting = [root]
        while waiting:
            op = waiting[-1]
            inner = [one for region in op.regions for one in region.ops]
            reads = [_origin(v, self.outer) for v in op.operands]
            missing = [one for one in inner if one not in self.digests]
            missing += [v.op for v in reads if v.op is not None and v.op not in self.digests]
            if missing and op not in self.digests:
                waiting += missing
                continue
            waiting.pop()
            told = [op.name, told_attrs(op), [str(r.type) for r in op.results]]
            told += [self._place(v) for v in reads]
            told += [self.digests[one] for one in inner]
            if self.names:
                told += [given_name(r) for r in op.results]
            self.digests[op] = hashlib.sha256(repr(told).encode()).hexdigest()
        return self.digests[root]

    def _place(self, value: Value) -> str:
        made = "argument" if value.op is None else self.digests[value.op]
        return f"{made} {value.index}"

    def need(self, root: Op, pad: str) -> None:
        """Write ``root``, behind the operations of its block that it needs."""
        waiting: list[Op | tuple[Op]] = [root]
        while waiting:
            at = waiting.pop()
            if isinstance(at, tuple):
                self.op(at[0], pad)
            elif at not in self.written:
                self.written.add(at)
                waiting.append((at,))
                waiting += [
                    made
                    for value in reversed(_reads(at, self.outer))
                    if (made := _origin(value, self.outer).op) is not None
                    and made not in self.written
                ]

    def op(self, op: Op, pad: str) -> None:
        if is_chain(op):  # a graph has one beginning for each device
            key = str(op.attrs.get("device"))
            self.numbers[op.result] = self.chains.setdefault(key, -1 - len(self.chains))
            return
        for region in op.regions:
            self.outer |= captured(op, region)
        operands = ", ".join(str(self.number(_origin(v, self.outer))) for v in told_operands(op))
        attrs = ", ".join(f"{key} = {text}" for key, text in told_attrs(op))
        line = f"{pad}{op.name}({operands}) {{{attrs}}}"
        if op.results:
            made = ", ".join(str(self.number(r)) for r in op.results)
            types = ", ".join(str(r.type) for r in op.results)
            line = f"{pad}{made} = {op.name}({operands}) {{{attrs}}}: {types}"
        if self.names and (given := [name for r in op.results if (name := given_name(r))]):
            line += f" named {given}"
        self.lines.append(line)
        for region in op.regions:
            own = [v for v in region.args if v not in self.outer]
            told = ", ".join(f"{self.number(v)}: {v.type}" for v in own)
            self.lines.append(f"{pad}  ({told}):")
            self.block(region, pad + "  ")


def is_root(op: Op) -> bool:
    """Whether ``op`` is there for itself, and not because another one reads it."""
    row = OPSET.get(op.name)
    effect = row is not None and row.effect and not is_chain(op)
    return bool(effect or op.regions or op.ends_block or not any(r.uses for r in op.results))


def is_idle(op: Op) -> bool:
    """Whether ``op`` computes what nobody reads, and does nothing else."""
    row = OPSET.get(op.name)
    effect = row is None or row.effect or op.regions or op.ends_block
    return not effect and not any(r.uses for r in op.results)


def is_unread(op: Op) -> bool:
    """Whether ``op`` is data or a weight that nobody reads: it stands anywhere."""
    return role_of(op) in ("data", "weight") and not op.result.uses


def _reads(op: Op, outer: dict[Value, Value]) -> list[Value]:
    """Values that must exist before ``op``: its own operands, then the values that its regions read
    from outside, in the order in which their text has them.
    """
    found = dict.fromkeys(told_operands(op))
    for region in op.regions:
        outer |= captured(op, region)
        inside = {v for inner in region.ops for v in inner.results} | set(region.args)
        seen: set[Op] = set()
        waiting = [inner for inner in reversed(region.ops) if is_root(inner)]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            reads = _reads(at, outer)
            for value in reads:
                origin = _origin(value, outer)
                if origin not in inside:
                    found.setdefault(origin)
            makers = (value.op for value in reversed(reads) if value in inside)
            waiting += [maker for maker in makers if maker is not None and maker not in seen]
    return list(found)


def _origin(value: Value, outer: Mapping[Value, Value]) -> Value:
    while value in outer:
        value = outer[value]
    return value


def captured(op: Op, region: Block) -> dict[Value, Value]:
    """The outer values that arguments of ``region`` captured, by argument, without chains."""
    count = len(region.args)
    skipped = len(op.operands) - count
    carried = carries(op)
    return {arg: op.operands[skipped + n] for n, arg in enumerate(region.args) if n >= carried}


def carries(op: Op) -> int:
    """How many arguments of the regions of ``op`` are not captured: those of a loop."""
    found = op.attrs.get("carried", 0)
    return found if isinstance(found, int) else 0


def told_operands(op: Op) -> Sequence[Value]:
    """The operands of ``op``; of one with regions those alone that it reads itself."""
    if not op.regions:
        return op.operands
    count = len(op.operands) - len(op.regions[0].args) + carries(op)
    return op.operands[:count]


def told_attrs(op: Op) -> list[tuple[str, str]]:
    """The attributes of ``op`` with their texts, by name; without those that are as they are where
    they are left out, and without places in code. A dim has one text however it was given."""
    row = OPSET.get(op.name)
    rules: Schema = {} if row is None else row.attrs
    places = ("file", "line") if role_of(op) == "custom" else ()
    found = []
    for key, value in sorted(op.attrs.items()):
        rule = rules.get(key)
        if key in places or (rule is not None and rule.optional and value == rule.default):
            continue
        kind = "" if rule is None else rule.kind
        if kind == "dim" and value is not None:
            found.append((key, str(_dim(value))))
        elif kind == "number" and is_float(op) and isinstance(value, int):
            found.append((key, text_of(float(value))))
        elif kind == "dims":
            found.append((key, f"[{', '.join(str(_dim(one)) for one in value)}]"))
        else:
            found.append((key, text_of(value)))
    return found


def is_float(op: Op) -> bool:
    """Whether the first result of ``op`` is of floats."""
    return bool(op.results) and op.results[0].tensor_type.dtype.is_float()


def _dim(value: Any) -> Dim:
    if isinstance(value, Poly):
        return from_poly(value)
    return parse_dim(value) if isinstance(value, str) else Dim(value)


def text_of(value: object) -> str:
    """The text of an attribute; that of a long constant is a hash."""
    if isinstance(value, Constant):
        return f"{value.array.dtype}{list(value.array.shape)} {value.digest}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(text_of, value))}]"
    try:
        return attr_text(value)
    except GraphError:
        if isinstance(value, Call):
            return repr(value)
        return f"{value!r} {id(value)}"


__all__ = [
    "are_equal",
    "canonical",
    "captured",
    "carries",
    "is_root",
    "told_attrs",
    "told_operands",
]
