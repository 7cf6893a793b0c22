"""Operations of a function as a function of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from maxlab.graph.inlining import copy_of
from maxlab.ir import Function, Op, Value
from maxlab.ir.core import walk


class Excerpt(NamedTuple):
    """The computation of some operations.

    Attributes:
        function: It has an input for each value that they read from outside, and gives what is read
            of them outside, or by nobody.
        ids: The ids of its operations by those of the originals.
        values: Its values by the originals, those that are read from outside included.
    """

    function: Function
    ids: Mapping[str, str]
    values: Mapping[Value, Value]


def excerpt(
    order: Sequence[Op], name: str, scope: Callable[[str], str] = lambda scope: scope
) -> Excerpt:
    """``order``, operations that stand in one block, in their order there, as a function.

    Args:
        order: The operations.
        name: What the function is called.
        scope: The scope of an operation of it, by that of the original.
    """
    function = Function(name)
    env: dict[Value, Value] = {}
    ids: dict[str, str] = {}
    for value in read_by(order):
        env[value] = function.add_input(value.type, value.name)
    for op in order:
        copy = copy_of(op, function, [env[v] for v in op.operands], ids, scope)
        function.block.append(copy)
        env.update(zip(op.results, copy.results, strict=True))
    results = [env[value] for value in given_by(order)]
    function.block.append(function.ending(results, order[-1].loc if order else None))
    return Excerpt(function, ids, env)


def read_by(order: Sequence[Op]) -> list[Value]:
    """The values that ``order`` reads from outside, each once."""
    chosen = set(order)
    return list(dict.fromkeys(v for op in order for v in op.operands if v.op not in chosen))


def given_by(order: Sequence[Op]) -> list[Value]:
    """The results of ``order`` that operations outside read, or that nothing reads."""
    chosen = set(order)
    return [
        value
        for op in order
        for value in op.results
        if not value.uses or any(reader not in chosen for reader in value.uses)
    ]


def with_inner(ops: Iterable[Op]) -> list[Op]:
    """``ops``, with those of their regions."""
    found: list[Op] = []
    for op in ops:
        found.append(op)
        for region in op.regions:
            found += walk(region)
    return found


__all__ = ["Excerpt", "excerpt", "given_by", "read_by", "with_inner"]
