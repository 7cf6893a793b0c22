"""The common part of edits: operations that move, go, or are replaced.

Each function changes a function's own block, and leaves values made before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maxlab.errors import GraphError
from maxlab.graph.flowing import substituted
from maxlab.ir import ChainType, Function, Op, Value
from maxlab.ir.poly import Poly
from maxlab.opset import is_constant, is_weight


def short_name(op: Op) -> str:
    """The name of ``op`` without the dialect: ``"matmul"``."""
    return op.name.removeprefix("mo.")


def put_before(function: Function, made: Op, op: Op) -> None:
    """Moves ``made``, and what it is made of, before ``op`` where it stands behind it.

    Raises:
        GraphError: ML315, ``made`` is made of what ``op`` makes.
    """
    places = {known: place for place, known in enumerate(function.ops)}
    if places[made] < places[op]:
        return
    behind: set[Op] = set()
    waiting = [made]
    while waiting:
        one = waiting.pop()
        if one is op:
            raise GraphError(
                "ML315",
                f"%{made.results[0].id} is made of {short_name(op)} {op.id}, which would read it",
                at=op.loc,
                fix="connect a value that does not depend on it",
            )
        if one in behind or places[one] < places[op]:
            continue
        behind.add(one)
        waiting += [v.op for v in one.operands if v.op is not None]
    for one in sorted(behind, key=places.__getitem__):
        function.block.move(one, op)


def _heal(op: Op) -> list[Value]:
    """Lets what reads the results of ``op`` read its operands; the values that they read now.

    Raises:
        GraphError: ML315, something reads a result, and ``op`` has no operand.
    """
    found: list[Value] = []
    for value in op.results:
        if not value.uses:
            continue
        is_chain = isinstance(value.type, ChainType)
        fit = [v for v in op.operands if isinstance(v.type, ChainType) is is_chain]
        if not fit:
            raise still_read(value)
        same = [v for v in fit if v.type == value.type]
        other = (same or fit)[0]
        value.replace_with(other)
        found.append(other)
    return found


def take_out(function: Function, gone: Iterable[Op]) -> list[Value]:
    """Removes ``gone``, and the constants that they alone read; what reads a result of theirs reads
    an operand instead. Returns the values that are read instead.

    Raises:
        GraphError: ML315, something else reads a result of an op without operands.
    """
    block = function.block
    places = {op: place for place, op in enumerate(block.ops)}
    operands: list[Value] = []
    healed: list[Value] = []
    for op in sorted(gone, key=places.__getitem__, reverse=True):
        healed += _heal(op)
        operands += op.operands
        block.remove(op)
    for value in dict.fromkeys(operands):
        made = value.op
        if is_constant(made) and made.block is block and not any(v.uses for v in made.results):
            block.remove(made)
    return healed


def resize(function: Function, sizes: Mapping[str, Poly]) -> None:
    """Lets attributes that name dims have what ``sizes`` has for them."""
    if not sizes:
        return
    for op in function.walk():
        for key, value in list(op.attrs.items()):
            new = substituted(value, sizes)
            if new is not value:
                op.set_attr(key, new)


def still_read(value: Value) -> GraphError:
    """The error for ``value``, which something reads, and nothing can take its place."""
    reader = next(iter(value.uses))
    name = value.name or f"%{value.id}"
    if is_weight(value.op):
        name = f"the weight {name!r}"
    return GraphError(
        "ML315",
        f"{short_name(reader)} {reader.id} reads {name}, and there is nothing it could read "
        "instead",
        at=reader.loc,
        fix="connect it to another value first, or remove it too",
    )


__all__ = ["put_before", "resize", "short_name", "still_read", "take_out"]
